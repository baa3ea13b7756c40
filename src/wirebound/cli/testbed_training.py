"""`testbed run --kind training`: what it trains, and its table."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from wirebound.cli.listed import listed, whole_number
from wirebound.cli.naming import naming, parsed
from wirebound.cli.output import note, print_json
from wirebound.cli.testbed_links import link_rate, require_links
from wirebound.errors import InputError
from wirebound.units import BYTES_PER_S_PER_MBPS, bounded_bytes, format_bandwidth, format_duration

if TYPE_CHECKING:
    from wirebound.testbed.training_case import TrainingCase
    from wirebound.testbed.training_run import TrainingRun

_QUICK_MODELS, _FULL_MODELS = "resnet20", "resnet20,small-vgg"
_QUICK_RATES, _FULL_RATES = "100 Mbps,200 Mbps,500 Mbps", "50 Mbps,100 Mbps,200 Mbps,500 Mbps,1 Gbps"
#: Unless models or rates are named, --full leaves these to the fast links: on slow ones a step takes many seconds.
_FAST_ONLY, _FAST_BPS = ("small-vgg",), 500 * BYTES_PER_S_PER_MBPS
_QUICK_RANKS, _FULL_RANKS = "2", "2,4"
_BATCH = 16
#: Steps of a case, and the seconds after which there are fewer of them.
_QUICK_STEPS, _FULL_STEPS = (10, 2.0), (12, 2.0)


#: Print what a run found: its argument says whether as one JSON document.
Report = Callable[[bool], None]
#: Run, and write to a folder.
Start = Callable[[Path], Report]


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """What was asked for on the command line, None where nothing was."""

    models: str | None
    rates: str | None
    ranks: str | None
    methods: str | None
    compressors: str | None
    batch_size: int | None
    bucket_cap: str | None
    calibrate_at: str | None
    full: bool


def training(options: TrainingOptions, tier: str) -> Start:
    """Check what was asked for; return what predicts, trains and writes the figures into a folder."""
    from wirebound.testbed.training_case import BUCKET_CAP_BYTES
    from wirebound.testbed.training_run import run_training
    from wirebound.testbed_figures import write_figures

    cap_bytes = BUCKET_CAP_BYTES
    if options.bucket_cap is not None:
        cap_bytes = parsed("--bucket-cap", bounded_bytes, options.bucket_cap)
        if cap_bytes <= 0:
            raise InputError(f"--bucket-cap {options.bucket_cap}: it must be greater than zero")
    at_Bps = None
    if options.calibrate_at is not None:
        at_Bps = parsed("--calibrate-at", link_rate, options.calibrate_at)
    cases = _cases(options, cap_bytes)
    require_links(tier, [(case.ranks, case.servers) for case in cases], [case.rate_Bps for case in cases])
    steps, budget_s = _FULL_STEPS if options.full else _QUICK_STEPS

    def start(out: Path) -> Report:
        done = run_training(
            cases,
            tier=tier,
            out=out,
            steps=steps,
            case_budget_s=budget_s,
            calibration_rate_Bps=at_Bps,
            bucket_cap_bytes=cap_bytes,
            tell=note,
        )
        write_figures(out, done.document, done.predictions_document)
        return lambda json_output: _report(done, tier, out, json_output)

    return start


def _report(done: "TrainingRun", tier: str, out: Path, json_output: bool) -> None:
    """Print the document or the table."""
    if json_output:
        print_json(done.document)
        return
    typer.echo(f"trained on tier {tier}; predictions, results and figures are in {out}")
    _print_table(done)


def _cases(options: TrainingOptions, cap_bytes: float) -> "list[TrainingCase]":
    from wirebound.simulate.compressors import compressor_named
    from wirebound.testbed.training_case import METHODS, TrainingCase, check_batch, training_method

    full = options.full
    with naming("--batch"):
        batch = check_batch(_BATCH if options.batch_size is None else options.batch_size)
    models = listed(
        "--models",
        options.models,
        lambda text: _model_and_batch(text, batch),
        default=_FULL_MODELS if full else _QUICK_MODELS,
    )
    ranks = listed("--ranks", options.ranks, whole_number, default=_FULL_RANKS if full else _QUICK_RANKS)
    rates = listed("--rates", options.rates, link_rate, default=_FULL_RATES if full else _QUICK_RATES)
    methods = listed(
        "--methods",
        options.methods,
        lambda name: training_method(name, bucket_cap_bytes=cap_bytes),
        default=",".join(METHODS) if options.compressors is None else "ddp",
    )
    if options.compressors is not None:
        methods += listed(
            "--compressor",
            options.compressors,
            lambda text: training_method("ddp", bucket_cap_bytes=cap_bytes, compressor=compressor_named(text)),
            separator=";" if ";" in options.compressors else ",",
        )
    return [
        TrainingCase(model, batch_size, count, rate, method)
        for model, batch_size in models
        for count in ranks
        for rate in rates
        if options.models or options.rates or model not in _FAST_ONLY or rate >= _FAST_BPS
        for method in methods
    ]


def _model_and_batch(text: str, batch_size: int) -> tuple[str, int]:
    """Read a model such as ``resnet20``, or with a batch of its own ``resnet20:16``."""
    from wirebound.testbed.training_case import check_batch, check_model

    name, colon, batch = text.partition(":")
    if colon and not (batch.isascii() and batch.isdigit()):
        raise InputError(f"{text!r} has no batch size after the colon: write {name}:16, or {name} alone")
    return check_model(name), check_batch(int(batch)) if colon else batch_size


def _print_table(done: "TrainingRun") -> None:
    typer.echo("model         ranks        rate  method                      predicted   measured   error")
    for case in done.document["cases"]:
        at = "" if case["held_out"] else "  (calibrated at this rate)"
        label = " ".join(filter(None, [case["method"], case["compressor"]]))
        typer.echo(
            f"{case['model']:13} {case['ranks']:5}  {format_bandwidth(case['rate_Bps']):>10}  {label:26}"
            f" {format_duration(case['predicted_s']):>10} {format_duration(case['measured_s']):>10}"
            f"  {case['error']:+6.1%}{at}"
        )
    _print_accuracy("all cases", done.document["cases"])
    held_out = [case for case in done.document["cases"] if case["held_out"]]
    if 0 < len(held_out) < len(done.document["cases"]):
        _print_accuracy("at other rates than the calibration's", held_out)


def _print_accuracy(which: str, cases: list[dict[str, Any]]) -> None:
    from wirebound.testbed.accuracy import accuracy_of_cases

    found = accuracy_of_cases(cases)
    order = f"; {found.right} of {found.pairs} pairs in the right order" if found.pairs else ""
    typer.echo(
        f"{which}: absolute error {found.median_error:.1%} in the median, {found.p90_error:.1%} at the 90th"
        f" percentile{order}"
    )
