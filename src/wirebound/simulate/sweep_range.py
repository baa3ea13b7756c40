"""Some consecutive configurations of a sweep: what threads and Dask workers compute, each on its own."""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wirebound.model import Cluster, Link, Method
from wirebound.simulate.all_reduces import FLAT_RING
from wirebound.simulate.collectives import ALL_REDUCES
from wirebound.simulate.cost import sent_bytes
from wirebound.simulate.job import TrainingJob
from wirebound.simulate.messages import planned_messages
from wirebound.simulate.step import accumulated_compute_s, earlier_passes_s, simulate_step
from wirebound.simulate.sweep_axes import CLUSTER_AXES, NETWORK_AXES, job_at
from wirebound.simulate.sweep_kernels import (
    additions_function,
    fifo_kernel,
    mg_wfbp_kernel,
    price_function,
    priority_kernel,
)

Floats = NDArray[np.float64]

#: What the kernels know of the nouns. A job that sets anything else goes through `simulate_step`, one by one.
_KNOWN = {
    Method: {
        *("name", "architecture", "schedule", "collective", "fusion_bytes", "fusion_window_s", "bucket_cap_bytes"),
        *("first_bucket_bytes", "merge_below_bytes", "partition_bytes", "credit_bytes", "servers", "colocated"),
        *("push_pull_overlap", "compression"),
    },
    Cluster: {"nodes", "inter", "accelerators_per_node", "intra", "nics_per_node"},
    Link: {"bandwidth", "latency_s", "utilization"},
}
_COLLECTIVES = (*ALL_REDUCES, FLAT_RING)
_FIXED_SCHEDULES = ("bsp", "wfbp", "horovod", "ddp")


@dataclass(frozen=True)
class Grid:
    """All configurations of a sweep, numbered with the last axis fastest, and the quantities wanted of each.

    `axes` are checked values in the order of `sweep_axes.AXES`, except that `compression` comes right before the
    other network axes.
    """

    job: TrainingJob
    axes: dict[str, Sequence[Any]]
    quantities: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""
        return tuple(len(values) for values in self.axes.values())

    @property
    def networks(self) -> int:
        """Configurations that differ in network axes only."""
        return math.prod(len(self.axes[name]) for name in NETWORK_AXES if name in self.axes)


def compute_range(grid: Grid, start: int, stop: int, out: Floats | None = None) -> Floats:
    """Return the quantities of the configurations from `start` up to `stop`: shape (quantities, stop − start).

    They are written into `out` where it is given. Raises `InputError` as `simulate_step` does.
    """
    if out is None:
        out = np.empty((len(grid.quantities), stop - start))
    slow_axes = {name: values for name, values in grid.axes.items() if name not in NETWORK_AXES}
    points = itertools.product(*slow_axes.values())
    networks = grid.networks
    position = start
    key: tuple[Any, ...] | None = None
    for number, point in enumerate(itertools.islice(points, start // networks, None), start // networks):
        if position >= stop:
            break
        values = dict(zip(slow_axes, point, strict=True))
        changed = tuple(value for name, value in values.items() if name not in CLUSTER_AXES)
        if key is None or changed != key:  # the workload and its messages stay while only the cluster changes
            base = _Planned(job_at(grid.job, {name: v for name, v in values.items() if name not in CLUSTER_AXES}))
            key = changed
        job = job_at(base.job, {name: value for name, value in values.items() if name in CLUSTER_AXES})
        first = position - number * networks
        last = min(networks, stop - number * networks)
        _fill(grid, base, job, first, last, out[:, position - start : position - start + last - first])
        position += last - first
    return out


class _Planned:
    """A job and the arrays of its messages that no network changes."""

    def __init__(self, job: TrainingJob) -> None:
        self.job = job
        workload, method = job.workload, job.method
        self.compiled = _is_compiled(method)
        if not self.compiled:
            return
        if method.schedule == "mg-wfbp":
            self.sizes, self.ready = _floats(workload.sizes), _floats(workload.ready_s)
        else:
            planned = planned_messages(workload, method)
            self.sizes, self.ready = _floats([m.size for m in planned]), _floats([m.ready_s for m in planned])
            self.tensors = np.array([m.tensors[-1] for m in planned], dtype=np.int64)
        table = sorted(workload.vector_add) if job.include_vector_add else []
        self.table_bytes, self.table_s = _floats([size for size, _ in table]), _floats([s for _, s in table])


def _floats(values: Any) -> Floats:
    return np.asarray(values, dtype=np.float64)


def _is_default(noun: Any) -> bool:
    """Whether every field that the kernels know nothing of has its default."""
    return all(
        getattr(noun, field.name) == field.default
        for field in dataclasses.fields(noun)
        if field.name not in _KNOWN[type(noun)]
    )


def _is_compiled(method: Method) -> bool:
    if not _is_default(method) or (method.architecture == "all-reduce" and method.collective not in _COLLECTIVES):
        return False
    if method.schedule == "mg-wfbp":  # its messages are not known before the network is: no pieces of them here
        return method.partition_bytes == math.inf
    return method.schedule in (*_FIXED_SCHEDULES, "priority")


def _fill(grid: Grid, base: _Planned, job: TrainingJob, first: int, last: int, out: Floats) -> None:
    """Write the quantities of networks `first` up to `last` of one point of the other axes into `out`."""
    workload, cluster = job.workload, job.cluster
    inter = cluster.inter
    alone = (job.method.compression, inter.latency_s, inter.bandwidth, inter.utilization)
    axes = [_floats(grid.axes.get(name, [value])) for name, value in zip(NETWORK_AXES, alone, strict=True)]
    if not (base.compiled and _is_default(cluster) and _is_default(inter) and _is_default(cluster.intra)):
        _define(grid.quantities, job, axes, first, last, out)
        return
    compute_s = accumulated_compute_s(workload, job.accumulation)
    busy = np.empty(last - first if "communication_s" in grid.quantities else 0)
    iteration = out[0] if len(out) == 1 else np.empty(last - first)  # one quantity is worked out in place
    if cluster.workers == 1:
        iteration[:], busy[:] = compute_s, 0.0
    else:
        _iterations(base, job, axes, first, last, iteration, busy)
    for row, quantity in zip(out, grid.quantities, strict=True):
        if quantity == "iteration_s":
            row[:] = iteration
        elif quantity == "scaling_factor":
            np.divide(compute_s, iteration, out=row)
        elif quantity == "exposed_s":
            np.subtract(iteration, compute_s, out=row)
        elif quantity == "compute_s":
            row[:] = compute_s
        elif quantity == "communication_s":
            row[:] = busy
        else:
            row[:] = _traffic(quantity, job, axes, first, last, iteration)


def _iterations(
    base: _Planned, job: TrainingJob, axes: list[Floats], first: int, last: int, end: Floats, busy: Floats
) -> None:
    """Write the seconds of an iteration on each network into `end` by the kernel of the job's schedule."""
    workload, cluster, method = job.workload, job.cluster, job.method
    servers = "colocated" if method.colocated else "servers"
    kind = method.collective if method.architecture == "all-reduce" else servers
    shape = (
        cluster.nodes,
        cluster.accelerators_per_node,
        cluster.nics_per_node,
        cluster.intra.latency_s,
        cluster.intra.effective_bandwidth,
        method.servers or cluster.nodes,
        method.push_pull_overlap,
    )
    common = (price_function(kind), first, last, tuple(axes), shape, base.sizes, base.ready)
    earlier_s = earlier_passes_s(workload, job.accumulation)
    if method.schedule == "mg-wfbp":
        count = len(base.sizes)
        ranges = np.zeros((count, count))
        for begin in range(count):
            ranges[begin, begin:] = np.cumsum(base.sizes[begin:])
        adds = _additions(base, kind, cluster, ranges.ravel()).reshape(count, count)
        add_0 = float(_additions(base, kind, cluster, np.zeros(1))[0])
        mg_wfbp_kernel()(*common, adds, add_0, float(method.merge_below_bytes), end, busy)
    else:
        adds = _additions(base, kind, cluster, base.sizes)
        if method.schedule == "priority":
            sizes, gaps = _floats(workload.sizes), _floats(workload.forward_gaps_s)
            priority_kernel()(
                *(*common, adds, base.tensors, float(method.credit_bytes)),
                *(sizes, gaps, float(workload.optimizer_s), float(workload.backward_s), end, busy),
            )
            # As in `simulate_step`.
            end += earlier_s
            np.maximum(end, accumulated_compute_s(workload, job.accumulation), out=end)
            return
        fifo_kernel()(*common, adds, end, busy)
    # As in `simulate_step`, and in its order.
    np.maximum(end, workload.backward_s, out=end)
    end += earlier_s + workload.forward_s
    end += workload.optimizer_s


def _additions(base: _Planned, kind: str, cluster: Cluster, sizes: Floats) -> Floats:
    """Seconds of vector additions of messages of these sizes."""
    adds = np.zeros(len(sizes))
    if len(base.table_s):
        additions_function(kind)(
            sizes, cluster.nodes, cluster.accelerators_per_node, base.table_bytes, base.table_s, adds
        )
    return adds


def _traffic(quantity: str, job: TrainingJob, axes: list[Floats], first: int, last: int, iteration: Floats) -> Floats:
    """Bytes sent, and the share of the link that they take, for each network."""
    networks = np.arange(first, last)
    if job.cluster.workers == 1:
        return np.zeros(last - first)
    per_ratio = math.prod(len(values) for values in axes[1:])
    ratios = [dataclasses.replace(job.method, compression=ratio) for ratio in axes[0].tolist()]
    sent = np.array([sent_bytes(job.workload, job.cluster, method) for method in ratios])
    worker: Floats
    node: Floats
    worker, node = np.ascontiguousarray(sent[networks // per_ratio].T)
    if quantity == "wire_bytes_per_worker":
        return worker
    if quantity == "node_wire_bytes":
        return node
    bandwidths = axes[2][networks // len(axes[3]) % len(axes[2])]
    return node / (bandwidths * job.cluster.nics_per_node * iteration)


def _define(
    quantities: tuple[str, ...], job: TrainingJob, axes: list[Floats], first: int, last: int, out: Floats
) -> None:
    """The definition itself, configuration by configuration."""
    inter = job.cluster.inter
    points = itertools.islice(itertools.product(*(axis.tolist() for axis in axes)), first, last)
    for column, (ratio, latency_s, bandwidth, utilization) in enumerate(points):
        link = dataclasses.replace(inter, bandwidth=bandwidth, latency_s=latency_s, utilization=utilization)
        step = simulate_step(
            job.workload,
            dataclasses.replace(job.cluster, inter=link),
            dataclasses.replace(job.method, compression=ratio),
            include_vector_add=job.include_vector_add,
            accumulation=job.accumulation,
        )
        out[:, column] = [getattr(step, quantity) for quantity in quantities]
