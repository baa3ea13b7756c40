"""Try the survey's outlook on compression and record what came of it.

    python -m wirebound.study.record_outlook --out OUTLOOK.json [--part choice …] [--task digits] [--sender DGC]

Five parts: ``choice`` (compress only what is exposed: predicted), ``selective`` (the same, trained), ``rounds`` (ratios
that change over rounds), ``correlation`` (how alike successive gradients are) and ``senders`` (differences to the last
step against error feedback). A file that is there already keeps its other parts, tasks and senders, so that these can
be recorded one by one: about fifteen minutes in all on one core. Workers are simulated in one process: their payloads
are encoded, counted and decoded, not sent.
"""

import importlib.metadata
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from wirebound.errors import InputError, unknown_name
from wirebound.files import require_writable, write_json
from wirebound.profile.recording import recording_parser, run_recording, tell

SCHEMA, VERSION = "wirebound-outlook", 1
PARTS = ("choice", "selective", "rounds", "correlation", "senders")
TASKS = ("digits", "mnist")
CODEC = Path("data/recorded/codec_cpu_2core.json")
_PACKAGES = ("torch", "numpy", "mlxtend", "scikit-learn")

Tell = Callable[[str], None]


def record_choice(tell: Tell) -> dict[str, Any]:
    """The predicted steps."""
    from wirebound.study.outlook_choice import ChoiceSettings, choice_row

    settings, rows = ChoiceSettings(), []
    for name in settings.workloads:
        for workers in settings.workers:
            for gbps in settings.gbps:
                tell(f"choice: {name}, {workers} workers, {gbps:g} Gbps")
                rows.append(choice_row(settings, name, workers, gbps))
    return {"settings": asdict(settings), "rows": rows}


def record_selective(task: str, codec: Path, tell: Tell) -> dict[str, Any]:
    """One task trained with the chosen ratios and with one ratio."""
    from wirebound.fit.codec_document import load_codec
    from wirebound.study.outlook_choice import SelectiveSettings, measured_workload, selective
    from wirebound.study.outlook_training import JOBS

    settings, coding = SelectiveSettings(), load_codec(codec, "topk:0.01")
    job = replace(JOBS[task], decay_steps=())
    tell(f"selective: {task}")
    result = selective(job, measured_workload(job), settings, coding)
    return {"settings": asdict(settings), "codec": asdict(coding), **result}


def record_rounds(task: str, tell: Tell) -> dict[str, Any]:
    """One task trained with each schedule of ratios."""
    from wirebound.study.outlook_training import JOBS, RoundSettings, rounds

    settings, rows = RoundSettings(), []
    for seed in settings.seeds:
        tell(f"rounds: {task}, seed {seed}")
        rows += rounds(JOBS[task], settings, seed)
    return {"settings": asdict(settings), "job": asdict(JOBS[task]), "rows": rows}


def record_correlation(task: str, tell: Tell) -> dict[str, Any]:
    """How alike the successive gradients of one task are."""
    from wirebound.study.outlook_training import JOBS, CorrelationSettings, correlation

    settings, job, rows = CorrelationSettings(), JOBS[task], []
    for batch in settings.batches:
        tell(f"correlation: {task}, batch {batch}")
        rows += correlation(job, settings, batch, "gradient")
    rows += correlation(job, settings, settings.velocity_batch, "velocity")
    return {"settings": asdict(settings), "job": asdict(job), "rows": rows}


def record_senders(task: str, names: Sequence[str], earlier: dict[str, Any], tell: Tell) -> dict[str, Any]:
    """One task trained with each sender; those that are not named stay as they were in `earlier`."""
    from wirebound.study.outlook_training import JOBS, DifferenceSettings, difference_row, senders, tuned_rate

    settings, job = DifferenceSettings(), replace(JOBS[task], decay_steps=())
    tuning = dict(earlier.get("tuning_losses", {}))
    rows = [row for row in earlier.get("rows", []) if row["variant"] not in names]
    for name in names:
        tell(f"senders: {task}, {name}")
        rate, tuning[name] = tuned_rate(job, name, settings)
        rows += [difference_row(job, name, settings, seed, rate) for seed in settings.seeds]
    order = list(senders(settings))
    rows.sort(key=lambda row: (order.index(row["variant"]), row["seed"]))
    return {"settings": asdict(settings), "job": asdict(job), "tuning_losses": tuning, "rows": rows}


def record_parts(
    document: dict[str, Any], parts: Sequence[str], tasks: Sequence[str], names: Sequence[str], codec: Path, tell: Tell
) -> dict[str, Any]:
    """Return the document with these parts recorded anew, each with the machine that recorded it."""
    from wirebound.profile.machine import machine_record
    from wirebound.study.outlook_choice import rounded
    from wirebound.techniques.learning.data import data_set

    head: dict[str, Any] = {"schema": SCHEMA, "version": VERSION, "source": "python -m wirebound.study.record_outlook"}
    document = head | document
    document["packages"] = {name: importlib.metadata.version(name).partition("+")[0] for name in _PACKAGES}
    document["data_sha256"] = {name: data_set(name).sha256 for name in TASKS}
    machine = machine_record()
    recorders: dict[str, Callable[[str], dict[str, Any]]] = {
        "selective": lambda task: record_selective(task, codec, tell),
        "rounds": lambda task: record_rounds(task, tell),
        "correlation": lambda task: record_correlation(task, tell),
        "senders": lambda task: record_senders(task, names, document.get("senders", {}).get(task, {}), tell),
    }
    for part in parts:
        if part == "choice":
            document[part] = rounded(record_choice(tell)) | {"machine": machine}
            continue
        for task in tasks:
            recorded: dict[str, Any] = rounded(recorders[part](task))
            document.setdefault(part, {})[task] = recorded | {"machine": machine}
    return document


def main(arguments: list[str] | None = None) -> int:
    """Record into a file; returns the exit code."""
    parser = recording_parser("wirebound.study.record_outlook", __doc__, out="OUTLOOK.json", what="the results go")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this one; may be repeated")
    parser.add_argument("--task", action="append", choices=TASKS, help="train only this one; may be repeated")
    parser.add_argument("--sender", action="append", metavar="NAME", help="only this one; may be repeated")
    parser.add_argument("--codec", type=Path, default=CODEC, help=f"what coding costs (default {CODEC})")
    options = parser.parse_args(arguments)

    def record_all() -> list[str]:
        require_writable(options.out)
        document = record_parts(
            _known(options.out),
            options.part or list(PARTS),
            options.task or list(TASKS),
            _checked(options.sender),
            options.codec,
            tell,
        )
        write_json(options.out, document)
        return []

    return run_recording("record", record_all)


def _checked(names: list[str] | None) -> list[str]:
    """The senders asked for, all by default; raises `InputError` for an unknown one."""
    from wirebound.study.outlook_training import DifferenceSettings, senders

    known = list(senders(DifferenceSettings()))
    for name in names or ():
        if name not in known:
            raise unknown_name("sender", name, known)
    return names or known


def _known(path: Path) -> dict[str, Any]:
    """What a file has already; raises `InputError` for a file of another kind."""
    if not path.exists():
        return {}
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        document = None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA or document.get("version") != VERSION:
        raise InputError(f"{path} is there and has no results of this program: choose another file, or remove it")
    return document


if __name__ == "__main__":
    sys.exit(main())
