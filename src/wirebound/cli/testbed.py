"""Commands of the testbed: real runs on this machine, over links of a chosen speed."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from wirebound.cli.job_options import JobOptions
from wirebound.cli.job_reading import read_job
from wirebound.cli.output import JsonFlag, note, print_json, printable
from wirebound.errors import InputError
from wirebound.units import format_bandwidth, format_bytes, format_duration, parse_bandwidth

if TYPE_CHECKING:
    from wirebound.testbed.check import TierReport

#: Replayed unless others are named: the seven techniques and PyTorch's.
_REPLAYED = (
    "bsp-ps",
    "bsp-a2a",
    "wfbp-ps",
    "wfbp-a2a",
    "mg-wfbp",
    "bytescheduler-ps",
    "bytescheduler-a2a",
    "ddp",
)
_QUICK_RATES, _FULL_RATES = "100 Mbps,500 Mbps", "50 Mbps,100 Mbps,200 Mbps,500 Mbps,1 Gbps"
_QUICK_STEPS, _FULL_STEPS = 3, 6
_QUICK_ROUNDS, _FULL_ROUNDS = 3, 5  # of the calibration
_DEFAULT_BYTES = 2e6

_Item = TypeVar("_Item")


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    group = typer.Typer(
        name="testbed",
        help="""Real distributed runs on this machine, over links of a chosen speed.

        \b
        Example: wirebound testbed check
        """,
        rich_markup_mode=None,
    )
    group.command("check")(check)
    group.command("run")(run)
    group.callback()(_testbed)
    app.add_typer(group, name="testbed")


def _testbed() -> None:
    """Real distributed runs on this machine, over links of a chosen speed.

    Example: wirebound testbed check
    """


def check(
    tier: Annotated[
        str | None,
        typer.Option(
            "--tier", metavar="NAME", help="Only pacing, user-namespaces, root-namespaces, relay or loopback."
        ),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option("--rate", metavar="TEXT", help="Of each link, such as '100 Mbps'. [default: 100 Mbps and 1 Gbps]"),
    ] = None,
    json_output: JsonFlag = False,
) -> None:
    """Say which kinds of slow links work on this machine, and measure what each reaches.

    Two processes all-reduce up to 4 MiB over links of each tier; about 20 seconds for all of them on two cores.

    \b
    Example: wirebound testbed check
    Example: wirebound testbed check --tier pacing --rate "100 Mbps" --json
    """
    from wirebound.testbed.check import DEFAULT_RATES_BPS, check_tier
    from wirebound.testbed.network import Conditions
    from wirebound.testbed.tiers import TIERS, default_tier, tier_available, usable_tier

    rates: tuple[float, ...] = DEFAULT_RATES_BPS
    if rate is not None:
        try:
            rates = (parse_bandwidth(rate),)
            Conditions(rates[0])
        except InputError as error:
            raise InputError(f"--rate: {error}") from None
    if tier is not None:
        try:
            usable_tier(tier)
        except InputError as error:
            raise InputError(f"--tier: {error}") from None
        if tier == "loopback" and rate is not None:
            raise InputError("--rate: the tier loopback cannot limit the rate: leave one of the two out")
    reports = []
    for name in TIERS if tier is None else (tier,):
        if tier_available(name).works:
            note(f"measuring {name}")
        reports.append(check_tier(name, rates_Bps=rates))
    best = tier or next((report.tier for report in reports if report.works), default_tier())
    if json_output:
        print_json({"recommended": best, "tiers": [_document(report) for report in reports]})
        return
    for report in reports:
        typer.echo(_summary(report))
    typer.echo(f"recommended: {best}")


def run(
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="A new folder for predictions and results.")],
    workload: Annotated[
        str, typer.Option("--workload", metavar="NAME|PROFILE.json", help="A built-in workload, or a profile's file.")
    ] = "resnet50",
    rates: Annotated[
        str | None,
        typer.Option("--rates", metavar="LIST", help="Of each link. [default: 100 Mbps,500 Mbps; --full: five rates]"),
    ] = None,
    ranks: Annotated[str, typer.Option("--ranks", metavar="LIST", help="Numbers of workers.")] = "2,4",
    methods: Annotated[
        str, typer.Option("--methods", metavar="LIST", help="How gradients are synchronized; also horovod.")
    ] = ",".join(_REPLAYED),
    scale: Annotated[
        float | None,
        typer.Option("--scale", help="Makes gradients smaller. [default: so that all of them together have 2 MB]"),
    ] = None,
    tier: Annotated[
        str | None, typer.Option("--tier", metavar="NAME", help="The kind of links. [default: the first that works]")
    ] = None,
    full: Annotated[bool, typer.Option("--full/--quick", help="6 steps of each case, or 3.")] = False,
    json_output: JsonFlag = False,
) -> None:
    """Predict steps, then replay them over real links, and say how far the predictions were off.

    The device's work is replayed from the workload's times, its messages really are exchanged between processes on
    this machine, servers among them. The links are calibrated at one rate, the middle one, for each number of ranks,
    with and without servers; the predictions are written and hashed before the replay begins. The quick default takes
    about a minute and a half. Where gradients are scaled, a rate stands for rate ÷ scale.

    \b
    Example: wirebound testbed run --out runs/testbed
    Example: wirebound testbed run --workload vgg16 --rates "50 Mbps,100 Mbps" --ranks 2 --methods ddp --out vgg
    """
    from wirebound.model.method import method_named
    from wirebound.testbed.run import run_replay
    from wirebound.testbed.scaling import scaled_method, scaled_workload
    from wirebound.testbed.tiers import default_tier, usable_tier

    job = read_job(JobOptions(workload=workload, method="bsp-a2a"), network_needed=False).workload
    factor = min(1.0, _DEFAULT_BYTES / job.size) if scale is None else scale
    chosen = default_tier() if tier is None else usable_tier(tier)
    counts = _listed("--ranks", ranks, _whole_number)
    speeds = _listed("--rates", rates or (_FULL_RATES if full else _QUICK_RATES), parse_bandwidth)
    wanted = _listed("--methods", methods, lambda name: scaled_method(method_named(name), factor))
    done = run_replay(
        scaled_workload(job, factor),
        tier=chosen,
        ranks=counts,
        rates_Bps=speeds,
        methods=wanted,
        out=out,
        steps=_FULL_STEPS if full else _QUICK_STEPS,
        calibration_rounds=_FULL_ROUNDS if full else _QUICK_ROUNDS,
        tell=note,
    )
    if json_output:
        print_json(done.document)
        return
    typer.echo(f"{printable(job.name)} scaled by {factor:.4g}, tier {chosen}; written to {out}")
    typer.echo("ranks        rate  method              predicted   measured   error")
    for case in done.measured:
        typer.echo(
            f"{case.case.ranks:5}  {format_bandwidth(case.case.rate_Bps):>10}  {case.case.method.name:18}"
            f" {format_duration(case.predicted_s):>10} {format_duration(case.measured_s):>10}  {case.error:+6.1%}"
        )
    typer.echo(
        f"absolute error: median {done.median_error:.1%}, 90th percentile {done.p90_error:.1%},"
        f" mean {done.mean_error:.1%}"
    )
    if done.pairs:
        typer.echo(
            f"pairs that differ by over a tenth: {done.pairs_right} of {done.pairs} predicted in the right order"
        )


def _listed(flag: str, text: str, read: Callable[[str], _Item]) -> list[_Item]:
    """Read the items of a list, apart by commas; raises `InputError` that names the option."""
    items = [item.strip() for item in text.split(",")]
    try:
        return [read(item) for item in dict.fromkeys(items)]
    except InputError as error:
        raise InputError(f"{flag}: {error}") from None


def _whole_number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 4):
        raise InputError(f"{text!r} is not a number of ranks: write numbers such as '2,4'")
    return int(text)


def _document(report: "TierReport") -> dict[str, Any]:
    return {
        "tier": report.tier,
        "available": report.works,
        "reason": report.reason,
        "remedy": report.remedy or None,
        "record": report.record or None,
        "measurements": [asdict(reached) for reached in report.reached],
    }


def _summary(report: "TierReport") -> str:
    if not report.works:
        return f"{report.tier:16} no: {printable(report.reason)}: {printable(report.remedy)}"
    lines = [f"{report.tier:16} yes: {report.reason}"]
    for reached in report.reached:
        time, size = format_duration(reached.median_s), format_bytes(reached.size)
        if reached.rate_Bps is None or reached.utilization is None:
            lines.append(f"{'':16}   no limit: an all-reduce of {size} takes {time}")
        else:
            rate = format_bandwidth(reached.rate_Bps)
            lines.append(
                f"{'':16}   {rate}: {reached.utilization:.0%} of the link used, {time} for {format_bytes(reached.size)}"
            )
    return "\n".join(lines)
