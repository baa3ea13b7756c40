"""The command predict: the time of one training step."""

import math
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
from wirebound.cli.job_collective import collective_shares
from wirebound.cli.job_compression import compression_document, compression_line
from wirebound.cli.job_options import JobOptions, with_job_options
from wirebound.cli.job_reading import Job, read_job
from wirebound.cli.job_report import counted, echo_assumptions, job_document, job_line
from wirebound.cli.output import JsonFlag, note, print_json
from wirebound.errors import InputError
from wirebound.model import Step
from wirebound.simulate.step import simulate_step
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
    seed: Seed = None,
    timeline: Annotated[
        Path | None,
        typer.Option("--timeline", help="Write two steps as a trace for Perfetto.", metavar="FILE.json"),
    ] = None,
    json_output: JsonFlag = False,
) -> None:
    """Predict the time of one training step, and how well the job scales.

    That is a step of equally fast workers that all wait for each other. With --consistency, --compute-spread or
    --straggler many steps of workers that differ are simulated as well.

    Example: wirebound predict --workload resnet50 --gpus 64 --bandwidth "10 Gbps" --method wfbp-a2a
    """
    job = read_job(given)
    assert job.cluster is not None
    step = simulate_step(
        job.workload,
        job.cluster,
        job.method,
        include_vector_add=job.include_vector_add,
        accumulation=job.accumulation,
    )
    if not math.isfinite(step.iteration_s):
        raise InputError("the step takes longer than numbers can tell: check --bandwidth and --latency")
    protocol = ConsistencyOptions(consistency, compute_spread, straggler, seed).simulate(job)
    for line in job.notes:
        note(line)
    if timeline is not None:
        _write_timeline(job, step, timeline)
    samples_per_s = _samples_per_s(job, step)
    compression = compression_document(
        *(step, job.workload, job.cluster, job.method),
        include_vector_add=job.include_vector_add,
        accumulation=job.accumulation,
    )
    shares = collective_shares(job.workload, job.cluster, job.method, step, include_vector_add=job.include_vector_add)
    document = {
        "iteration_s": step.iteration_s,
        "compute_s": step.compute_s,
        "communication_s": step.communication_s,
        "exposed_communication_s": step.exposed_s,
        "scaling_factor": step.scaling_factor,
        "speedup": step.scaling_factor * job.cluster.workers,
        "samples_per_s": samples_per_s,
        "wire_bytes_per_worker": step.wire_bytes_per_worker,
        "node_wire_bytes": step.node_wire_bytes,
        "link_utilization": step.link_utilization,
        "messages": len(step.messages),
        **compression,
        "collectives": shares,
        "job": job_document(job),
        "assumptions": job.assumptions,
    }
    if protocol is not None:
        document["consistency"] = consistency_document(protocol, job, seed)
    if json_output:
        print_json(document)
        return
    typer.echo(job_line(job))
    exposed = format_duration(step.exposed_s)
    typer.echo(
        f"  iteration       {format_duration(step.iteration_s)} = compute {format_duration(step.compute_s)}"
        f" + exposed communication {exposed}"
    )
    rate = "" if samples_per_s is None else f", {samples_per_s:,.0f} samples/s"
    typer.echo(
        f"  scaling factor  {step.scaling_factor:.1%}, {step.scaling_factor * job.cluster.workers:.4g}× one GPU{rate}"
    )
    typer.echo(
        f"  network         {counted(len(step.messages), 'message')}, busy for"
        f" {format_duration(step.communication_s)}; a worker sends {format_bytes(step.wire_bytes_per_worker)};"
        f" link {step.link_utilization:.1%} used over the step"
    )
    if job.method.compresses or job.method.compression != 1:
        typer.echo(compression_line(compression))
    if protocol is not None:
        echo_consistency(protocol, job)
    if len(shares) > 1:
        carried = (
            f"{row['name']} {counted(row['messages'], 'message')}, {format_bytes(row['bytes'])}" for row in shares
        )
        typer.echo(f"  collectives     {'; '.join(carried)}")
    echo_assumptions(job)


def _write_timeline(job: Job, step: Step, path: Path) -> None:
    from wirebound.files import write_text
    from wirebound.simulate.timeline import timeline_of, trace_text

    assert job.cluster is not None
    drawn = timeline_of(step, job.workload, job.cluster, job.method, accumulation=job.accumulation, steps=2)
    write_text(path, trace_text(drawn))
    note(f"timeline of two steps in {path}: open it in ui.perfetto.dev")


def _samples_per_s(job: Job, step: Step) -> float | None:
    if job.cluster is None or step.iteration_s == 0:
        return None
    return job.cluster.workers * job.workload.batch_size * job.accumulation / step.iteration_s
