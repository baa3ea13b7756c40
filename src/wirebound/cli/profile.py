"""The command that measures a job: profile."""

import contextlib
import sys
from pathlib import Path
from typing import Annotated

import typer

from wirebound.cli.naming import naming, parsed
from wirebound.cli.output import JsonFlag, note, print_json, printable
from wirebound.cli.seed import check_seed
from wirebound.errors import InputError
from wirebound.files import require_writable
from wirebound.units import bounded_duration, parse_bandwidth

_MOST_STEPS = 1_000_000
_LARGEST_BATCH = 65_536
_DEVICES = ("auto", "cpu", "cuda")
#: The built-in network is small and quick; one of the user's may need minutes, and its user can say so.
_BUILT_IN_LIMIT_S, _OWN_LIMIT_S = 10.0, 60.0
#: Other batch sizes get this share of the time.
_BATCHES_SHARE = 0.6


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command("profile")(profile)


def profile(
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="MODULE:FUNCTION", help="Your job: a function that returns it, see above."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="PROFILE.json", help="The file to write.")] = None,
    device: Annotated[str, typer.Option("--device", metavar="auto|cpu|cuda", help="Where to train.")] = "auto",
    steps: Annotated[int, typer.Option("--steps", help="Training steps to measure.")] = 30,
    batch: Annotated[
        int | None, typer.Option("--batch", help="Samples in a step. [default: 32, or what your function does]")
    ] = None,
    batches: Annotated[
        str | None,
        typer.Option("--batches", help="Other batch sizes to time as well, such as 1,2,4,8,16,32.", metavar="N,N,…"),
    ] = None,
    time_limit: Annotated[
        str | None,
        typer.Option(
            "--time-limit",
            metavar="TEXT",
            help="Begin no new step after so long. [default: 60 s; of the built-in network 10 s]",
        ),
    ] = None,
    collectives: Annotated[
        bool, typer.Option("--collectives/--no-collectives", help="Time all-reduces as well.")
    ] = True,
    counters: Annotated[
        str | None,
        typer.Option(
            "--counters", metavar="TEXT", help="Read link, processor and run queue this often, such as '5 ms'."
        ),
    ] = None,
    bandwidth: Annotated[
        str | None,
        typer.Option(
            "--bandwidth",
            metavar="TEXT",
            help="Of the link between ranks; local connections are slowed down to it (Linux).",
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the weights, the data and the order of sizes.")] = 0,
    json_output: JsonFlag = False,
) -> None:
    """Measure a training job: when gradients become ready, memory, loading, and how long an all-reduce takes.

    Your job is a function in a module of the current folder, or an installed one. It returns (model, loss, data) or
    (model, loss, data, optimizer): a torch.nn.Module; loss(model, batch), which returns one number; one batch, or
    something that gives a batch a step, such as a DataLoader. It may take batch_size. Without --model a small
    network (ResNet-20 on random 32×32 images) is trained, in about 15 seconds.

    All-reduces run between two more processes of this machine; under torchrun every rank profiles its own model, the
    all-reduces are the ranks' own (gloo, or NCCL on CUDA), and rank 0 writes one file. With --batches, predict --batch
    follows what was measured. What watching costs is measured and printed.

    \b
    Example: wirebound profile --out PROFILE.json
    Example: wirebound profile --model train:make_job --batch 16 --batches 4,8,16 --out PROFILE.json
    Example: torchrun --nproc-per-node 2 -m wirebound profile --model train:make_job --out PROFILE.json
    """
    check_seed(seed)
    if device not in _DEVICES:
        raise InputError(f"--device {device}: known are {', '.join(_DEVICES)}")
    if not 1 <= steps <= _MOST_STEPS:
        raise InputError(f"--steps {steps} must be between 1 and {_MOST_STEPS:,}")
    least_batch = 2 if model is None else 1
    if batch is not None and not least_batch <= batch <= _LARGEST_BATCH:
        why = ", for batch normalization," if model is None else ""
        raise InputError(f"--batch {batch} must be between {least_batch}{why} and {_LARGEST_BATCH:,}")
    batch_sizes = [] if batches is None else _batch_sizes(batches)
    limit_s = _seconds("--time-limit", time_limit) or (_BUILT_IN_LIMIT_S if model is None else _OWN_LIMIT_S)
    counters_s, rate_Bps = _counters(counters), _rate(bandwidth)
    if out is None and not json_output:
        raise InputError("nothing to write: name a file with --out PROFILE.json, or print with --json")

    from wirebound.profile.collectives import DEFAULT_SIZES
    from wirebound.profile.pacing import pacing_available
    from wirebound.profile.ranks import launched_rank, launched_with_ranks

    if not launched_with_ranks():
        if counters_s is not None and not collectives:
            raise InputError("--counters watches communication: leave --no-collectives out, or start several ranks")
        if rate_Bps is not None and not collectives:
            raise InputError("--bandwidth is of the all-reduces: leave --no-collectives out, or start several ranks")
        if rate_Bps is not None and not pacing_available():
            raise InputError(f"--bandwidth: sockets can be slowed down on Linux only, not on {sys.platform}")
    is_first = launched_rank() == 0
    if out is not None and is_first:
        with naming("--out"):
            require_writable(out)

    from wirebound.cli.profile_interrupt import ends_as_a_rank
    from wirebound.cli.profile_report import ProfileProgress, profile_summary
    from wirebound.profile.feed import kill_loading_processes
    from wirebound.profile.job_profile import JobRequest, profile_job
    from wirebound.profile.schema import profile_document, save_profile
    from wirebound.testbed.interruption import Interruptions

    interruptible, progress = Interruptions(kill_loading_processes), ProfileProgress(is_first)
    alone_or_rank = ends_as_a_rank(is_first) if launched_with_ranks() else contextlib.nullcontext()
    # Whatever a user's code prints must not mix with the document on standard output.
    with alone_or_rank, interruptible, progress, contextlib.redirect_stdout(sys.stderr):
        request = JobRequest(
            model=model,
            device=_device(device),
            steps=steps,
            batch_size=batch if batch is not None or model is not None else 32,
            batches=batch_sizes,
            seed=seed,
            time_limit_s=limit_s,
            batches_limit_s=_BATCHES_SHARE * limit_s,
            sizes=DEFAULT_SIZES if collectives else (),
            counters_s=counters_s,
            rate_Bps=rate_Bps,
        )
        measured = profile_job(request, progress.show)
        if not is_first:
            return
        if out is not None:
            save_profile(measured, out)
    for warning in measured.warnings:
        note(f"warning: {printable(warning)}")
    if json_output:
        print_json(profile_document(measured))
    else:
        typer.echo(profile_summary(measured))
        typer.echo(f"written to {out}")


def _device(name: str) -> str:
    if name != "auto":
        return name
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _batch_sizes(text: str) -> list[int]:
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--batches {text!r:.60} must be whole numbers with commas between, such as 1,2,4,8") from None
    wrong = [size for size in sizes if not 1 <= size <= _LARGEST_BATCH]
    if wrong:
        raise InputError(f"--batches: {wrong[0]} must be between 1 and {_LARGEST_BATCH:,}")
    if len(set(sizes)) < 2:
        raise InputError(f"--batches {text!r} must have two batch sizes at least, to fit a line to")
    return sizes


def _seconds(option: str, text: str | None) -> float | None:
    if text is None:
        return None
    seconds = parsed(option, bounded_duration, text)
    if seconds <= 0:
        raise InputError(f"{option} {text!r} must be greater than 0")
    return seconds


def _counters(text: str | None) -> float | None:
    from wirebound.profile.sampler import check_interval

    seconds = _seconds("--counters", text)
    if seconds is not None:
        with naming("--counters"):
            check_interval(seconds)
    return seconds


def _rate(text: str | None) -> float | None:
    if text is None:
        return None
    rate_Bps = parsed("--bandwidth", parse_bandwidth, text)
    if not 1e5 <= rate_Bps <= 1e13:  # below, the smallest all-reduces alone would take longer than a minute
        raise InputError(f"--bandwidth {text!r} must be between 800 kbps and 80 Tbps")
    return rate_Bps
