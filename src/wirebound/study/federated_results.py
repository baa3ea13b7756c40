"""What recorded federated runs say: rounds, bytes and predicted time to an accuracy, with intervals over seeds."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wirebound.errors import InputError
from wirebound.simulate.federated import client_round_s, elapsed_s, expected_slowest, speed_factors
from wirebound.study.federated_runs import FORMAT


@dataclass(frozen=True, slots=True)
class Curve:
    """One run: accuracy (0 to 1) after rounds, and what one client sends, receives and computes in a round.

    `train_s_per_sample` is of the machine that recorded it; `passes` are epochs of a client in a round. `sizes` are
    the samples of each client, `sampled` the clients of each round.
    """

    seed: int
    rounds: tuple[int, ...]
    accuracy: tuple[float, ...]
    uplink_bytes: int
    downlink_bytes: int
    train_s_per_sample: float
    passes: int
    sizes: tuple[int, ...]
    sampled: tuple[tuple[int, ...], ...]

    @property
    def per_round(self) -> int:
        """Clients in a round."""
        return len(self.sampled[0])


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over seeds and its 95 % interval (Student's t); without width where there is one seed."""

    mean: float
    low: float
    high: float
    seeds: int


@dataclass(frozen=True, slots=True)
class Links:
    """Median links of clients in bytes per second, and how unequal clients are.

    `slowdown` is the time that a client's device takes ÷ that of the recording machine; `spread` that of
    `simulate.federated.speed_factors`, for links and for devices.
    """

    uplink: float
    downlink: float
    latency: float
    slowdown: float
    spread: float


def curves_of(document: Mapping[str, Any], task: str, alpha: str) -> dict[str, list[Curve]]:
    """Return the runs of a task and a split, by method, in the order of seeds.

    Raises `InputError` for a document of another format, and for a task or split without runs.
    """
    if document.get("format") != FORMAT:
        raise InputError("this is no recording of federated runs: record one with wirebound.study.record_federated")
    setting = document["tasks"].get(task, {})
    splits = {(row["task"], row["alpha"], row["seed"]): row for row in document["splits"]}
    found: dict[str, list[Curve]] = {}
    for row in sorted(document["runs"], key=lambda row: row["seed"]):
        if (row["task"], row["alpha"]) != (task, alpha):
            continue
        split = splits[task, alpha, row["seed"]]
        every, last = setting["evaluate_every"], setting["rounds"]
        local = setting["local"] | document["methods"][row["method"]]["local"]
        found.setdefault(row["method"], []).append(
            Curve(
                row["seed"],
                tuple(sorted({*range(every, last + 1, every), last})),
                tuple(row["accuracy"]),
                row["uplink_bytes"],
                row["downlink_bytes"],
                document["train_s_per_sample"][task][_trains_like(document["methods"], row["method"])],
                local["epochs"],
                tuple(map(int, split["sizes"].split())),
                tuple(tuple(map(int, clients.split())) for clients in split["sampled"]),
            )
        )
    if not found:
        raise InputError(f"nothing is recorded of task {task!r} with α = {alpha}")
    return found


def _trains_like(methods: Mapping[str, Any], name: str) -> str:
    """The method whose training time is taken: FedAvg's where a client trains the same, and only encodes afterwards."""
    method = methods[name]
    trains_otherwise = any(part in method["reduction"] for part in ("dropout", "mask", "lowrank"))
    return name if method["local"] or trains_otherwise else "fedavg"


def rounds_to(curve: Curve, target: float) -> int | None:
    """Rounds until two evaluations in a row reach `target`, None if that never happens: one may be a fluke."""
    pairs = zip(curve.rounds, curve.accuracy, curve.accuracy[1:], strict=False)
    return next((number for number, now, after in pairs if min(now, after) >= target), None)


def uplink_to(curve: Curve, target: float) -> float | None:
    """Bytes that all clients together sent until `rounds_to`."""
    rounds = rounds_to(curve, target)
    return None if rounds is None else rounds * curve.per_round * curve.uplink_bytes


def at_first_evaluation(curves: Sequence[Curve], target: float) -> int:
    """How many runs reach `target` when first evaluated: they may have done so in an earlier round."""
    return sum(rounds_to(curve, target) == curve.rounds[0] for curve in curves)


def interval(values: Sequence[float]) -> Interval:
    """Return the mean and its 95 % interval by Student's t."""
    from scipy import stats

    mean = statistics.fmean(values)
    if len(values) < 2:
        return Interval(mean, mean, mean, len(values))
    half = float(stats.t.ppf(0.975, len(values) - 1)) * statistics.stdev(values) / math.sqrt(len(values))
    return Interval(mean, mean - half, mean + half, len(values))


def ratio(values: Sequence[float | None], others: Sequence[float | None]) -> Interval | None:
    """Return the geometric mean of values ÷ others, paired by position, with its interval; None where one is None."""
    logarithms = []
    for value, other in zip(values, others, strict=True):
        if value is None or other is None:
            return None
        logarithms.append(math.log(value / other))
    found = interval(logarithms)
    return Interval(math.exp(found.mean), math.exp(found.low), math.exp(found.high), found.seeds)


def client_times(curve: Curve, links: Links) -> list[float]:
    """Seconds of each client in one round: links and devices are dealt out by the run's seed."""
    count = len(curve.sizes)
    wires = speed_factors(count, links.spread, curve.seed)
    devices = speed_factors(count, links.spread, curve.seed + 1_000_000)
    return [
        client_round_s(
            curve.downlink_bytes,
            curve.uplink_bytes,
            curve.passes * size * curve.train_s_per_sample * links.slowdown / device,
            links.downlink * wire,
            links.uplink * wire,
            links.latency,
        )
        for size, wire, device in zip(curve.sizes, wires, devices, strict=True)
    ]


def time_to(curve: Curve, target: float, links: Links) -> float | None:
    """Predicted seconds until `rounds_to`: each round takes as long as the slowest of the clients that were sampled."""
    rounds = rounds_to(curve, target)
    if rounds is None:
        return None
    return elapsed_s(client_times(curve, links), curve.sampled[:rounds])[-1]


def equal_uplinks(
    curves: Sequence[Curve],
    others: Sequence[Curve],
    target: float,
    links: Callable[[float], Links],
    uplinks: Sequence[float],
) -> tuple[bool, list[float]] | None:
    """Return whether `curves` are sooner at the first of the `uplinks`, and where both take equally long after it.

    `links` makes links of an uplink in bytes per second; times are `time_to`, means over seeds. Places are looked for
    between neighbouring uplinks at which another one is sooner. None where a run does not reach `target`.
    """
    from scipy.optimize import brentq

    if any(rounds_to(curve, target) is None for curve in (*curves, *others)):
        return None

    def mean_s(runs: Sequence[Curve], uplink: float) -> float:
        return math.fsum(time_to(run, target, links(uplink)) or 0.0 for run in runs) / len(runs)

    def lead(logarithm: float) -> float:
        return mean_s(others, math.exp(logarithm)) / mean_s(curves, math.exp(logarithm)) - 1

    places = [math.log(uplink) for uplink in uplinks]
    leads = [lead(place) for place in places]
    found = [
        math.exp(float(brentq(lead, places[at], places[at + 1])))
        for at in range(len(places) - 1)
        if (leads[at] > 0) != (leads[at + 1] > 0)
    ]
    return leads[0] > 0, found


def mean_round_s(curve: Curve, links: Links) -> float:
    """Expected seconds of a round, over all sets of clients that could be sampled."""
    return expected_slowest(client_times(curve, links), curve.per_round)
