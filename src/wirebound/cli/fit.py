"""The command that fits: fit."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wirebound.cli.naming import naming
from wirebound.cli.output import JsonFlag, note, print_json, printable
from wirebound.cli.seed import check_seed
from wirebound.errors import InputError
from wirebound.files import require_other_file, require_writable
from wirebound.fit.document import SCHEMA, VERSION
from wirebound.units import format_bandwidth, format_bytes, format_duration

if TYPE_CHECKING:
    from wirebound.fit.communication import CommunicationFit, RegionFit
    from wirebound.fit.curves import CurveChoice
    from wirebound.model import Link
    from wirebound.profile.schema import Profile


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command("fit")(fit)


def fit(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="PROFILE.json, output of nccl-tests, or CSV: bytes,seconds."),
    ],
    collective: Annotated[
        str | None, typer.Option("--collective", help="What was timed: ring-allreduce. A profile says it itself.")
    ] = None,
    ranks: Annotated[int | None, typer.Option("--ranks", help="Its ranks. A profile says it itself.")] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FIT.json", help="The file to write.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the bootstrap behind the intervals.")] = 0,
    json_output: JsonFlag = False,
) -> None:
    """Fit T(S) = α + β·S to the times of a collective, and say where that model fails.

    With a collective and its number of ranks, it also tells the latency and bandwidth of the link beneath.

    \b
    Example: wirebound fit PROFILE.json --out FIT.json
    Example: wirebound fit all_reduce_perf.txt --out FIT.json
    Example: wirebound fit times.csv --collective ring-allreduce --ranks 4 --json
    """
    check_seed(seed)
    if out is not None:
        with naming("--out"):
            require_writable(out)
        require_other_file("--out", out, [file])
    from wirebound.fit.communication import fit_communication, link_parameters
    from wirebound.fit.curves import choose_curve
    from wirebound.profile.schema import write_json

    sizes, times, collective, ranks = _samples(file, collective, ranks)
    if (collective is None) != (ranks is None):
        missing = "--ranks" if ranks is None else "--collective"
        raise InputError(f"a link needs both --collective and --ranks: add {missing}")
    with naming(str(file)):
        fitted = fit_communication(sizes, times, seed=seed)
        link = None if collective is None or ranks is None else link_parameters(fitted, collective, ranks)
    curves = choose_curve(fitted.sizes, fitted.times_s)
    document = _fit_document(fitted, collective, ranks, link) | {"curves": _curves_document(curves)}
    if out is not None:
        write_json(document, out)
    if json_output:
        print_json(document)
    else:
        typer.echo(_fit_summary(fitted, link, curves))
        if out is not None:
            typer.echo(f"written to {out}")


def _samples(
    file: Path, collective: str | None, ranks: int | None
) -> tuple[list[float], list[float], str | None, int | None]:
    """Return sizes, times, and the collective and ranks that they are of, where the file or the options tell."""
    from wirebound.fit.samples import read_samples
    from wirebound.profile.schema import load_profile
    from wirebound.profile.traces.formats import is_nccl_tests

    if is_nccl_tests(file):
        return _nccl_tests_samples(file, collective, ranks)
    if file.suffix.lower() != ".json":
        return *read_samples(file), collective, ranks
    return _profile_samples(load_profile(file), file, collective, ranks)


def _nccl_tests_samples(
    file: Path, collective: str | None, ranks: int | None
) -> tuple[list[float], list[float], str | None, int | None]:
    from wirebound.profile.traces.nccl_profile import samples
    from wirebound.profile.traces.nccl_tests import read_nccl_tests

    tests = read_nccl_tests(file)
    sizes, times = samples(tests, file)
    for warning in tests.warnings:
        note(f"warning: {printable(f'{file}: {warning}')}")
    if ranks is not None and tests.ranks not in (None, ranks):
        raise InputError(f"{file}: was measured with {tests.ranks} ranks, not --ranks {ranks}: leave the option out")
    if collective is not None:
        return sizes, times, collective, ranks or tests.ranks
    if tests.collective != "all_reduce" or tests.ranks is None:
        if tests.collective is not None:
            note(f"{tests.collective} is fitted as a whole: only all-reduces are resolved into a link")
        return sizes, times, None, None
    return sizes, times, "ring-allreduce", tests.ranks


def _profile_samples(
    profile: "Profile", file: Path, collective: str | None, ranks: int | None
) -> tuple[list[float], list[float], str, int]:
    if not profile.collectives:
        raise InputError(f"{file}: has no collectives to fit")
    groups: dict[tuple[str, int, float | None], list[tuple[float, float]]] = {}
    for timing in profile.collectives:
        points = [(float(timing.size), time) for time in timing.times_s or (timing.median_s,)]
        groups.setdefault((timing.collective, timing.ranks, timing.rate_Bps), []).extend(points)
    wanted = [key for key in groups if collective in (None, key[0]) and ranks in (None, key[1])]
    held = ", ".join(
        f"{name} of {count} ranks" + ("" if rate is None else f" at {format_bandwidth(rate)}")
        for name, count, rate in groups
    )
    if not wanted:
        asked = " of ".join(filter(None, [collective, None if ranks is None else f"{ranks} ranks"]))
        raise InputError(f"{file}: has no {asked}: it has {held}")
    if len(wanted) > 1:
        raise InputError(f"{file}: has {held}: choose with --collective and --ranks, or fit a file with one of them")
    points = groups[wanted[0]]
    return [size for size, _ in points], [time for _, time in points], wanted[0][0], wanted[0][1]


def _fit_document(
    fitted: "CommunicationFit", collective: str | None, ranks: int | None, link: "Link | None"
) -> dict[str, Any]:
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "version": VERSION,
        "alpha_s": fitted.alpha_s,
        "beta_s_per_byte": fitted.beta_s_per_byte,
        "bandwidth_Bps": _finite(fitted.bandwidth_Bps),
        "alpha_ci95": [_finite(bound) for bound in fitted.alpha_ci95],
        "beta_ci95": [_finite(bound) for bound in fitted.beta_ci95],
        "bootstrap": {
            "alpha_s": [alpha for alpha, _ in fitted.bootstrap],
            "beta_s_per_byte": [beta for _, beta in fitted.bootstrap],
        },
        "sizes_bytes": list(fitted.sizes),
        "times_s": list(fitted.times_s),
        "relative_residuals": list(fitted.relative_residuals),
        "flags": list(fitted.flags),
        "verdict": fitted.verdict,
        "regions": {"small": _region_document(fitted.small), "large": _region_document(fitted.large)},
    }
    if link is not None:
        document |= {
            "collective": collective,
            "ranks": ranks,
            "link_latency_s": link.latency_s,
            "link_bandwidth_Bps": link.bandwidth,
        }
    return document


def _curves_document(curves: "CurveChoice | None") -> dict[str, Any] | None:
    """All curves that were tried, the affine one first; None where the sizes are too few to compare."""
    if curves is None:
        return None
    return {
        "best": curves.best,
        "candidates": [
            {
                "name": curve.name,
                "parameters": dict(curve.parameters),
                "held_out_error": curve.held_out_error,
                "worst_relative_residual": curve.worst_residual,
            }
            for curve in curves.candidates
        ],
    }


def _region_document(region: "RegionFit | None") -> dict[str, Any] | None:
    if region is None:
        return None
    return {
        "smallest_bytes": region.smallest,
        "largest_bytes": region.largest,
        "sizes": region.sizes,
        "alpha_s": region.alpha_s,
        "beta_s_per_byte": region.beta_s_per_byte,
        "worst_relative_residual": region.worst_residual,
    }


def _finite(value: float) -> float | None:
    """Return the value, or None for an infinite one, which JSON does not have."""
    return None if value == float("inf") else value


def _fit_summary(fitted: "CommunicationFit", link: "Link | None", curves: "CurveChoice | None") -> str:
    def between(bounds: tuple[float, float]) -> str:
        return f"95 % interval {bounds[0]:.4g} to {bounds[1]:.4g}"

    lines = [
        f"T(S) = α + β·S, {len(fitted.sizes)} sizes from {format_bytes(fitted.sizes[0])}"
        f" to {format_bytes(fitted.sizes[-1])}",
        f"α = {fitted.alpha_s:.4g} s ({between(fitted.alpha_ci95)})",
        f"β = {fitted.beta_s_per_byte:.4g} s/B ({between(fitted.beta_ci95)})",
        f"1/β = {fitted.bandwidth_Bps:.4g} B/s of buffer",
    ]
    if link is not None:
        lines.append(f"link: latency {format_duration(link.latency_s)}, bandwidth {format_bandwidth(link.bandwidth)}")
    if curves is not None:
        errors = ", ".join(f"{curve.name} {curve.held_out_error:.1%}" for curve in curves.candidates)
        best = "no curve does better" if curves.best == "affine" else f"{curves.best} describes them better"
        lines.append(f"error at sizes held out: {errors}: {best}")
    return "\n".join([*lines, f"verdict: {fitted.verdict}"])
