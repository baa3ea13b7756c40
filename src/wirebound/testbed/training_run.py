"""Predict first, then train: real models and techniques on slowed links, and how far the predictions were off."""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wirebound.errors import InputError
from wirebound.files import write_json
from wirebound.profile.machine import machine_record
from wirebound.testbed.accuracy import Accuracy, accuracy_of_cases
from wirebound.testbed.ranks import GlooRanks, gloo_ranks
from wirebound.testbed.tiers import network_of, open_network
from wirebound.testbed.training_case import BUCKET_CAP_BYTES, TrainingCase, check_cases
from wirebound.testbed.training_documents import measured_document, predictions_document
from wirebound.testbed.training_measurement import TrainedCase, measure_case
from wirebound.testbed.training_prediction import (
    Prediction,
    Preparation,
    predict_training,
    prepare,
    with_servers,
)

PREDICTIONS, RESULTS = "predictions.json", "results.json"

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """All cases, predicted and measured, how far predictions were off, and the document of it all."""

    predictions: tuple[Prediction, ...]
    trained: tuple[TrainedCase, ...]
    accuracy: Accuracy
    document: dict[str, Any]
    predictions_document: dict[str, Any]


def run_training(
    cases: Sequence[TrainingCase],
    *,
    tier: str,
    out: Path,
    steps: int = 12,
    case_budget_s: float = 10.0,
    calibration_rate_Bps: float | None = None,
    profile_steps: int = 15,
    bucket_cap_bytes: float = BUCKET_CAP_BYTES,
    tell: Tell = lambda what: None,
) -> TrainingRun:
    """Profile, calibrate and predict every case, then train each `steps` steps (fewer, at least 4, beyond the budget).

    For each number of ranks the compute is profiled in as many processes, without communication, and the network is
    calibrated at one rate, `calibration_rate_Bps` (the middle one of the cases' rates unless given). From these the
    engine predicts all cases; ``predictions.json`` in the folder `out` is written and hashed before the first process
    that trains is started. ``results.json`` has the hash and what was measured.

    Raises `InputError` for what cannot be trained or a folder that holds something, `WireboundError` when a process
    fails.
    """
    check_cases(cases, steps)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} is there already: name a new or an empty folder")
    for case in cases:
        network_of(tier, case.ranks + case.servers, rate_Bps=case.rate_Bps)  # raises what cannot be
    rates = sorted({case.rate_Bps for case in cases})
    rate_Bps = calibration_rate_Bps or rates[len(rates) // 2]
    machine = machine_record()
    prepared: dict[int, Preparation] = {}
    for ranks in dict.fromkeys(case.ranks for case in cases):
        tell(f"profiling and calibrating {ranks} ranks")
        mine = [case for case in cases if case.ranks == ranks]
        with _trainers(tier, ranks) as group:
            prepared[ranks] = prepare(group, mine, rate_Bps, profile_steps, bucket_cap_bytes)
        servers = max(case.servers for case in mine)
        if servers:
            tell(f"calibrating {ranks} ranks and {servers} server{'s' if servers > 1 else ''}")
            with _trainers(tier, ranks + servers) as group:
                prepared[ranks] = with_servers(prepared[ranks], group, servers, rate_Bps)
    predictions = [predict_training(case, prepared[case.ranks]) for case in cases]
    out.mkdir(parents=True, exist_ok=True)
    predicted = predictions_document(predictions, prepared, tier)
    write_json(out / PREDICTIONS, predicted)
    sha256 = hashlib.sha256((out / PREDICTIONS).read_bytes()).hexdigest()
    predicted_unix_s = (out / PREDICTIONS).stat().st_mtime
    trained: dict[int, TrainedCase] = {}
    networks, started = [], []
    for ranks, servers in dict.fromkeys((case.ranks, case.servers) for case in cases):
        with _trainers(tier, ranks + servers) as group:
            started.append(group.started_unix_s)
            for number, prediction in enumerate(predictions):
                case, step = prediction.case, prediction.step
                if (case.ranks, case.servers) == (ranks, servers):
                    tell(f"{case.model}, {ranks} ranks, {case.rate_Bps * 8e-6:g} Mbit/s, {case.label}")
                    wanted = max(4, min(steps, int(case_budget_s / step.iteration_s)))
                    trained[number] = measure_case(group, case, prediction.workload, step, steps=wanted)
            networks.append(group.record() | {"rate_Bps": None, "burst_bytes": None})
    measured = tuple(trained[number] for number in range(len(cases)))
    measured_cases = [measured_document(p, one, rate_Bps) for p, one in zip(predictions, measured, strict=True)]
    accuracy = accuracy_of_cases(measured_cases)
    document = {
        "schema": "wirebound-testbed-training",
        "version": 1,
        "predictions_sha256": sha256,
        "predictions_written_unix_s": predicted_unix_s,
        "workers_started_unix_s": min(started),
        "measured_unix_s": time.time(),
        "calibration_rate_Bps": rate_Bps,
        "machine": machine,
        "networks": networks,
        "accuracy": asdict(accuracy) | {"right_share": accuracy.right_share},
        "cases": measured_cases,
    }
    write_json(out / RESULTS, document)
    return TrainingRun(tuple(predictions), measured, accuracy, document, predicted)


@contextmanager
def _trainers(tier: str, ranks: int) -> Iterator[GlooRanks]:
    """Open a network with processes that compute: these go before other work, and their communication first of all."""
    with open_network(tier, ranks) as network, gloo_ranks(network, prompt=False) as group:
        group.prompt = all(answer["prompt"] for answer in group.ask({"do": "prepare"}))
        yield group
