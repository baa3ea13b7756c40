"""Commands of the study: run, status, compare, doctor."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wirebound.cli.output import JsonFlag, note, print_json

if TYPE_CHECKING:
    from wirebound.study.compare import Change, Comparison

NameOption = Annotated[
    str | None, typer.Option("--name", help="Name of the run (default: quick, or full with --full).")
]
FullFlag = Annotated[
    bool, typer.Option("--full", help="The full parameter set: a longer probe of this machine, closer intervals.")
]


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command()(run)
    app.command()(status)
    app.command()(compare)
    app.command()(doctor)


def run(
    name: NameOption = None,
    full: FullFlag = False,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="[CHAPTER.]NAME=VALUE",
            help="A parameter of all chapters that declare it, or of one chapter. May be repeated.",
        ),
    ] = None,
    parameters: Annotated[
        Path | None, typer.Option("--params", metavar="FILE.yaml", help="Parameters from a file; --set beats it.")
    ] = None,
    only: Annotated[
        str | None, typer.Option("--only", metavar="CHAPTER", help="One chapter and what it needs, as far as stale.")
    ] = None,
    live: Annotated[bool, typer.Option("--live/--no-live", help="Probe this machine, or leave that out.")] = True,
    refresh_live: Annotated[bool, typer.Option("--refresh-live", help="Probe this machine again.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Execute the study's chapters, those that are stale, and publish the run to runs/NAME.

    Example: wirebound run --set workers=32 --set "full_utilization.bandwidths=[1 Gbps, 25 Gbps]" --name mine

    A value in --params beats a default, one in --set beats both. When a chapter fails, runs/NAME stays as it was and
    the next run resumes there.
    """
    from wirebound.errors import InputError
    from wirebound.study.inputs import Study, make_request
    from wirebound.study.project import find_project
    from wirebound.study.run import run_study
    from wirebound.study.settings import parse_assignments, read_parameters_file

    if refresh_live and not live:
        raise InputError("--refresh-live and --no-live exclude each other: give one of them")
    study = Study(find_project())
    layers = [parse_assignments(assignments or ())]
    if parameters is not None:
        layers.append(read_parameters_file(parameters, study.chapters))
    request = make_request(study, name=name, full=full, live=live, only=only, layers=layers)
    outcome = run_study(study, request, refresh_live=refresh_live, progress=sys.stderr.isatty() and not as_json)
    stale = outcome.manifest["stale"]
    if stale:
        note(
            f"left out and no longer up to date: {', '.join(stale)}; `wirebound run` with the same options renews them"
        )
    folder = outcome.folder.relative_to(study.project.root).as_posix()
    if as_json:
        print_json(
            {
                "name": request.name,
                "folder": folder,
                "executed": list(outcome.executed),
                "fresh": list(outcome.fresh),
                "stale": stale,
                "published": outcome.published,
                "set": outcome.manifest["set"],
                "live": request.live,
                "parameters": outcome.manifest["parameters"],
            }
        )
        return
    done = f"executed {', '.join(outcome.executed)}" if outcome.executed else "nothing to execute"
    typer.echo(
        f"run {request.name}: {done}; {len(outcome.fresh)} fresh; {folder}"
        + ("" if outcome.published else " unchanged")
    )


def status(name: NameOption = None, full: FullFlag = False, as_json: JsonFlag = False) -> None:
    """Show which chapters of a run are fresh, stale (and why), failed or never run. Nothing is executed.

    Example: wirebound status --name mine

    The run's own last parameters count.
    """
    from wirebound.study.inputs import Study, make_request, read_request
    from wirebound.study.project import find_project
    from wirebound.study.run_folder import published_run
    from wirebound.study.status import chapter_states

    study = Study(find_project())
    chosen = name or ("full" if full else "quick")
    request = read_request(study, chosen)
    if request is None and name is not None:
        published_run(study.project, name)  # says which runs there are
    request = request or make_request(study, name=chosen, full=full)
    states = chapter_states(study, request)
    if as_json:
        rows = [{"chapter": s.chapter, "state": s.state, "reasons": list(s.reasons)} for s in states]
        print_json({"name": chosen, "live": request.live, "chapters": rows})
        return
    width = max(len(state.chapter) for state in states)
    for state in states:
        reasons = f"  {'; '.join(state.reasons[:4])}{'; …' if len(state.reasons) > 4 else ''}" if state.reasons else ""
        typer.echo(f"{state.chapter:<{width}}  {state.state:<9}{reasons}".rstrip())


def compare(
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="[A] [B]", help="Two runs, or one to compare with the published run.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 unless all results agree.")] = False,
    accept: Annotated[
        str | None, typer.Option("--accept", metavar="NAME", help="Make the run NAME the published one.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Show which results moved between two runs, by how much, against their tolerances.

    Example: wirebound compare published mine --strict

    Without names the published run is compared with the last quick run. The exit code is 0 whenever the comparison was
    made; with --strict it is 1 when a result moved, appeared or vanished.
    """
    from wirebound.errors import InputError
    from wirebound.study.compare import PUBLISHED, accept_run, compare_runs
    from wirebound.study.inputs import Study
    from wirebound.study.project import find_project

    names = runs or []
    if len(names) > 2 or (accept is not None and names):
        raise InputError("compare takes one or two runs, or --accept NAME alone")
    study = Study(find_project())
    if accept is not None:
        folder = accept_run(study, accept).relative_to(study.project.root).as_posix()
        if as_json:
            print_json({"accepted": accept, "folder": folder})
        else:
            typer.echo(f"{folder} is now run {accept}")
        return
    first, second = names if len(names) == 2 else (PUBLISHED, names[0] if names else "quick")
    comparison = compare_runs(study.project, first, second)
    if as_json:
        print_json(comparison.document())
    else:
        _print_comparison(comparison)
    if strict and not comparison.agrees:
        raise typer.Exit(1)


def _print_comparison(comparison: "Comparison") -> None:
    for name, (first, second) in comparison.parameters.items():
        typer.echo(f"parameter {name}: {_shown(first)} → {_shown(second)}")
    for result in comparison.results:
        if result.change != "same":
            typer.echo(_print_change(result))
    counts = {
        kind: sum(result.change == kind for result in comparison.results)
        for kind in ("same", "within", "moved", "appeared", "vanished")
    }
    words = {"within": "within tolerance"}
    typer.echo(
        f"{comparison.first} → {comparison.second}: "
        + ", ".join(f"{count} {words.get(kind, kind)}" for kind, count in counts.items())
    )


def _print_change(result: "Change") -> str:
    values = f"{_shown(result.first)} → {_shown(result.second)} {result.unit}".rstrip()
    if result.change in ("appeared", "vanished"):
        value = result.second if result.change == "appeared" else result.first
        values = f"{_shown(value)} {result.unit}".rstrip()
    by = f" by {result.difference:+.4g} (tolerance {result.tolerance or 0:g})" if result.difference is not None else ""
    word = "within tolerance" if result.change == "within" else result.change
    return f"{result.name}: {word}{by}: {values}"


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def doctor(as_json: JsonFlag = False) -> None:
    """Check that everything is here that the study needs, and say what to do where it is not.

    Example: wirebound doctor

    The exit code is 1 when a check fails.
    """
    from wirebound.study.doctor import run_checks

    checks = run_checks()
    failed = any(check.state == "fail" for check in checks)
    if as_json:
        rows = [{"name": c.name, "state": c.state, "message": c.message, "remedy": c.remedy} for c in checks]
        print_json({"ok": not failed, "checks": rows})
    else:
        width = max(len(check.name) for check in checks)
        for check in checks:
            remedy = f" → {check.remedy}" if check.remedy else ""
            typer.echo(f"{check.state:<4}  {check.name:<{width}}  {check.message}{remedy}")
    if failed:
        raise typer.Exit(1)
