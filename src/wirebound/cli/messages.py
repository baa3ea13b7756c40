"""The command messages: what one step sends, and when."""

from typing import Any

import typer

from wirebound.cli.job_interval import note_ranges
from wirebound.cli.job_options import JobOptions, with_job_options
from wirebound.cli.job_reading import read_job
from wirebound.cli.job_report import counted, echo_assumptions, job_line
from wirebound.cli.output import JsonFlag, note, print_json, printable
from wirebound.simulate.cost import message_cost
from wirebound.simulate.messages import planned_messages
from wirebound.simulate.step import simulate_step
from wirebound.units import format_duration


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("messages")(messages)


@with_job_options()
def messages(given: JobOptions, json_output: JsonFlag = False) -> None:
    """List the messages of one step: bytes before compression, when each is ready, and the tensors in it.

    Times are since backward began. With --gpus and --bandwidth each message also has its start and end on the wire,
    in the order in which they are sent. Only mg-wfbp needs to know the network to decide.

    Example: wirebound messages --workload resnet18 --method ddp --bucket-cap "25 MiB"
    """
    has_network = given.gpus is not None and (given.bandwidth is not None or given.network is not None)
    job = read_job(given, network_needed=given.gpus is not None)
    names = [tensor.name for tensor in job.workload.tensors]
    rows: list[dict[str, Any]]
    if has_network and job.cluster is not None and job.cluster.workers > 1:
        step = simulate_step(job.workload, job.cluster, job.method, include_vector_add=job.include_vector_add)
        rows = [
            {
                "bytes": _whole(message.size),
                "ready_s": message.ready_s,
                "start_s": message.start_s,
                "end_s": message.end_s,
                "tensors": [names[index] for index in message.tensors],
            }
            for message in step.messages
        ]
    else:
        cost = None
        if job.cluster is not None:
            cost = message_cost(job.workload, job.cluster, job.method, include_vector_add=job.include_vector_add)
        rows = [
            {"bytes": _whole(m.size), "ready_s": m.ready_s, "tensors": [names[index] for index in m.tensors]}
            for m in planned_messages(job.workload, job.method, cost)
        ]
    for line in job.notes:
        note(line)
    note_ranges(job)
    if json_output:
        print_json({"messages": rows})
        return
    typer.echo(f"{job_line(job)}: {counted(len(rows), 'message')}")
    for index, row in enumerate(rows):
        first, last = row["tensors"][0], row["tensors"][-1]
        span = printable(first if first == last else f"{first} … {last}")
        sent = f"  sent {format_duration(row['start_s'])}–{format_duration(row['end_s'])}" if "start_s" in row else ""
        typer.echo(
            f"  {index:4}  {row['bytes']:>12,} B  ready {format_duration(row['ready_s'])}{sent}"
            f"  {counted(len(row['tensors']), 'tensor')}: {span}"
        )
    echo_assumptions(job.assumptions)


def _whole(size: float) -> int | float:
    return int(size) if size == int(size) else size
