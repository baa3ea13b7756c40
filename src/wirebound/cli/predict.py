"""The command predict: the time of one training step."""

from pathlib import Path
from typing import Annotated

import typer

from wirebound.cli.consistency_options import (
    ComputeSpread,
    ConsistencyName,
    ConsistencyOptions,
    Seed,
    Straggler,
    consistency_document,
    echo_consistency,
)
from wirebound.cli.job_compression import compression_line
from wirebound.cli.job_interval import SamplesOption
from wirebound.cli.job_options import JobOptions, with_job_options
from wirebound.cli.job_reading import read_job
from wirebound.cli.job_report import counted, echo_assumptions, job_line
from wirebound.cli.naming import naming
from wirebound.cli.output import JsonFlag, note, print_json
from wirebound.cli.prediction import Prediction, predict_job, prediction_document
from wirebound.files import require_other_file, require_writable
from wirebound.simulate.uncertainty import DEFAULT_SAMPLES
from wirebound.units import format_bytes, format_duration


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("predict")(predict)


@with_job_options(required=("gpus",))
def predict(
    given: JobOptions,
    consistency: ConsistencyName = None,
    compute_spread: ComputeSpread = None,
    straggler: Straggler = None,
    samples: SamplesOption = DEFAULT_SAMPLES,
    seed: Seed = None,
    timeline: Annotated[
        Path | None,
        typer.Option("--timeline", help="Write two steps as a trace for Perfetto.", metavar="FILE.json"),
    ] = None,
    json_output: JsonFlag = False,
) -> None:
    """Predict the time of one training step, and how well the job scales.

    That is a step of equally fast workers that all wait for each other. With --consistency, --compute-spread or
    --straggler many steps of workers that differ are simulated as well. Where a parameter is uncertain (a fitted
    network, a profile of several steps, a range), it also tells the interval that holds 95 % of the outcomes.

    Example: wirebound predict --workload resnet50 --gpus 64 --bandwidth "10 Gbps" --method wfbp-a2a
    """
    if timeline is not None:
        with naming("--timeline"):
            require_writable(timeline)
        require_other_file("--timeline", timeline, [given.network, given.codec, Path(given.workload)])
    job = read_job(given)
    prediction = predict_job(job, samples=samples, seed=seed or 0)
    protocol = ConsistencyOptions(consistency, compute_spread, straggler, seed).simulate(job)
    for line in job.notes:
        note(line)
    if timeline is not None:
        _write_timeline(prediction, timeline)
    document = prediction_document(prediction)
    if protocol is not None:
        document["consistency"] = consistency_document(protocol, job, seed)
    if json_output:
        print_json(document)
        return
    step, interval, rate = prediction.step, document["interval95"], prediction.samples_per_s
    typer.echo(job_line(job))
    exposed = format_duration(step.exposed_s)
    typer.echo(
        f"  iteration       {format_duration(step.iteration_s)} = compute {format_duration(step.compute_s)}"
        f" + exposed communication {exposed}"
    )
    typer.echo(
        f"  scaling factor  {step.scaling_factor:.1%}, {document['speedup']:.4g}× one GPU, {rate:,.0f} samples/s"
    )
    if interval is not None:
        fastest, slowest = (format_duration(seconds) for seconds in interval["iteration_s"])
        least, most = interval["scaling_factor"]
        typer.echo(f"  95 % interval   iteration {fastest} to {slowest}, scaling factor {least:.1%} to {most:.1%}")
    typer.echo(
        f"  network         {counted(len(step.messages), 'message')}, busy for"
        f" {format_duration(step.communication_s)}; a worker sends {format_bytes(step.wire_bytes_per_worker)};"
        f" link {step.link_utilization:.1%} used over the step"
    )
    if job.method.compresses or job.method.compression != 1:
        typer.echo(compression_line(document))
    if protocol is not None:
        echo_consistency(protocol, job)
    if len(shares := document["collectives"]) > 1:
        carried = (
            f"{row['name']} {counted(row['messages'], 'message')}, {format_bytes(row['bytes'])}" for row in shares
        )
        typer.echo(f"  collectives     {'; '.join(carried)}")
    for remark in document["remarks"]:
        typer.echo(f"  remark          {remark}")
    echo_assumptions(document["assumptions"])


def _write_timeline(prediction: Prediction, path: Path) -> None:
    from wirebound.files import write_text
    from wirebound.simulate.timeline import timeline_of, trace_text

    job = prediction.job.training
    drawn = timeline_of(prediction.step, job.workload, job.cluster, job.method, accumulation=job.accumulation, steps=2)
    write_text(path, trace_text(drawn))
    note(f"timeline of two steps in {path}: open it in ui.perfetto.dev")
