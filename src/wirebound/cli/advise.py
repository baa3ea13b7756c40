"""The command advise: which remedy helps a job most, at what price, and until when."""

import textwrap
from typing import Annotated, Any

import typer

from wirebound.cli.advice import RankedRemedy, rank_remedies
from wirebound.cli.job_command import command_line
from wirebound.cli.job_interval import SamplesOption, SeedOption
from wirebound.cli.job_options import JobOptions, with_job_options
from wirebound.cli.job_reading import read_job
from wirebound.cli.job_report import echo_assumptions, job_document, job_line
from wirebound.cli.output import JsonFlag, note, print_json
from wirebound.cli.prediction import Prediction, predict_job, prediction_document
from wirebound.errors import InputError
from wirebound.simulate.advise import Bottleneck, bottleneck

#: The network is no bottleneck below the first share of the step, and one for sure from the second on.
_MINOR_SHARE, _MAJOR_SHARE = 0.05, 0.25
_WIDTH = 118
#: Fewer than predict's, as each is drawn for every remedy.
_SAMPLES = 100


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("advise")(advise)


@with_job_options(required=("gpus",))
def advise(
    given: JobOptions,
    top: Annotated[int, typer.Option("--top", help="Remedies to show in full; --json has them all.")] = 8,
    samples: SamplesOption = _SAMPLES,
    seed: SeedOption = 0,
    json_output: JsonFlag = False,
) -> None:
    """Say whether the network is the bottleneck, and rank what helps: by how much, at what price, and until when.

    A gain is the ratio of samples per second to those of the given job. Each is what predict says to the command that
    stands beneath.

    Example: wirebound advise --workload vgg16 --gpus 64 --bandwidth "10 Gbps" --method ddp
    """
    if top < 1:
        raise InputError(f"--top {top} must be at least 1")
    job = read_job(given)
    base = predict_job(job, samples=samples, seed=seed)
    for line in job.notes:
        note(line)
    found = bottleneck(job.training)
    ranked = rank_remedies(given, base, samples=samples, seed=seed)
    baseline = prediction_document(base)
    if json_output:
        print_json(
            {
                "bottleneck": {
                    "answer": _answer(found),
                    "network_share": found.share,
                    "bound": found.bound,
                    "gains": found.gains,
                },
                "job": job_document(job),
                "command": command_line("predict", given),
                "baseline": baseline,
                "remedies": [_remedy_document(place, entry) for place, entry in enumerate(ranked, 1)],
                "assumptions": baseline["assumptions"],
            }
        )
        return
    _echo_bottleneck(found)
    typer.echo(job_line(job))
    _echo_baseline(base, baseline)
    helpful = [entry for entry in ranked if entry.worthwhile]
    for place, entry in enumerate(helpful[:top], 1):
        _echo_remedy(place, entry)
    _echo_list("less gain", [f"{entry.gain:.3g}× {_named(entry)}" for entry in helpful[top:]])
    _echo_list("less than 1 %", [_named(entry) for entry in ranked[len(helpful) :]])
    echo_assumptions(baseline["assumptions"])


def _answer(found: Bottleneck) -> str:
    if found.share < _MINOR_SHARE:
        return "no"
    return "yes" if found.share >= _MAJOR_SHARE else "in part"


def _echo_bottleneck(found: Bottleneck) -> None:
    """The first line: is the network the bottleneck, and how much could a free one gain?"""
    typer.echo(
        f"Is the network the bottleneck? {_answer(found).capitalize()}: it costs {found.share:.1%} of the step;"
        f" no faster network and no better use of it can gain more than {found.bound - 1:.1%} ({found.bound:.3g}×)."
    )
    alone = [f"{term} {gain:.3g}×" for term, gain in found.gains.items() if gain > 1.0005]
    if alone:
        typer.echo(f"Making one part of its cost free would gain: {', '.join(alone)}.")


def _echo_baseline(base: Prediction, document: dict[str, Any]) -> None:
    interval = document["interval95"]
    spread = "" if interval is None else " (95 %: {:.1%} to {:.1%})".format(*interval["scaling_factor"])
    typer.echo(
        f"  now           scaling factor {base.step.scaling_factor:.1%}{spread}, {base.samples_per_s:,.0f} samples/s"
    )


def _echo_remedy(place: int, entry: RankedRemedy) -> None:
    spread = "" if entry.interval is None else f" (95 %: {entry.interval[0]:.3g}× to {entry.interval[1]:.3g}×)"
    typer.echo(
        f"  {place:>2}. {entry.gain:.3g}×{spread}  {_named(entry)}"
        f"  (scaling factor {entry.scaling_factor:.1%})"
        + ("  tied with the one before: their intervals overlap" if entry.tied else "")
    )
    price = entry.remedy.price
    _echo_detail("price", f"accuracy: {price.accuracy}; hardware: {price.hardware}; code: {price.code}")
    for flip in entry.flips:
        _echo_detail("flips", flip.text)
    # Not wrapped: it is there to be copied.
    typer.echo(f"      ask       {entry.remedy.command}")


def _echo_detail(label: str, text: str) -> None:
    _echo_wrapped(f"      {label:<10}", text)


def _echo_list(label: str, texts: list[str]) -> None:
    if texts:
        _echo_wrapped(f"  {label:<16}", "; ".join(texts))


def _echo_wrapped(first: str, text: str) -> None:
    indent = " " * len(first)
    typer.echo(textwrap.fill(text, _WIDTH, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False))


def _named(entry: RankedRemedy) -> str:
    return f"{entry.remedy.name}: {entry.remedy.change}"


def _remedy_document(place: int, entry: RankedRemedy) -> dict[str, Any]:
    remedy, price = entry.remedy, entry.remedy.price
    return {
        "rank": place,
        "name": remedy.name,
        "change": remedy.change,
        "command": remedy.command,
        "found_under": None if remedy.consistency is None else "consistency",
        "iteration_s": entry.iteration_s,
        "samples_per_s": entry.samples_per_s,
        "gain": entry.gain,
        "gain_interval95": None if entry.interval is None else list(entry.interval),
        "tied_with_previous": entry.tied,
        "scaling_factor": entry.scaling_factor,
        "price": {"accuracy": price.accuracy, "hardware": price.hardware, "code": price.code},
        "flips": [
            {
                "against": flip.against,
                "gain": flip.gain,
                "bandwidth_Bps": flip.threshold.bandwidth,
                "side": flip.threshold.side,
                "text": flip.text,
            }
            for flip in entry.flips
        ],
    }
