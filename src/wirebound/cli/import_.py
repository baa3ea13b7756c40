"""The command import: traces and measurements of your own job, made elsewhere."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wirebound.cli.naming import naming
from wirebound.cli.output import JsonFlag, note, print_json, printable
from wirebound.errors import InputError, unknown_name
from wirebound.files import require_other_file, require_writable
from wirebound.units import format_bytes, format_duration

if TYPE_CHECKING:
    from wirebound.profile.schema import Profile
    from wirebound.profile.traces.nccl_tests import NcclTests
    from wirebound.profile.traces.summary import TraceSummary
    from wirebound.profile.traces.workload import TracedWorkload

_LARGEST_BATCH = 10**9
#: What the document of several ranks has once, of the first rank or of the job.
_OF_ALL_RANKS = ("format", "world_size", "collectives")


@dataclasses.dataclass(slots=True)
class _Imported:
    """What an import found: its document, what to print of it, and a profile or the reason why there is none.

    Paths are for the terminal only: neither the document nor the profile has them.
    """

    document: dict[str, Any]
    lines: list[str]
    profile: "Profile | None"
    missing: InputError | None
    #: The files that warnings are about, where that is one of them.
    of_file: dict[str, Path] = dataclasses.field(default_factory=dict)
    #: What was wrong with the files of the other ranks.
    elsewhere: list[str] = dataclasses.field(default_factory=list)


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command("import")(import_)


def import_(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="A file, or one PyTorch trace of each rank.")],
    format_name: Annotated[
        str, typer.Option("--format", metavar="NAME", help="auto, kineto (PyTorch), horovod, nccl-tests.")
    ] = "auto",
    batch: Annotated[int | None, typer.Option("--batch", help="Samples in a traced step; no trace tells it.")] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="PROFILE.json", help="The file to write.")] = None,
    json_output: JsonFlag = False,
) -> None:
    """Import a PyTorch trace, a Horovod timeline or the output of nccl-tests.

    It tells communication, computation and their overlap, and with --out writes a profile for predict, need, messages
    and fit. Traces of several ranks of one job tell waiting and transfer apart.

    \b
    Example: wirebound import trace.json.gz --out PROFILE.json
    Example: wirebound import rank0.json.gz rank1.json.gz --json
    """
    from wirebound.profile.schema import save_profile
    from wirebound.profile.traces.formats import FORMATS, format_of

    if format_name not in ("auto", *FORMATS):
        raise unknown_name("format", format_name, ("auto", *FORMATS))
    if batch is not None and not 1 <= batch <= _LARGEST_BATCH:
        raise InputError(f"--batch {batch} must be between 1 and {_LARGEST_BATCH:,}")
    if out is not None:
        with naming("--out"):
            require_writable(out)
        require_other_file("--out", out, files)
    found = format_of(files[0]) if format_name == "auto" else format_name
    if len(files) > 1 and found != "kineto":
        raise InputError(f"{files[1]}: several files are one PyTorch trace of each rank, but {files[0]} is {found}")
    imported = {"kineto": _kineto, "horovod": _horovod, "nccl-tests": _nccl_tests}[found](files, batch)
    if out is not None:
        if imported.profile is None:
            raise imported.missing or InputError(f"{files[0]}: no profile can be made of it")
        save_profile(imported.profile, out)
    warnings = imported.document["warnings"] if imported.profile is None else imported.profile.warnings
    for warning in warnings:
        place = f"{imported.of_file[warning]}: " if warning in imported.of_file else ""
        note(f"warning: {printable(place + warning)}")
    for line in imported.elsewhere:
        note(f"warning: {printable(line)}")
    if json_output:
        print_json(imported.document)
        return
    for line in imported.lines:
        typer.echo(line)
    if out is not None:
        typer.echo(f"written to {out}")


def _kineto(files: list[Path], batch: int | None) -> _Imported:
    from wirebound.profile.traces.kineto import read_kineto
    from wirebound.profile.traces.kineto_profile import kineto_profile
    from wirebound.profile.traces.kineto_summary import summarize
    from wirebound.profile.traces.ranks import in_rank_order, waiting_us, without_waiting

    traces = in_rank_order([read_kineto(file) for file in files])
    summaries = [summarize(trace) for trace in traces]
    if len(traces) > 1:
        summaries = without_waiting(summaries, traces)
    document, lines = summaries[0].document(), _summary_lines(summaries[0])
    if len(traces) > 1:
        document["ranks"] = []
        for summary in summaries:
            own = {name: value for name, value in summary.document().items() if name not in _OF_ALL_RANKS}
            document["ranks"].append(own | {"waiting_us": round(waiting_us(summary), 3)})
            lines.append(
                f"  rank {_told(summary.rank):10} communication {format_duration(summary.communication_us / 1e6)},"
                f" its collectives' waiting for the last rank {format_duration(waiting_us(summary) / 1e6)}"
            )
    try:
        traced = kineto_profile(traces[0], summaries[0], batch_size=batch)
    except InputError as error:
        imported = _without_profile(document, lines, error, traces[0].path)
    else:
        imported = _with_replay(document, lines, traced)
    imported.of_file |= dict.fromkeys(traces[0].warnings, traces[0].path)
    imported.elsewhere += [f"{trace.path}: {warning}" for trace in traces[1:] for warning in trace.warnings]
    return imported


def _horovod(files: list[Path], batch: int | None) -> _Imported:
    from wirebound.profile.traces.horovod import read_horovod, summarize
    from wirebound.profile.traces.horovod_profile import horovod_profile, horovod_steps

    timeline = read_horovod(files[0])
    summary = summarize(timeline, len(horovod_steps(timeline)))
    try:
        traced = horovod_profile(timeline, summary, batch_size=batch)
    except InputError as error:
        return _without_profile(summary.document(), _summary_lines(summary), error, files[0])
    return _with_replay(summary.document(), _summary_lines(summary), traced)


def _nccl_tests(files: list[Path], batch: int | None) -> _Imported:
    from wirebound.profile.traces.formats import is_nccl_tests
    from wirebound.profile.traces.nccl_profile import nccl_profile
    from wirebound.profile.traces.nccl_tests import read_nccl_tests

    tests = read_nccl_tests(files[0])
    if not tests.rows and not is_nccl_tests(files[0]):
        raise InputError(f"{files[0]}: is not nccl-tests output: it has neither its header nor a row")
    try:
        return _Imported(tests.document(), _nccl_lines(tests), nccl_profile(tests, files[0]), None)
    except InputError as error:
        return _without_profile(tests.document(), _nccl_lines(tests), error, files[0])


def _without_profile(document: dict[str, Any], lines: list[str], error: InputError, file: Path) -> _Imported:
    """What was found, with the reason why it makes no profile among the warnings."""
    document["warnings"] = [*document["warnings"], str(error).removeprefix(f"{file}: ")]
    return _Imported(document, lines, None, error)


def _with_replay(document: dict[str, Any], lines: list[str], traced: "TracedWorkload") -> _Imported:
    """Let the engine replay the traced step; a difference becomes a warning that the profile keeps."""
    from wirebound.fit.replay import replay_step

    profile = traced.profile
    replay = replay_step(
        profile.workload(), [(message.ready_s, message.duration_s) for message in traced.messages], traced.iteration_s
    )
    if replay.warning is not None:
        profile = dataclasses.replace(profile, warnings=(*profile.warnings, replay.warning))
    document["warnings"] = list(profile.warnings)
    document["replay"] = {"predicted_iteration_s": replay.predicted_s, "traced_iteration_s": replay.traced_s}
    lines.append(
        f"  step            traced {format_duration(replay.traced_s)}, replayed by the engine"
        f" {format_duration(replay.predicted_s)} ({replay.error:+.1%})"
    )
    lines.append(
        f"  gradients       {len(profile.tensors)} messages, {format_bytes(sum(t.size for t in profile.tensors))}"
        f" {profile.gradient_dtype}"
    )
    return _Imported(document, lines, profile, None)


def _told(value: int | None) -> str:
    return "unknown" if value is None else str(value)


def _summary_lines(summary: "TraceSummary") -> list[str]:
    document = summary.document()
    lines = [
        f"{summary.format} trace, rank {_told(summary.rank)} of {_told(summary.world_size)},"
        f" {summary.steps} whole step(s), {len(summary.collectives)} collectives",
        f"  communication   {format_duration(summary.communication_us / 1e6)}",
    ]
    if summary.computation_us is not None:
        lines += [
            f"  computation     {format_duration(summary.computation_us / 1e6)}",
            f"  overlap         {format_duration((summary.overlap_us or 0.0) / 1e6)},"
            f" {document['overlap_percent']:.1f} % of communication;"
            f" exposed {format_duration(document['exposed_communication_us'] / 1e6)}",
        ]
    return lines


def _nccl_lines(tests: "NcclTests") -> list[str]:
    ranks = "an unknown number of" if tests.ranks is None else str(tests.ranks)
    lines = [
        f"nccl-tests {tests.collective or 'of an unknown collective'}, {ranks} ranks, {len(tests.rows)} measurements"
    ]
    best = max(tests.rows, key=lambda row: row.busbw_gbs, default=None)
    if best is not None:
        lines.append(f"  highest busbw   {best.busbw_gbs:.4g} GB/s at {format_bytes(best.size)}")
    return lines
