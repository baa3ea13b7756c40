"""The inverse question: what would it take to reach a scaling factor?"""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass

from wirebound.errors import InputError, unknown_name
from wirebound.model import Cluster, Method, Workload
from wirebound.simulate.job import TrainingJob, without_terms
from wirebound.simulate.step import accumulated_compute_s
from wirebound.units import BYTES_PER_S_PER_GBPS, SECONDS_PER_US

#: What can be solved for, and the unit of the answer.
UNITS: dict[str, str] = {
    "bandwidth": "Gbps",
    "compression": "×",
    "gpus": "GPUs",
    "batch": "samples",
    "latency": "us",
}
#: Of these the largest value that still reaches the target is the answer, of the others the smallest.
LARGEST = ("gpus", "latency")

#: No more accelerators are tried.
SEARCH_LIMIT = 1_048_576
#: No more samples per accelerator are tried.
BATCH_LIMIT = 1_000_000_000
#: Dividing the bytes by this much leaves nothing of them.
COMPRESSION_LIMIT = 1e12
#: No longer latency per message is tried, in seconds.
LATENCY_LIMIT_S = 1e6

_SCAN_FACTOR = 2 ** (1 / 8)
_PRECISION = 1e-12


@dataclass(frozen=True, slots=True)
class Need:
    """An answer: `value` in `unit`, and the scaling factor there; `value` is None where no value reaches the target.

    `scaling_factor` is then the best that was found. `limited_by` names what stands in the way of an unreachable
    target: ``bandwidth``, ``latency``, ``vector-add``, ``encoding and decoding``, ``intra-node bandwidth`` or
    ``slots of the switch``. `at_search_limit` says that the search ended at its limit: the largest number of
    accelerators or the longest latency tried still reaches the target, or even `BATCH_LIMIT` samples do not, which says
    nothing of more.
    """

    value: float | None
    unit: str
    scaling_factor: float
    reachable: bool
    at_search_limit: bool = False
    limited_by: str | None = None


def with_value(job: TrainingJob, solve: str, value: float) -> TrainingJob:
    """Return the job with the quantity that is solved for set to `value` (bytes per second, seconds)."""
    if solve == "bandwidth":
        return job.with_inter(bandwidth=value)
    if solve == "latency":
        return job.with_inter(latency_s=value)
    if solve == "compression":
        return dataclasses.replace(job, method=dataclasses.replace(job.method, compression=value))
    if solve == "gpus":
        nodes = int(value) // job.cluster.accelerators_per_node
        return dataclasses.replace(job, cluster=dataclasses.replace(job.cluster, nodes=nodes))
    return dataclasses.replace(job, workload=job.workload.with_batch(int(value)))


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
    """Return the smallest bandwidth, compression or batch, or the most latency or accelerators, for a scaling factor.

    `solve` is one of `UNITS`; its present value in `cluster`, `method` or `workload` is ignored. Compression is at
    least 1, the batch at least one sample per accelerator, and accelerators come in whole nodes of
    `cluster.accelerators_per_node`. Bandwidth and latency are those of the nodes' network links; one node alone needs
    a bandwidth of 0 and stands any latency.

    The search scans upward in steps of 9 % and then bisects. Where the scaling factor only rises (or falls) with the
    quantity, as it does with fixed messages first come, first served, the answer is exact to rounding. Where messages
    change with the network or the compute time (mg-wfbp, horovod), transfers overtake (priority), or the collective
    favours certain sizes (halving-doubling), it need not be monotone: the answer then reaches the target and is the
    first (for accelerators and latency the last) such value that the scan meets; a narrow exception between two steps
    may be missed.

    Raises `InputError` for a target outside (0, 1] or an unknown quantity.
    """
    if not 0 < target <= 1:
        raise InputError(f"target {target} must be a scaling factor greater than 0 and at most 1, such as 0.95")
    if solve not in UNITS:
        raise unknown_name("quantity to solve for", solve, UNITS)
    job = TrainingJob(workload, cluster, method, include_vector_add, accumulation)

    def reaches(value: float) -> bool:
        return _factor(with_value(job, solve, value)) >= target

    value: float | None
    limit: float | None = None
    if solve == "gpus":
        per_node = cluster.accelerators_per_node
        value, extreme = _most_gpus(reaches, per_node), float(per_node)
        limit = SEARCH_LIMIT // per_node * per_node
    elif solve == "latency":
        value, extreme, limit = _largest_latency(reaches, job, target), 0.0, LATENCY_LIMIT_S
    elif solve == "batch":
        value, extreme = _smallest_whole(reaches, BATCH_LIMIT), float(BATCH_LIMIT)
    elif solve == "compression":
        value, extreme = _smallest(reaches, 1.0, COMPRESSION_LIMIT), COMPRESSION_LIMIT
    else:
        value, extreme = _smallest_bandwidth(reaches, job, target), math.inf
    if value is None:
        best = with_value(job, solve, extreme)
        return Need(
            value=None,
            unit=UNITS[solve],
            scaling_factor=_factor(best),
            reachable=False,
            at_search_limit=solve == "batch",
            limited_by=_limit(best),
        )
    in_unit = {"bandwidth": value / BYTES_PER_S_PER_GBPS, "latency": value / SECONDS_PER_US}
    # A bandwidth of 0 stands for a network that is not used.
    there = math.inf if solve == "bandwidth" and value == 0 else value
    return Need(
        value=in_unit.get(solve, value),
        unit=UNITS[solve],
        scaling_factor=_factor(with_value(job, solve, there)),
        reachable=True,
        at_search_limit=value == limit,
    )


def _factor(job: TrainingJob) -> float:
    return job.step().scaling_factor


def _smallest_bandwidth(reaches: Callable[[float], bool], job: TrainingJob, target: float) -> float | None:
    """The smallest bandwidth in bytes per second; at 0 nothing crosses the network at all."""
    if not reaches(math.inf):
        return None
    # Where bytes are all that counts, `auto` sends the fewest.
    step = with_value(job, "bandwidth", 1.0).step()
    if step.node_wire_bytes == 0:
        return 0.0
    # The link must carry its bytes within the time that the target allows for a step; less can never do.
    allowed_s = accumulated_compute_s(job.workload, job.accumulation) / target
    lowest = step.node_wire_bytes / job.cluster.nics_per_node / job.cluster.inter.utilization / allowed_s / 2
    return _smallest(reaches, lowest, lowest * COMPRESSION_LIMIT)


def _largest_latency(reaches: Callable[[float], bool], job: TrainingJob, target: float) -> float | None:
    """The longest latency in seconds: scan down from one that fails and bisect above the first that reaches."""
    if not reaches(0.0):
        return None
    # A step with a message takes at least its latency; the limit stands for a network that is not used.
    high = accumulated_compute_s(job.workload, job.accumulation) / target
    while reaches(high):
        if high >= LATENCY_LIMIT_S:
            return LATENCY_LIMIT_S
        high = min(2 * high, LATENCY_LIMIT_S)
    low, shortest = high, high * _PRECISION
    while not reaches(low := low / _SCAN_FACTOR):
        if low < shortest:
            return 0.0
        high = low
    return _bisected(reaches, high, low)


def _smallest(reaches: Callable[[float], bool], low: float, limit: float) -> float | None:
    """Scan from `low` up to `limit` and bisect below the first value that reaches; None where none does."""
    if reaches(low):
        return low
    if not reaches(limit):
        return None
    high = low
    while not reaches(high := min(high * _SCAN_FACTOR, limit)):
        low = high
    return _bisected(reaches, low, high)


def _bisected(reaches: Callable[[float], bool], fails: float, holds: float) -> float:
    """Bisect by ratio between a value that fails and one that reaches; return the one that reaches."""
    while abs(holds / fails - 1) > _PRECISION:
        middle = math.sqrt(fails * holds)
        if not min(fails, holds) < middle < max(fails, holds):
            break
        if reaches(middle):
            holds = middle
        else:
            fails = middle
    return holds


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


def _limit(job: TrainingJob) -> str:
    """Name the term without which the best job would run best: what stands in the way of the target."""
    without = without_terms(job)
    return max(without, key=lambda term: _factor(without[term]))
