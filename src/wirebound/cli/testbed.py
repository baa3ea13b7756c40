"""Commands of the testbed: real runs on this machine, over links of a chosen speed."""

from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wirebound.cli.job_options import JobOptions
from wirebound.cli.job_reading import read_job
from wirebound.cli.listed import listed, whole_number
from wirebound.cli.naming import naming
from wirebound.cli.output import JsonFlag, note, print_json, printable
from wirebound.cli.testbed_links import link_rate, require_links, require_slow_links
from wirebound.cli.testbed_training import Report, Start, TrainingOptions, training
from wirebound.errors import InputError, unknown_name
from wirebound.units import SHARE_BOUNDS, format_bandwidth, format_bytes, format_duration

if TYPE_CHECKING:
    from wirebound.testbed.check import TierReport
    from wirebound.testbed.run import ReplayRun

_QUICK_RATES, _FULL_RATES = "100 Mbps,500 Mbps", "50 Mbps,100 Mbps,200 Mbps,500 Mbps,1 Gbps"
_QUICK_STEPS, _FULL_STEPS = 3, 6
_QUICK_ROUNDS, _FULL_ROUNDS = 3, 5  # of the calibration
_REPLAYED_RANKS = "2,4"
_DEFAULT_BYTES = 2e6
_KINDS = ("replay", "training")


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
    from wirebound.testbed.tiers import TIERS, default_tier, tier_available, usable_tier

    rates: tuple[float, ...] = DEFAULT_RATES_BPS
    if rate is not None:
        with naming("--rate"):
            rates = (link_rate(rate),)
    if tier is not None:
        with naming("--tier"):
            usable_tier(tier)
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
    kind: Annotated[
        str, typer.Option("--kind", metavar="NAME", help="replay: recorded steps; training: real models, real compute.")
    ] = "replay",
    workload: Annotated[
        str | None,
        typer.Option(
            "--workload",
            metavar="NAME|PROFILE.json",
            help="To replay: a built-in workload, or a profile's file. [default: resnet50]",
        ),
    ] = None,
    models: Annotated[
        str | None,
        typer.Option(
            "--models",
            metavar="LIST",
            help="To train: resnet20, small-vgg, half-resnet18, mlp; resnet20:8 has a batch of 8.",
        ),
    ] = None,
    rates: Annotated[
        str | None,
        typer.Option(
            "--rates",
            metavar="LIST",
            help="Of each link. [default: 100,500 Mbps; trained: 200 Mbps too; more with --full]",
        ),
    ] = None,
    ranks: Annotated[
        str | None,
        typer.Option("--ranks", metavar="LIST", help="Numbers of workers. [default: 2,4; training --quick: 2]"),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            "--methods", metavar="LIST", help="How gradients are synchronized, such as ddp, mg-wfbp, bsp-ps, …"
        ),
    ] = None,
    compressors: Annotated[
        str | None,
        typer.Option(
            "--compressor",
            metavar="LIST",
            help="To train with as hooks of ddp, beside it: fp16,topk:0.01 or, apart by semicolons, 'qsgd:16,512;fp16'",
        ),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option("--batch", help="To train: each worker's batch. [default: 16]")
    ] = None,
    bucket_cap: Annotated[
        str | None,
        typer.Option("--bucket-cap", metavar="TEXT", help="To train: where a bucket of ddp closes. [default: 1 MiB]"),
    ] = None,
    calibrate_at: Annotated[
        str | None,
        typer.Option("--calibrate-at", metavar="TEXT", help="To train: the one rate of the fit. [default: the middle]"),
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option("--scale", help="To replay: shrinks gradients. [default: so that all together have 2 MB]"),
    ] = None,
    tier: Annotated[
        str | None, typer.Option("--tier", metavar="NAME", help="The kind of links. [default: the first that works]")
    ] = None,
    full: Annotated[bool, typer.Option("--full/--quick", help="Many cases and steps, or few.")] = False,
    json_output: JsonFlag = False,
) -> None:
    """Predict steps, then run them over real links, and say how far the predictions were off.

    A replay takes the device's work from the workload's times; its messages really are exchanged between processes on
    this machine, servers among them. Training computes too: small models train for real, with DistributedDataParallel
    and with the study's own techniques, after a profile of their compute in as many processes. Either way the links
    are calibrated at one rate, the middle one, for each number of ranks, and the predictions are written and hashed
    before the processes that are measured start. The quick default takes about a minute and a half, --full up to ten.
    Where gradients of a replay are scaled, a rate stands for rate ÷ scale. Training --full takes small-vgg, unless
    models or rates are named, over the fast links only.

    \b
    Example: wirebound testbed run --out runs/testbed
    Example: wirebound testbed run --workload vgg16 --rates "50 Mbps,100 Mbps" --ranks 2 --methods ddp --out vgg
    Example: wirebound testbed run --kind training --models small-vgg --compressor fp16,topk:0.01 --out trained
    """
    from wirebound.testbed.interruption import Interruptions
    from wirebound.testbed.out_folder import claimed_folder
    from wirebound.testbed.tiers import default_tier, usable_tier

    if kind not in _KINDS:
        with naming("--kind"):
            raise unknown_name("kind", kind, _KINDS)
    with naming("--tier"):
        chosen = default_tier() if tier is None else usable_tier(tier)
    require_slow_links(chosen)
    if kind == "training":
        for flag, value in (("--workload", workload), ("--scale", scale)):
            if value is not None:
                raise InputError(f"{flag} is for replays: name models with --models, or leave out --kind training")
        options = TrainingOptions(
            models, rates, ranks, methods, compressors, batch_size, bucket_cap, calibrate_at, full
        )
        start = training(options, chosen)
    else:
        for flag, value in (
            ("--models", models),
            ("--compressor", compressors),
            ("--batch", batch_size),
            ("--bucket-cap", bucket_cap),
            ("--calibrate-at", calibrate_at),
        ):
            if value is not None:
                raise InputError(f"{flag} is for training: add --kind training")
        start = _replay("resnet50" if workload is None else workload, rates, ranks, methods, scale, chosen, full)
    with ExitStack() as stack:
        stack.enter_context(Interruptions())
        with naming("--out"):
            stack.enter_context(claimed_folder(out))
        report = start(out)
    report(json_output)  # the results are kept, whether or not anybody reads this


def _replay(
    workload: str,
    rates: str | None,
    ranks: str | None,
    methods: str | None,
    scale: float | None,
    chosen: str,
    full: bool,
) -> Start:
    """Check what was asked for; return what replays the workload into a folder."""
    from wirebound.model.method import method_named
    from wirebound.testbed.run import Case, run_replay
    from wirebound.testbed.scaling import scaled_method, scaled_workload
    from wirebound.testbed.training_case import METHODS

    with naming("--workload"):
        job = read_job(JobOptions(workload=workload, method="bsp-a2a"), network_needed=False).workload
    if scale is not None and not SHARE_BOUNDS.has(scale):
        raise InputError(f"--scale {scale} must be {SHARE_BOUNDS.shown}")
    factor = min(1.0, _DEFAULT_BYTES / job.size) if scale is None else scale
    with naming("--scale"):
        scaled = scaled_workload(job, factor)
    counts = listed("--ranks", ranks, whole_number, default=_REPLAYED_RANKS)
    speeds = listed("--rates", rates, link_rate, default=_FULL_RATES if full else _QUICK_RATES)
    wanted = listed(
        "--methods", methods, lambda name: scaled_method(method_named(name), factor), default=",".join(METHODS)
    )
    cases = [Case(count, rate, method) for count in counts for rate in speeds for method in wanted]
    require_links(chosen, [(case.ranks, case.servers) for case in cases], speeds)

    def start(out: Path) -> Report:
        done = run_replay(
            scaled,
            tier=chosen,
            ranks=counts,
            rates_Bps=speeds,
            methods=wanted,
            out=out,
            steps=_FULL_STEPS if full else _QUICK_STEPS,
            calibration_rounds=_FULL_ROUNDS if full else _QUICK_ROUNDS,
            tell=note,
        )
        what = f"{printable(job.name)} scaled by {factor:.4g}, tier {chosen}; written to {out}"
        return lambda json_output: _report_replay(done, what, json_output)

    return start


def _report_replay(done: "ReplayRun", what: str, json_output: bool) -> None:
    """Print the document or the table."""
    if json_output:
        print_json(done.document)
        return
    typer.echo(what)
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
