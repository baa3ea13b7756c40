"""Train many small runs, each with its own compressor, in processes that are started once."""

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from wirebound.errors import InputError
from wirebound.techniques.launch import started_processes, wait_for
from wirebound.techniques.learning.data import DataSet, data_set, save
from wirebound.techniques.learning.journal import read
from wirebound.techniques.learning.models import learning_model
from wirebound.techniques.learning.runs import Curve, LearningRun
from wirebound.techniques.learning.train import settings_of


def train_runs(
    runs: Sequence[LearningRun], *, journal: Path | None = None, time_limit_s: float = 3600.0
) -> list[Curve]:
    """Train each run with real DDP over gloo on this machine, and return their curves in the order of `runs`.

    All runs have the same number of workers, each a process with one thread. The same run gives the same points every
    time on one machine; other processors add in another order. With a `journal` each curve is kept in that file as
    soon as it is ready, and runs that it has already are not trained again. Raises `InputError` for runs that make no
    sense, `WireboundError` with one line when a process fails or `time_limit_s` passes; no process is left behind.
    """
    workers = {run.workers for run in runs}
    if len(workers) > 1:
        raise InputError(f"runs with {', '.join(map(str, sorted(workers)))} workers: train them apart")
    data = _checked(runs)
    with tempfile.TemporaryDirectory(prefix="wirebound-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        kept = journal or folder / "journal.jsonl"
        found = {curve.run: curve for curve in read(kept)}
        missing = [run for run in dict.fromkeys(runs) if run not in found]
        if missing:
            for one in data:
                save(one, folder / f"{one.name}.pt")
            orders = folder / "orders.json"
            document = {
                "runs": [run.fields() for run in missing],
                "journal": str(kept.absolute()),
                "time_limit_s": time_limit_s,
            }
            orders.write_text(json.dumps(document), encoding="utf-8")
            command = [sys.executable, "-m", "wirebound.techniques.learning.worker", str(orders)]
            commands = {f"worker {rank}": [*command, str(rank)] for rank in range(missing[0].workers)}
            with started_processes(commands, folder) as started:
                wait_for(started, time_limit_s)
            found = {curve.run: curve for curve in read(kept)}
        return [found[run] for run in runs]


def _checked(runs: Sequence[LearningRun]) -> list[DataSet]:
    """Return the data sets; raises for one, a model or a setting that a process would refuse, before any is started."""
    data = {name: data_set(name) for name in dict.fromkeys(run.data for run in runs)}
    for name, model in dict.fromkeys((run.data, run.model) for run in runs):
        learning_model(model, data[name], seed=0)
    for run in runs:
        settings_of(run)
    return list(data.values())
