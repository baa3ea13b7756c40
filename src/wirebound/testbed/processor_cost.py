"""Communication takes the cores' time too: how much, and how it slows down compute that runs beside it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from wirebound.errors import WireboundError
from wirebound.fit.communication import fit_communication
from wirebound.model import Cluster, Method, Step, Workload
from wirebound.profile.spread import median
from wirebound.simulate.collectives import ring_sent_bytes
from wirebound.simulate.step import simulate_step
from wirebound.simulate.timeline import Timeline, timeline_of
from wirebound.testbed.ranks import GlooRanks
from wirebound.testbed.speed import set_rate

_SIZES = (4096, 65536, 262144, 1048576)
_BYTES_IN_A_ROW = 2**20
_MOST_IN_A_ROW = 16
#: Compute never stops altogether.
_MOST_TAKEN = 0.95
_ROUNDS, _SETTLED_S = 30, 1e-6

Simulate = Callable[[Workload, Cluster, Method], Step]


@dataclass(frozen=True, slots=True)
class ProcessorCost:
    """Seconds of a core that one rank needs for an all-reduce: for each message, and for each byte that it sends."""

    message_s: float
    byte_s: float

    def seconds(self, sent_bytes: float) -> float:
        """Return the seconds of a core for one message."""
        return self.message_s + self.byte_s * sent_bytes


def measure_processor_cost(group: GlooRanks, rate_Bps: float, *, repetitions: int = 6) -> ProcessorCost:
    """All-reduce messages at `rate_Bps` bytes per second and ask each process how long it computed.

    Raises `WireboundError` when a process fails.
    """
    set_rate(group, rate_Bps)
    in_a_row = {size: max(1, min(_MOST_IN_A_ROW, _BYTES_IN_A_ROW // size)) for size in _SIZES}
    order = {
        "do": "allreduce",
        "sizes": list(_SIZES),
        "in_a_row": in_a_row,
        "repetitions": repetitions,
        "budget_s": 3.0,
        "seed": 1,
        "pace_Bps": group.network.pace_Bps(),
    }
    answers = group.ask(order)
    busy = {size: [s / in_a_row[size] for a in answers for s in a["busy_s"][str(size)]] for size in _SIZES}
    return fit_processor_cost({ring_sent_bytes(size, group.network.ranks): median(busy[size]) for size in _SIZES})


def fit_processor_cost(busy_s: Mapping[float, float]) -> ProcessorCost:
    """Fit the cost to seconds of a core by the bytes that a rank sends."""
    fitted = fit_communication(list(busy_s), [max(seconds, 1e-7) for seconds in busy_s.values()])
    return ProcessorCost(fitted.alpha_s, fitted.beta_s_per_byte)


def contended_step(
    workload: Workload,
    cluster: Cluster,
    method: Method,
    processor: ProcessorCost,
    *,
    cores: int,
    simulate: Simulate | None = None,
) -> tuple[Step, Workload]:
    """Return the engine's step where communication takes `cores` away from compute, and the workload as it then is.

    `simulate` gives the step of a workload where that is not `simulate_step`'s.

    A message keeps all ranks' communication busy: P ranks on C cores take P·t/C of each core, t being a rank's cost of
    the message, evenly over its time on the wire. A parameter server works as much as the worker that talks to it, so
    twice that. Compute goes on with what is left; where it is longer, later messages are later: the step is simulated
    again until it stays the same.
    """
    share = cluster.workers / cores * (1 if method.architecture == "all-reduce" else 2)
    simulate = simulate or partial(simulate_step, include_vector_add=False)
    slowed = workload
    step = simulate(slowed, cluster, method)
    for _ in range(_ROUNDS):
        timeline = timeline_of(step, slowed, cluster, method)
        following = _slowed(workload, slowed, timeline, processor, share)
        settled = abs(following.compute_s - slowed.compute_s) < _SETTLED_S
        slowed = following
        step = simulate(slowed, cluster, method)
        if settled:
            return step, slowed
    return step, slowed


def _slowed(workload: Workload, present: Workload, timeline: Timeline, cost: ProcessorCost, share: float) -> Workload:
    """The workload whose tasks take longer by what the messages beside them, in this timeline, take of the cores."""
    taken = [
        (i.start_s, i.end_s, min(_MOST_TAKEN, share * cost.seconds(i.sent_bytes) / (i.end_s - i.start_s)))
        for i in timeline.intervals
        if i.kind == "message" and i.resource != "pull"
    ]
    backward, forward = [0.0] * len(workload.tensors), [0.0] * len(workload.tensors)
    for interval in timeline.intervals:
        if interval.kind in ("backward", "forward"):
            lost = _lost_s(interval.start_s, interval.end_s, taken)
            (backward if interval.kind == "backward" else forward)[interval.tensors[0]] += lost
    tensors = tuple(
        replace(tensor, gap_s=tensor.gap_s + late, forward_s=gap_s + waiting)
        for tensor, late, gap_s, waiting in zip(
            workload.tensors, backward, workload.forward_gaps_s, forward, strict=True
        )
    )
    return replace(workload, tensors=tensors, forward_s=workload.forward_s + sum(forward))


def _lost_s(start_s: float, end_s: float, taken: Sequence[tuple[float, float, float]]) -> float:
    return sum(
        share * (min(end_s, end) - max(start_s, start))
        for start, end, share in taken
        if start < end_s and start_s < end
    )


def require_paced(answers: Sequence[dict[str, object]], pace_Bps: float | None) -> None:
    """Raise `WireboundError` where a connection should have been slowed down and none was found."""
    if pace_Bps is not None and not all(answer["paced_connections"] for answer in answers):
        raise WireboundError("no connection of the training processes could be paced")
