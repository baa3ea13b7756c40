"""Commands of the testbed: real runs on this machine, over links of a chosen speed."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wirebound.cli.output import JsonFlag, note, print_json, printable
from wirebound.errors import InputError
from wirebound.units import format_bandwidth, format_bytes, format_duration, parse_bandwidth

if TYPE_CHECKING:
    from wirebound.testbed.check import TierReport


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
