"""The command that compares the models with published figures: validate."""

from typing import Annotated, Any

import typer

from wirebound.cli.output import JsonFlag, print_json

_Suites = Annotated[
    list[str] | None,
    typer.Option("--suite", help="Only this suite; may be repeated.", metavar="NAME"),
]


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command("validate")(validate)


def validate(suite: _Suites = None, json_output: JsonFlag = False) -> None:
    """Compare the models with published figures; errors are in percent of the published value.

    Suites: zhang2020 (90 published what-if scaling factors, and the engine against exact fractions),
    zhang2020-measured (measured scaling factors against a fully used network), shi2020 (calibrated on 64 runs, scored
    on 172 others), shi2020-transfer (BERT-Large from the two other models), collectives (curves of all-reduces that
    others measured, at sizes held out), traces (steps of public traces, predicted from the other steps), testbed
    (recorded runs of the testbed, predicted before they were measured), cases (questions of practitioners: distance
    from the observed range).

    Example: wirebound validate --suite shi2020 --json
    """
    from wirebound.study import validate as study

    results = study.validate(suite or None)
    if json_output:
        print_json({"suites": results})
        return
    typer.echo(f"{'suite':28}{'held out':>10}{'mean':>9}{'median':>9}{'p90':>9}   % of the published value")
    for name, figures in results.items():
        typer.echo(_line(name, figures["held_out"], figures))
        for method, part in figures.get("by_method", {}).items():
            typer.echo(_line(f"  {method}", part["points"], part))
        if "without_bytescheduler_a2a" in figures:
            part = figures["without_bytescheduler_a2a"]
            typer.echo(_line("  all but bytescheduler-a2a", part["points"], part))
        if "self_check" in figures:
            check = figures["self_check"]
            worst = check["largest_absolute_error"]
            typer.echo(
                f"  {check['points']} points against exact fractions: scaling factors differ by {worst:.0e} at most"
            )
        if "affine" in figures:
            typer.echo(_line("  affine", figures["affine"]["points"], figures["affine"]))
        if "replayed" in figures:
            typer.echo(_line("  from their own times", figures["replayed"]["points"], figures["replayed"]))
        if figures.get("pairs"):
            share = figures["pairs_in_order_percent"]
            typer.echo(f"  {share:.0f} % of {figures['pairs']} pairs of methods over a tenth apart in the right order")
        for interval in figures.get("coverage", ()):
            if interval["what"] == "held out":
                typer.echo(_coverage(interval))
        if "agree" in figures:
            typer.echo(f"  {sum(figures['agree'].values())} of {len(figures['agree'])} lie in the observed range")
        if "regret_percent" in figures:
            typer.echo(f"  choosing the method ranked first costs {figures['regret_percent']:.1f} % on average")


def _line(name: str, points: int, figures: dict[str, Any]) -> str:
    columns = [figures[column] for column in ("mean_ape", "median_ape", "p90_ape")]
    return f"{name:28}{points:>10}" + "".join(f"{'–' if error is None else f'{error:.2f}':>9}" for error in columns)


def _coverage(interval: dict[str, Any]) -> str:
    doubt = "" if interval["promised"] else ", more than so few methods can promise"
    return (
        f"  {interval['level']:.0%} interval, divided and multiplied by {interval['factor']:.3f},"
        f" holds {interval['held']:.0%}{doubt}"
    )
