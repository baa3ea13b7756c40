"""The inverse question: what would it take to reach a scaling factor?"""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from wirebound.errors import InputError, unknown_name
from wirebound.model import Cluster, Link, Method, Workload
from wirebound.model.compressor import FREE_CODEC
from wirebound.simulate.step import accumulated_compute_s, simulate_step
from wirebound.units import BYTES_PER_S_PER_GBPS

Quantity = Literal["bandwidth", "compression", "gpus", "batch"]

#: What can be solved for, and the unit of the answer.
UNITS: dict[str, str] = {"bandwidth": "Gbps", "compression": "×", "gpus": "GPUs", "batch": "samples"}

#: No more accelerators are tried.
SEARCH_LIMIT = 1_048_576
#: No more samples per accelerator are tried.
BATCH_LIMIT = 1_000_000_000
#: Dividing the bytes by this much leaves nothing of them.
COMPRESSION_LIMIT = 1e12

_SCAN_FACTOR = 2 ** (1 / 8)
_PRECISION = 1e-12


@dataclass(frozen=True, slots=True)
class Need:
    """An answer: `value` in `unit`, and the scaling factor there; `value` is None where no value reaches the target.

    `scaling_factor` is then the best that was found. `limited_by` names what stands in the way of an unreachable
    target: ``bandwidth``, ``latency``, ``vector-add``, ``encoding and decoding``, ``intra-node bandwidth`` or
    ``slots of the switch``. `at_search_limit` says that the search ended at its limit: the largest number of
    accelerators tried still reaches the target, or even `BATCH_LIMIT` samples do not, which says nothing of more.
    """

    value: float | None
    unit: str
    scaling_factor: float
    reachable: bool
    at_search_limit: bool = False
    limited_by: str | None = None


@dataclass(frozen=True, slots=True)
class _Job:
    """Everything that a step depends on, so that one thing of it can be replaced."""

    workload: Workload
    cluster: Cluster
    method: Method
    include_vector_add: bool
    accumulation: int

    def scaling_factor(self) -> float:
        return simulate_step(
            self.workload,
            self.cluster,
            self.method,
            include_vector_add=self.include_vector_add,
            accumulation=self.accumulation,
        ).scaling_factor

    def with_links(self, *, inter: Link | None = None, intra: Link | None = None) -> "_Job":
        cluster = dataclasses.replace(
            self.cluster, inter=inter or self.cluster.inter, intra=intra or self.cluster.intra
        )
        return dataclasses.replace(self, cluster=cluster)

    def with_value(self, solve: str, value: float) -> "_Job":
        """The job with the quantity that is solved for set to `value` (bandwidth in bytes per second)."""
        if solve == "bandwidth":
            return self.with_links(inter=dataclasses.replace(self.cluster.inter, bandwidth=value))
        if solve == "compression":
            return dataclasses.replace(self, method=dataclasses.replace(self.method, compression=value))
        if solve == "gpus":
            nodes = int(value) // self.cluster.accelerators_per_node
            return dataclasses.replace(self, cluster=dataclasses.replace(self.cluster, nodes=nodes))
        return dataclasses.replace(self, workload=self.workload.with_batch(int(value)))


def solve_need(
    workload: Workload,
    cluster: Cluster,
    method: Method,
    *,
    target: float,
    solve: str,
    include_vector_add: bool = True,
    accumulation: int = 1,
) -> Need:
    """Return the smallest bandwidth, compression or batch, or the most accelerators, that reach a scaling factor.

    `solve` is one of `UNITS`; its present value in `cluster`, `method` or `workload` is ignored. Compression is at
    least 1, the batch at least one sample per accelerator, and accelerators come in whole nodes of
    `cluster.accelerators_per_node`. The bandwidth is that of the nodes' network links, 0 where one node needs none.

    The search scans upward in steps of 9 % and then bisects. Where the scaling factor only rises (or falls) with the
    quantity, as it does with fixed messages first come, first served, the answer is exact to rounding. Where messages
    change with the network or the compute time (mg-wfbp, horovod), transfers overtake (priority), or the collective
    favours certain sizes (halving-doubling), it need not be monotone: the answer then reaches the target and is the
    first (for accelerators the last) such value that the scan meets; a narrow exception between two steps may be
    missed.

    Raises `InputError` for a target outside (0, 1] or an unknown quantity.
    """
    if not 0 < target <= 1:
        raise InputError(f"target {target} must be a scaling factor greater than 0 and at most 1, such as 0.95")
    if solve not in UNITS:
        raise unknown_name("quantity to solve for", solve, UNITS)
    job = _Job(workload, cluster, method, include_vector_add, accumulation)

    def reaches(value: float) -> bool:
        return job.with_value(solve, value).scaling_factor() >= target

    value: float | None
    if solve == "gpus":
        value, extreme = _most_gpus(reaches, cluster.accelerators_per_node), float(cluster.accelerators_per_node)
    elif solve == "batch":
        value, extreme = _smallest_whole(reaches, BATCH_LIMIT), float(BATCH_LIMIT)
    elif solve == "compression":
        value, extreme = _smallest(reaches, 1.0, COMPRESSION_LIMIT), COMPRESSION_LIMIT
    else:
        value, extreme = _smallest_bandwidth(reaches, job, target), math.inf
    if value is None:
        best = job.with_value(solve, extreme)
        return Need(
            value=None,
            unit=UNITS[solve],
            scaling_factor=best.scaling_factor(),
            reachable=False,
            at_search_limit=solve == "batch",
            limited_by=_limit(best),
        )
    whole_nodes = SEARCH_LIMIT // cluster.accelerators_per_node * cluster.accelerators_per_node
    return Need(
        value=value / BYTES_PER_S_PER_GBPS if solve == "bandwidth" else value,
        unit=UNITS[solve],
        scaling_factor=job.with_value(solve, value or math.inf).scaling_factor(),
        reachable=True,
        at_search_limit=solve == "gpus" and value == whole_nodes,
    )


def _smallest_bandwidth(reaches: Callable[[float], bool], job: _Job, target: float) -> float | None:
    """The smallest bandwidth in bytes per second; at 0 nothing crosses the network at all."""
    if not reaches(math.inf):
        return None
    slow = job.with_value("bandwidth", 1.0)  # where bytes are all that counts, `auto` sends the fewest
    step = simulate_step(slow.workload, slow.cluster, slow.method)
    if step.node_wire_bytes == 0:
        return 0.0
    # The link must carry its bytes within the time that the target allows for a step; less can never do.
    allowed_s = accumulated_compute_s(job.workload, job.accumulation) / target
    lowest = step.node_wire_bytes / job.cluster.nics_per_node / job.cluster.inter.utilization / allowed_s / 2
    return _smallest(reaches, lowest, lowest * COMPRESSION_LIMIT)


def _smallest(reaches: Callable[[float], bool], low: float, limit: float) -> float | None:
    """Scan from `low` up to `limit` and bisect below the first value that reaches; None where none does."""
    if reaches(low):
        return low
    if not reaches(limit):
        return None
    high = low
    while not reaches(high := min(high * _SCAN_FACTOR, limit)):
        low = high
    while high / low - 1 > _PRECISION:
        middle = math.sqrt(low * high)
        if not low < middle < high:
            break
        if reaches(middle):
            high = middle
        else:
            low = middle
    return high


def _smallest_whole(reaches: Callable[[float], bool], limit: int) -> int | None:
    """Scan whole numbers from 1 up to `limit` and bisect below the first that reaches."""
    low = 0
    for high in _whole_steps(limit):
        if reaches(high):
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if reaches(middle) else (middle, high)
            return high
        low = high
    return None


def _most_gpus(reaches: Callable[[float], bool], per_node: int) -> int | None:
    """Scan whole nodes up to the search limit and bisect above the last that reaches."""
    limit = max(1, SEARCH_LIMIT // per_node)
    steps = _whole_steps(limit)
    reached = [nodes for nodes in steps if reaches(nodes * per_node)]
    if not reached:
        return None
    low = reached[-1]
    high = next((nodes for nodes in steps if nodes > low), low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if reaches(middle * per_node) else (low, middle)
    return low * per_node


def _whole_steps(limit: int) -> list[int]:
    """1, 2, 3, … `limit`: all of the small numbers, then eight an octave, every power of two among them."""
    numbers = {limit}
    octave = 0
    while 2**octave <= limit:
        numbers.update(min(limit, round(2 ** (octave + eighth / 8))) for eighth in range(8))
        octave += 1
    return sorted(numbers)


def _limit(job: _Job) -> str:
    """Name the term without which the best job would run best: what stands in the way of the target."""
    inter, intra = job.cluster.inter, job.cluster.intra
    method = job.method
    if method.compressor is not None:
        method = dataclasses.replace(method, compressor=dataclasses.replace(method.compressor, codec=FREE_CODEC))
    without = {
        "bandwidth": job.with_links(inter=dataclasses.replace(inter, bandwidth=math.inf)),
        "latency": job.with_links(
            inter=dataclasses.replace(inter, latency_s=0.0), intra=dataclasses.replace(intra, latency_s=0.0)
        ),
        "vector-add": dataclasses.replace(job, include_vector_add=False),
        "encoding and decoding": dataclasses.replace(job, method=method),
        "intra-node bandwidth": job.with_links(intra=dataclasses.replace(intra, bandwidth=math.inf)),
    }
    if job.method.collective.startswith("in-network"):
        endless = dataclasses.replace(job.method, collective="in-network:@0")
        without["slots of the switch"] = dataclasses.replace(job, method=endless)
    return max(without, key=lambda term: without[term].scaling_factor())
