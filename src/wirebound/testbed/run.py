"""Predict first, then measure: replayed steps on links of a chosen speed, and how far the predictions were off."""

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wirebound.errors import InputError
from wirebound.files import write_json
from wirebound.model import Cluster, Method, Step, Workload
from wirebound.profile.machine import machine_record
from wirebound.profile.spread import interquartile_range, median
from wirebound.simulate.messages import PlannedMessage, planned_messages
from wirebound.simulate.step import simulate_step
from wirebound.testbed.calibration import Calibration, calibrate
from wirebound.testbed.ordering import pairs_in_order
from wirebound.testbed.ranks import GlooRanks, gloo_ranks
from wirebound.testbed.served_step import served_step
from wirebound.testbed.speed import set_rate
from wirebound.testbed.tiers import network_of, open_network

PREDICTIONS, RESULTS = "predictions.json", "results.json"
_WARM_UP = 1

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to predict and to measure: `ranks` workers, links of `rate_Bps` bytes per second, a method."""

    ranks: int
    rate_Bps: float  # noqa: N815 - the unit is bytes per second
    method: Method

    @property
    def servers(self) -> int:
        """Parameter servers beside the workers: as many as these unless the method says."""
        return 0 if self.method.architecture == "all-reduce" else self.method.servers or self.ranks


@dataclass(frozen=True, slots=True)
class Measured:
    """A replayed case: the median period of its steps and their interquartile range, in seconds.

    `messages` has (start, end) of each planned message, seconds since backward began on the first rank, medians over
    the steps. `error` is predicted ÷ measured − 1.
    """

    case: Case
    predicted_s: float
    measured_s: float
    spread_s: float
    planned: tuple[PlannedMessage, ...]
    messages: tuple[tuple[float, float], ...]

    @property
    def error(self) -> float:
        """Predicted ÷ measured − 1."""
        return self.predicted_s / self.measured_s - 1


@dataclass(frozen=True, slots=True)
class ReplayRun:
    """All measured cases, and how large their errors are (median, 90th percentile and mean of the absolute ones).

    Of `pairs` of methods that differ by more than a tenth, `pairs_right` are predicted in the right order.
    """

    measured: tuple[Measured, ...]
    calibrations: tuple[Calibration, ...]
    predictions_sha256: str
    median_error: float
    p90_error: float
    mean_error: float
    pairs_right: int
    pairs: int
    document: dict[str, Any]


def run_replay(
    workload: Workload,
    *,
    tier: str,
    ranks: Sequence[int],
    rates_Bps: Sequence[float],
    methods: Sequence[Method],
    out: Path,
    steps: int = 10,
    calibration_rate_Bps: float | None = None,
    calibration_rounds: int = 5,
    tell: Tell = lambda what: None,
) -> ReplayRun:
    """Predict and then measure every method at every rate (bytes per second) with every number of ranks.

    For each number of ranks the network is calibrated at one rate, `calibration_rate_Bps` (the middle one of
    `rates_Bps` unless given), in `calibration_rounds` rounds; where there are servers, with these once more. From it
    the engine predicts all cases, and ``predictions.json`` in the folder `out` is written and hashed, before the
    processes of the replay are started. ``results.json`` has the hash and what was measured, case by case in the same
    order. `workload` and `methods` are taken as they are: see `scaling` to make them fit the rates.

    Raises `InputError` for what cannot be replayed or a folder that holds something, `WireboundError` when a process
    fails.
    """
    wanted = [Case(count, rate, method) for count in ranks for rate in rates_Bps for method in methods]
    cases = list(dict.fromkeys(wanted))  # each once
    _check(cases, steps, out)
    for case in cases:
        network_of(tier, case.ranks + case.servers, rate_Bps=case.rate_Bps)  # raises what cannot be
    machine = machine_record()
    calibrations = {}
    rate_Bps = calibration_rate_Bps or sorted(rates_Bps)[len(rates_Bps) // 2]
    groups = list(dict.fromkeys((case.ranks, case.servers) for case in cases))
    for count, servers in groups:
        tell(f"calibrating {count} ranks" + (f" and {servers} servers" if servers else ""))
        with open_network(tier, count + servers) as network, gloo_ranks(network) as group:
            calibrations[count, servers] = calibrate(group, rate_Bps, servers=servers, rounds=calibration_rounds)
    steps_predicted = [predict_case(workload, case, calibrations[case.ranks, case.servers]) for case in cases]
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / PREDICTIONS, _predictions(workload, tier, calibrations, cases, steps_predicted))
    sha256 = hashlib.sha256((out / PREDICTIONS).read_bytes()).hexdigest()
    predicted_unix_s = (out / PREDICTIONS).stat().st_mtime
    measured_by_case: dict[Case, Measured] = {}
    networks, started = [], []
    for count, servers in groups:
        with open_network(tier, count + servers) as network, gloo_ranks(network) as group:
            started.append(group.started_unix_s)
            for case, step in zip(cases, steps_predicted, strict=True):
                if (case.ranks, case.servers) == (count, servers):
                    tell(f"{count} ranks, {case.rate_Bps * 8e-6:g} Mbit/s, {case.method.name}")
                    calibration = calibrations[count, servers]
                    measured_by_case[case] = _measure(group, workload, case, step, calibration, steps)
            networks.append(group.record() | {"rate_Bps": None, "burst_bytes": None})
    measured = [measured_by_case[case] for case in cases]
    errors = [abs(case.error) for case in measured]
    median_error, p90_error, mean_error = median(errors), _percentile_90(errors), sum(errors) / len(errors)
    right, pairs = _pairs(measured)
    document = {
        "schema": "wirebound-testbed-replay",
        "version": 1,
        "workload": workload.name,
        "gradient_bytes": workload.size,
        "compute_s": workload.compute_s,
        "predictions_sha256": sha256,
        "predictions_written_unix_s": predicted_unix_s,
        "workers_started_unix_s": min(started),
        "measured_unix_s": time.time(),
        "machine": machine,
        "networks": networks,
        "steps": steps,
        "median_error": median_error,
        "p90_error": p90_error,
        "mean_error": mean_error,
        "pairs_right": right,
        "pairs": pairs,
        "cases": [_measured_document(case) for case in measured],
    }
    write_json(out / RESULTS, document)
    return ReplayRun(
        tuple(measured),
        tuple(calibrations.values()),
        sha256,
        median_error,
        p90_error,
        mean_error,
        right,
        pairs,
        document,
    )


def predict_case(workload: Workload, case: Case, calibration: Calibration) -> Step:
    """Return the engine's step for a case, with the link of a calibration at another or the same rate."""
    cluster = Cluster(nodes=case.ranks, inter=calibration.link(case.rate_Bps))
    if case.servers:
        return served_step(workload, cluster, case.method, calibration=calibration, rate_Bps=case.rate_Bps)
    cost = calibration.cost(case.rate_Bps)
    return simulate_step(workload, cluster, case.method, include_vector_add=False, cost=cost)


def _check(cases: Sequence[Case], steps: int, out: Path) -> None:
    if not cases:
        raise InputError("nothing to replay: give ranks, rates and methods")
    if not 1 <= steps <= 10_000:
        raise InputError(f"steps = {steps} must be between 1 and 10,000")
    for case in cases:
        method = case.method
        if method.has_stages or method.colocated or method.push_pull_overlap or method.compression != 1:
            raise InputError(
                f"the method {method.name} cannot be replayed: choose one that is uncompressed, and whose servers are"
                " machines of their own that push and pull one message at a time"
            )
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} is there already: name a new or an empty folder")


def _measure(
    group: GlooRanks, workload: Workload, case: Case, step: Step, calibration: Calibration, steps: int
) -> Measured:
    planned = planned_messages(workload, case.method, calibration.cost(case.rate_Bps))
    set_rate(group, case.rate_Bps)
    order = replay_order(workload, case.method, planned, steps, group.network.folder)
    # Each server has a connection to every worker: they share its link, as a worker's to all servers share its own.
    order["pace_Bps"] = group.network.pace_Bps(max(case.ranks, case.servers) if case.servers else 1)
    order["servers"] = case.servers
    answers = group.ask(order, time_limit_s=60 + 5 * (steps + _WARM_UP + 1) * step.iteration_s)[: case.ranks]
    began = [answer["backward_began"] for answer in answers]
    periods = [sum(of_rank[index + 1] - of_rank[index] for of_rank in began) / len(began) for index in range(steps)]
    sent = answers[0]["messages"]
    messages = tuple(
        (median([of_step[index][0] for of_step in sent]), median([of_step[index][1] for of_step in sent]))
        for index in range(len(planned))
    )
    return Measured(case, step.iteration_s, median(periods), interquartile_range(periods), tuple(planned), messages)


def replay_order(
    workload: Workload, method: Method, planned: Sequence[PlannedMessage], steps: int, folder: Path
) -> dict[str, Any]:
    """Return the order that has a worker replay a step: see `wirebound.testbed.replay`."""
    messages_of: list[list[int]] = [[] for _ in workload.tensors]
    for index, message in enumerate(planned):
        for tensor in message.tensors:
            messages_of[tensor].append(index)
    return {
        "do": "replay",
        "servers": 0,
        "steps": steps,
        "warm_up": _WARM_UP,
        "folder": str(folder),
        "priority": method.schedule == "priority",
        "credit_bytes": None if method.credit_bytes == float("inf") else method.credit_bytes,
        "forward_s": workload.forward_s,
        "backward_s": workload.backward_s,
        "optimizer_s": workload.optimizer_s,
        "forward_gaps_s": list(workload.forward_gaps_s),
        "optimizer_gaps_s": list(workload.optimizer_gaps_s),
        "messages": [
            {"bytes": round(message.size), "ready_s": message.ready_s, "tensors": list(message.tensors)}
            for message in planned
        ],
        "messages_of": messages_of,
    }


def _pairs(measured: Sequence[Measured]) -> tuple[int, int]:
    """Pairs of methods with as many ranks at the same rate: how many in the right order, and how many of them."""
    alike: dict[tuple[int, float], list[Measured]] = {}
    for one in measured:
        alike.setdefault((one.case.ranks, one.case.rate_Bps), []).append(one)
    counts = [pairs_in_order([m.predicted_s for m in of], [m.measured_s for m in of]) for of in alike.values()]
    return sum(right for right, _ in counts), sum(pairs for _, pairs in counts)


def _predictions(
    workload: Workload,
    tier: str,
    calibrations: dict[tuple[int, int], Calibration],
    cases: Sequence[Case],
    steps: Sequence[Step],
) -> dict[str, Any]:
    return {
        "schema": "wirebound-testbed-predictions",
        "version": 1,
        "workload": workload.name,
        "gradient_bytes": workload.size,
        "compute_s": workload.compute_s,
        "tier": tier,
        "calibrations": [asdict(calibration) for calibration in calibrations.values()],
        "predictions": [
            _case_document(case)
            | {
                "iteration_s": step.iteration_s,
                "messages": [{"bytes": m.size, "start_s": m.start_s, "end_s": m.end_s} for m in step.messages],
            }
            for case, step in zip(cases, steps, strict=True)
        ],
    }


def _case_document(case: Case) -> dict[str, Any]:
    return {"ranks": case.ranks, "rate_Bps": case.rate_Bps, "method": case.method.name}


def _measured_document(measured: Measured) -> dict[str, Any]:
    return _case_document(measured.case) | {
        "predicted_s": measured.predicted_s,
        "measured_s": measured.measured_s,
        "spread_s": measured.spread_s,
        "error": measured.error,
        "messages": [
            {"bytes": planned.size, "ready_s": planned.ready_s, "start_s": start, "end_s": end}
            for planned, (start, end) in zip(measured.planned, measured.messages, strict=True)
        ],
    }


def _percentile_90(values: Sequence[float]) -> float:
    """The 90th percentile, linearly interpolated as by `numpy.percentile`."""
    ordered = sorted(values)
    position = 0.9 * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])
