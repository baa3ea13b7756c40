"""Train the experiments on accuracy on this machine and record what came out: the data of chapter 7.

    python -m wirebound.study.record_convergence --out convergence.json [--journal curves.jsonl] [--task digits …]

Takes about a quarter of an hour on two busy cores. With a journal, curves are kept as soon as they are ready: a
recording that was stopped goes on from there when it is started again. `--task` records some of the tasks only.
"""

import importlib.metadata
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wirebound.files import require_writable, write_text
from wirebound.profile.recording import recording_parser, run_recording, tell

if TYPE_CHECKING:
    from wirebound.study.convergence import Task

SCHEMA, VERSION = "wirebound-convergence", 1
#: Coding is timed on gradients of this many bytes.
CODING_SIZES = (1024**2, 16 * 1024**2)


def record_convergence(
    tasks: Sequence[str] = ("digits", "mnist", "text"),
    *,
    seeds: int | None = None,
    sweep_seeds: int = 3,
    journal: Path | None = None,
    tell: Callable[[str], None] = lambda what: None,
) -> dict[str, Any]:
    """Return the document: rates, curves, step times and coding times, machine and versions.

    `seeds` limits the number of seeds, which each task sets; settings of compressors are varied with the first
    `sweep_seeds` of them. Raises `InputError` for an unknown task.
    """
    from wirebound.profile.disturbance import DisturbanceWatch, load_warnings
    from wirebound.profile.machine import machine_record
    from wirebound.study.convergence import comparison_runs, good_rates, sweep_runs, task_named, tuning_runs
    from wirebound.techniques.learning.distributed import train_runs

    chosen = [task_named(name) for name in tasks]
    machine = machine_record()
    warnings, watch = load_warnings(machine), DisturbanceWatch()
    with tempfile.TemporaryDirectory(prefix="wirebound-") as folder:
        kept = journal or Path(folder) / "curves.jsonl"
        tell("learning rates")
        tuning = train_runs([run for task in chosen for run in tuning_runs(task)], journal=kept)
        rates = {task: good_rates([curve for curve in tuning if curve.run.data == task.data]) for task in chosen}
        numbers = {task: range(task.seeds if seeds is None else min(seeds, task.seeds)) for task in chosen}
        compared = [run for task in chosen for run in comparison_runs(task, rates[task], numbers[task])]
        tell(f"compressors, {len(compared)} runs")
        curves = tuning + train_runs(compared, journal=kept)
        swept = [task for task in chosen if task.sweep]
        settings = [run for task in swept for run in sweep_runs(task, rates[task], numbers[task][:sweep_seeds])]
        if settings:
            tell(f"settings of compressors, {len(settings)} runs")
            curves += train_runs(settings, journal=kept)
    tell("coding")
    coding = measure_coding_against_copy()
    waited = watch.waiting_share()
    if waited is not None and waited > 0.1:
        warnings.append(f"threads waited {waited:.2f} s per second for a core: other work was running")
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "source": "python -m wirebound.study.record_convergence: DDP over gloo, one process and thread per worker",
        "points": "[step, mean payload bytes per worker so far, test loss in nats, test accuracy]",
        "machine": machine,
        "packages": {name: importlib.metadata.version(name) for name in ("torch", "numpy", "scikit-learn", "mlxtend")},
        "warnings": warnings,
        "tasks": {task.data: _described(task, rates[task]) for task in chosen},
        "sweep_seeds": sweep_seeds,
        "coding": coding,
        "curves": [_short(curve.fields()) for curve in dict.fromkeys(curves)],
    }


def _described(task: "Task", rates: dict[str, float]) -> dict[str, Any]:
    from wirebound.techniques.learning.data import data_set

    data = data_set(task.data)
    return {
        "name": task.name,
        "sha256": data.sha256,
        "training_samples": len(data.inputs),
        "test_samples": len(data.test_inputs),
        "rates": rates,
        "step": measure_step(task.data, task.model, task.batch_size),
    }


def measure_step(data_name: str, model_name: str, batch_size: int) -> dict[str, Any]:
    """Return when gradients are ready in one worker's step, on one thread, without any network: a small profile."""
    import torch

    from wirebound.profile.backward import profile_backward
    from wirebound.techniques.learning.data import data_set
    from wirebound.techniques.learning.models import learning_model, mean_loss

    data, threads = data_set(data_name), torch.get_num_threads()
    model = learning_model(model_name, data, seed=0)
    shapes = {name: list(parameter.shape) for name, parameter in model.named_parameters()}
    inputs, targets = data.inputs[:batch_size], data.targets[:batch_size]
    torch.set_num_threads(1)
    try:
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
        profile = profile_backward(model, lambda model: mean_loss(model, inputs, targets), optimizer, steps=30)
    finally:
        torch.set_num_threads(threads)
    return {
        "batch_size": batch_size,
        "forward_s": round(profile.forward_s, 9),
        "optimizer_s": round(profile.optimizer_s, 9),
        "tensors": [[tensor.name, shapes[tensor.name], round(tensor.gap_s, 9)] for tensor in profile.tensors],
    }


def measure_coding_against_copy(
    names: Sequence[str] | None = None, sizes: Sequence[int] = CODING_SIZES, repetitions: int = 7
) -> list[dict[str, Any]]:
    """Return median seconds of encoding, of decoding and of copying fp32 gradients in memory, measured in turn.

    All on one thread: on a busy machine a second one is waited for, longer than most of this takes.
    """
    from statistics import median

    import torch

    from wirebound.simulate.compressors import compressor_named
    from wirebound.study.record_codec import COMPRESSORS
    from wirebound.techniques.compress.compressor import compressor_of
    from wirebound.techniques.compress.measure import measure_coding, measure_copy

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    rows = []
    for name in names or COMPRESSORS:
        coder = compressor_of(compressor_named(name))
        for size in sizes:
            samples = measure_coding(coder, [size], repetitions=repetitions)
            copies = measure_copy(size, repetitions=repetitions)
            rows.append(
                {
                    "compressor": name,
                    "bytes": size,
                    "encode_s": round(median(sample.encode_s for sample in samples), 9),
                    "decode_s": round(median(sample.decode_s for sample in samples), 9),
                    "copy_s": round(median(copies), 9),
                }
            )
    torch.set_num_threads(threads)
    return rows


def _short(fields: dict[str, Any]) -> dict[str, Any]:
    points = [[step, round(sent), round(loss, 6), round(right, 6)] for step, sent, loss, right in fields["points"]]
    return fields | {"points": points, "seconds": round(fields["seconds"], 2)}


def document_text(document: dict[str, Any]) -> str:
    """Return the document as JSON with one curve, and one timing, a line."""
    lists = {name: document[name] for name in ("coding", "curves")}
    head = json.dumps({name: part for name, part in document.items() if name not in lists}, indent=2, allow_nan=False)
    tails = [
        f'  "{name}": [\n' + ",\n".join(f"    {json.dumps(item, allow_nan=False)}" for item in items) + "\n  ]"
        for name, items in lists.items()
    ]
    return head.removesuffix("\n}") + ",\n" + ",\n".join(tails) + "\n}\n"


def main(arguments: list[str] | None = None) -> int:
    """Record into a file; returns the exit code."""
    parser = recording_parser("wirebound.study.record_convergence", __doc__, out="FILE.json", what="the curves go")
    parser.add_argument("--journal", type=Path, metavar="FILE.jsonl", help="keeps each curve until all are there")
    parser.add_argument("--task", action="append", metavar="NAME", help="digits, mnist or text; may be repeated")
    parser.add_argument("--sweep-seeds", type=int, default=3, help="seeds that settings are varied with (default 3)")
    parser.add_argument("--seeds", type=int, help="at most so many seeds (default: as each task has)")
    options = parser.parse_args(arguments)

    def record_all() -> list[str]:
        require_writable(options.out)
        document = record_convergence(
            options.task or ("digits", "mnist", "text"),
            seeds=options.seeds,
            sweep_seeds=options.sweep_seeds,
            journal=options.journal,
            tell=tell,
        )
        write_text(options.out, document_text(document))
        return list(document["warnings"])

    return run_recording("record", record_all)


if __name__ == "__main__":
    sys.exit(main())
