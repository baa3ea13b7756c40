"""Run the planned experiments of federated learning, some at a time, and put what they give into one document."""

import dataclasses
import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from typing import TYPE_CHECKING, Any

from wirebound.errors import InputError
from wirebound.study.federated_plan import METHODS, TASKS, Planned

if TYPE_CHECKING:
    from wirebound.techniques.federated.simulation import FederatedRun
    from wirebound.techniques.learning.data import DataSet

FORMAT = "wirebound-federated"


def federated_document() -> dict[str, Any]:
    """Return the document without runs: settings, hashes of the data, versions and the machine record."""
    import numpy as np
    import torch

    from wirebound.profile.machine import machine_record

    loaded = {name: _data(name) for name in sorted({task.data for task in TASKS.values()})}
    return {
        "format": FORMAT,
        "version": 1,
        "source": "python -m wirebound.study.record_federated",
        "tasks": {name: dataclasses.asdict(task) for name, task in TASKS.items()},
        "methods": {name: dataclasses.asdict(method) for name, method in METHODS.items()},
        "data": {
            name: {"sha256": data.sha256, "train": len(data.inputs), "test": len(data.test_inputs)}
            for name, data in loaded.items()
        },
        "versions": {"torch": str(torch.__version__).partition("+")[0], "numpy": np.__version__},
        "machine": machine_record(),
        "notes": "splits: samples of each client, and who took part in each round; runs: bytes of one client in one "
        "round, counted from buffers, and the accuracy after every so many rounds of the task; train_s_per_sample: "
        "core time of a pass over a sample, the least of some short runs, by task and method",
        "train_s_per_sample": {},
        "splits": [],
        "runs": [],
    }


def run_planned(planned: Planned) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run one experiment on one thread; return its row of ``splits`` and of ``runs``."""

    run = _run(planned, TASKS[planned.task].rounds)
    split = {
        "task": planned.task,
        "alpha": planned.alpha,
        "seed": planned.seed,
        "sizes": " ".join(map(str, run.sizes)),
        "sampled": [" ".join(map(str, clients)) for clients in run.sampled],
    }
    row = dataclasses.asdict(planned) | {
        "uplink_bytes": run.uplink_bytes,
        "downlink_bytes": run.downlink_bytes,
        "accuracy": [round(point.accuracy, 4) for point in run.points],
        "final_loss": round(run.points[-1].loss, 4),
    }
    return split, row


def _run(planned: Planned, rounds: int) -> "FederatedRun":
    import torch

    from wirebound.techniques.federated.client import LocalTraining
    from wirebound.techniques.federated.simulation import Federation, run_federation

    task, method = TASKS[planned.task], METHODS[planned.method]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # sums then have one order, whatever the machine has
    try:
        return run_federation(
            _data(task.data),
            Federation(
                model=task.model,
                clients=task.clients,
                per_round=task.per_round,
                alpha=float(planned.alpha),
                minimum=task.minimum,
                rounds=rounds,
                evaluate_every=task.evaluate_every,
                local=LocalTraining(**{**task.local, **method.local}),
                reduction=method.reduction,
                seed=planned.seed,
            ),
        )
    finally:
        torch.set_num_threads(threads)


@cache
def _data(name: str) -> "DataSet":
    from wirebound.techniques.learning.data import data_set

    return data_set(name)


def measure_training(plan: Sequence[Planned], repetitions: int = 3) -> dict[str, dict[str, float]]:
    """Return the core time in seconds of a pass over a sample, by task and method: the least of some short runs.

    Recorded runs share the machine with each other, so their own times are not used.
    """
    found: dict[str, dict[str, float]] = {}
    for planned in {(planned.task, planned.method): planned for planned in reversed(plan)}.values():
        least = min(_run(planned, 2).train_s_per_sample for _ in range(repetitions))
        found.setdefault(planned.task, {})[planned.method] = float(f"{least:.4g}")
    return found


def add_runs(
    document: dict[str, Any],
    plan: Sequence[Planned],
    *,
    processes: int = 1,
    seconds: float | None = None,
    tell: Callable[[Planned], None] = lambda planned: None,
) -> int:
    """Add the runs of `plan` that a document lacks, until `seconds` are over; return how many are still missing.

    `tell` hears of each run when the document has it. Times of training are measured once, with nothing beside them.

    Raises `InputError` for a document of other settings, data or versions: its runs would not belong together.
    """
    check_same(document, federated_document())
    present = {run_key(row) for row in document["runs"]}
    missing = [planned for planned in plan if planned not in present]
    deadline = None if seconds is None else time.monotonic() + seconds
    order = {planned: position for position, planned in enumerate(plan)}
    with ProcessPoolExecutor(max_workers=processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = {pool.submit(run_planned, planned): planned for planned in missing}
        for future in as_completed(futures):
            if future.cancelled():
                continue
            split, row = future.result()
            document["runs"].append(row)
            if split not in document["splits"]:
                document["splits"].append(split)
            document["runs"].sort(key=lambda row: order.get(run_key(row), len(order)))
            document["splits"].sort(key=lambda row: (row["task"], float(row["alpha"]), row["seed"]))
            tell(futures[future])
            if deadline is not None and time.monotonic() > deadline:
                for other in futures:
                    other.cancel()
    if not document["train_s_per_sample"]:
        document["train_s_per_sample"] = measure_training(plan)
    return len(set(plan) - {run_key(row) for row in document["runs"]})


def run_key(row: dict[str, Any]) -> Planned:
    """Return which run a row is of."""
    return Planned(row["task"], row["alpha"], row["method"], row["seed"])


def check_same(document: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise `InputError` unless both documents are of the same settings, data and versions."""
    for part in ("format", "version", "tasks", "methods", "data", "versions"):
        if document.get(part) != now[part]:
            raise InputError(f"the recorded runs have another {part!r} than this checkout: record into a new file")
