"""The fast path: one step on very many configurations, equal to `simulate.step` and compiled.

`simulate_step` is the definition. A sweep compiles the same leaf functions with Numba and runs them over a grid of
axes: those that change messages in an outer loop, the network's (bandwidth, latency, utilization, compression) in
kernels (see `sweep_kernels`). What no kernel knows goes through the definition itself, one by one.
"""

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from wirebound.errors import InputError, unknown_name
from wirebound.model import Cluster, Method, Workload
from wirebound.simulate.job import TrainingJob
from wirebound.simulate.sweep_axes import AXES, NETWORK_AXES, axis_labels, checked_axes
from wirebound.simulate.sweep_range import Floats, Grid, compute_range

if TYPE_CHECKING:
    import distributed
    import pandas as pd
    import xarray as xr

#: What a sweep can compute of each configuration, as in `Step`, and its unit ("1" for a ratio).
QUANTITIES = {
    "scaling_factor": "1",
    "iteration_s": "s",
    "compute_s": "s",
    "communication_s": "s",
    "exposed_s": "s",
    "wire_bytes_per_worker": "B",
    "node_wire_bytes": "B",
    "link_utilization": "1",
}
#: Of these more is better; of the others less.
_MORE_IS_BETTER = ("scaling_factor", "link_utilization")

#: Most and fewest configurations that one thread or worker computes at a time: a few MB, and what is worth a call.
CHUNK = 2**18
SMALLEST_CHUNK = 2**10
#: Configurations that `sweep_table` holds at once, where its kept axes allow it: 128 MiB.
SLAB = 2**24


def sweep(
    workload: Workload,
    cluster: Cluster,
    method: Method,
    *,
    axes: Mapping[str, Sequence[Any]],
    quantities: Sequence[str] = ("scaling_factor",),
    include_vector_add: bool = True,
    accumulation: int = 1,
    chunk: int | None = None,
    client: "distributed.Client | None" = None,
) -> "xr.Dataset":
    """Return `quantities` of one training step on every combination of the axes' values, in SI units.

    `axes` are lists of values by name: ``bandwidth``, ``latency``, ``utilization`` of the nodes' links,
    ``intra_bandwidth``, ``intra_latency``, ``nodes`` or ``workers``, ``accelerators_per_node``, ``nics_per_node``,
    ``workload`` and ``method`` (names, or objects), ``gradient_dtype``, ``batch``, ``accumulation``, and the fields of
    a `Method` by name: ``compression``, ``compressor`` (names such as ``topk:0.01``, None),
    ``collective``, ``bucket_cap_bytes``, ``partition_bytes``, ``credit_bytes``, … What no axis sets is taken from
    `workload`, `cluster` and `method`; a method of the axis ``method`` replaces `method` as a whole. The other options
    are those of `simulate_step`.

    Kernels know the schedules bsp, wfbp, horovod, ddp, mg-wfbp (without partitions) and priority, servers without
    stages, and the collectives of `collectives.ALL_REDUCES` and ``flat-ring``. Everything else (compressors, other
    collectives, staged servers) is a call of `simulate_step` for each configuration.

    The result has one variable of float64 for each quantity (see `QUANTITIES`), with the axes as dimensions in the
    order given. `chunk` configurations are computed at a time (None: what keeps all cores busy, at most `CHUNK`) on
    all cores that this process may use, or on the workers of a Dask `client`; neither changes a result.

    Raises `InputError` that names the axis for an unknown axis, an empty one, or a value that is NaN, of the wrong
    kind or out of range; for an unknown quantity; and as `simulate_step` does.
    """
    job = TrainingJob(workload, cluster, method, include_vector_add, accumulation)
    values = checked_axes(job, axes)
    grid = Grid(job, {name: values[name] for name in _fastest_last(values)}, _checked_quantities(quantities))
    total = math.prod(grid.shape)
    if chunk is None:
        chunk = max(SMALLEST_CHUNK, min(CHUNK, math.ceil(total / (8 * _cores()))))
    if chunk < 1:
        raise InputError(f"chunk = {chunk} must be at least one configuration")
    pieces = [(start, min(start + chunk, total)) for start in range(0, total, chunk)]
    result = np.empty((len(grid.quantities), total))
    if client is None:
        _compute_here(grid, pieces, result)
    else:
        _compute_on(client, grid, pieces, result)
    return _labelled(grid, result, tuple(axes))


def sweep_table(
    workload: Workload,
    cluster: Cluster,
    method: Method,
    *,
    axes: Mapping[str, Sequence[Any]],
    over: str | Sequence[str] = (),
    statistics: Sequence[str] = ("min", "mean", "max"),
    quantity: str = "scaling_factor",
    include_vector_add: bool = True,
    accumulation: int = 1,
    chunk: int | None = None,
    client: "distributed.Client | None" = None,
) -> "pd.DataFrame":
    """Return a tidy table of one quantity: a row for each combination of the axes that are not reduced `over`.

    Columns are these axes, then `statistics` over the others: ``min``, ``mean``, ``max``, ``q05`` (the 5 % quantile,
    linear between values; any two digits), and ``best``, the value of the one axis in `over` where the quantity is
    best (largest for a scaling factor or utilization, smallest for seconds and bytes; of equals the first). Without
    `over` the columns are the axes and the quantity. The longest axis that is kept is worked through in parts, so that
    memory holds about `SLAB` configurations where these are enough for one of its values. The other options, and the
    errors, are those of `sweep`.
    """
    over = (over,) if isinstance(over, str) else tuple(over)
    for name in over:
        if name not in axes:
            raise unknown_name("axis to reduce over", name, axes)
    for name in statistics:
        if name not in ("min", "mean", "max", "best") and not re.fullmatch("q[0-9]{2}", name):
            raise InputError(f"unknown statistic {name!r}: use min, mean, max, best, or a quantile such as q05")
    if over and "best" in statistics and len(over) != 1:
        raise InputError(f"the statistic 'best' names a value of one axis, not of {len(over)}: reduce over one")
    import pandas as pd

    values = checked_axes(TrainingJob(workload, cluster, method, include_vector_add, accumulation), axes)
    tables = []
    for part in _parts(values, over):
        slab = sweep(
            workload,
            cluster,
            method,
            axes=part,
            quantities=(quantity,),
            include_vector_add=include_vector_add,
            accumulation=accumulation,
            chunk=chunk,
            client=client,
        )[quantity]
        tables.append(_reduced(slab, over, statistics) if over else slab.to_dataframe().reset_index())
    return pd.concat(tables, ignore_index=True)


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _fastest_last(names: Iterable[str]) -> list[str]:
    """The axes in the order in which configurations are numbered: the network's last."""
    order = [*(name for name in AXES if name not in NETWORK_AXES), *NETWORK_AXES]
    return sorted(names, key=order.index)


def _checked_quantities(quantities: Sequence[str]) -> tuple[str, ...]:
    if isinstance(quantities, str) or not quantities:
        raise InputError(f"quantities must be a list such as ('scaling_factor',), not {quantities!r}")
    for name in quantities:
        if name not in QUANTITIES:
            raise unknown_name("quantity", name, QUANTITIES)
    return tuple(quantities)


def _compute_here(grid: Grid, pieces: list[tuple[int, int]], result: Floats) -> None:
    def compute(piece: tuple[int, int]) -> None:
        compute_range(grid, *piece, result[:, slice(*piece)])

    if len(pieces) == 1 or _cores() == 1:
        for piece in pieces:
            compute(piece)
        return
    with ThreadPoolExecutor(_cores()) as threads:  # the kernels release the GIL
        for _ in threads.map(compute, pieces):
            pass  # what went wrong in a thread is raised here


def _compute_on(client: "distributed.Client", grid: Grid, pieces: list[tuple[int, int]], result: Floats) -> None:
    import distributed

    everywhere = client.scatter(grid, broadcast=True)  # type: ignore[no-untyped-call]
    futures = {client.submit(compute_range, everywhere, *piece, pure=False): piece for piece in pieces}
    for future, computed in distributed.as_completed(futures, with_results=True):  # type: ignore[no-untyped-call]
        result[:, slice(*futures.pop(future))] = computed


def _labelled(grid: Grid, result: Floats, order: tuple[str, ...]) -> "xr.Dataset":
    import xarray as xr

    dimensions = tuple(grid.axes)
    variables = {
        name: (dimensions, row.reshape(grid.shape), {"units": QUANTITIES[name]})
        for name, row in zip(grid.quantities, result, strict=True)
    }
    coordinates = {name: axis_labels(values) for name, values in grid.axes.items()}
    return xr.Dataset(variables, coordinates).transpose(*order)


def _parts(values: dict[str, Sequence[Any]], over: tuple[str, ...]) -> Iterable[dict[str, Sequence[Any]]]:
    """The axes, the longest one that is kept cut into parts."""
    kept = [name for name in values if name not in over]
    if not kept:
        yield values
        return
    longest = max(kept, key=lambda name: len(values[name]))
    length = len(values[longest])
    rest = math.prod(len(axis) for axis in values.values()) // length
    step = max(1, SLAB // rest)
    for start in range(0, length, step):
        yield values | {longest: values[longest][start : start + step]}


def _reduced(slab: "xr.DataArray", over: tuple[str, ...], statistics: Sequence[str]) -> "pd.DataFrame":
    import xarray as xr

    columns = {}
    for name in statistics:
        if name == "best":
            best = slab.argmax(over[0]) if slab.name in _MORE_IS_BETTER else slab.argmin(over[0])
            columns[name] = slab[over[0]][best].drop_vars(over[0])
        elif name.startswith("q"):
            columns[name] = slab.quantile(int(name[1:]) / 100, over).drop_vars("quantile")
        else:
            columns[name] = getattr(slab, name)(over)
    if len(over) == slab.ndim:
        import pandas as pd

        return pd.DataFrame({name: [column.item()] for name, column in columns.items()})
    return xr.Dataset(columns).to_dataframe().reset_index()
