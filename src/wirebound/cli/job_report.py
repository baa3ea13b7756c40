"""How the commands about a job say which job it is, in JSON and in one line."""

import dataclasses
import math
from typing import Any

import typer

from wirebound.cli.job_reading import Job
from wirebound.cli.output import printable
from wirebound.model import Cluster
from wirebound.units import format_bandwidth, format_bytes


def counted(number: int, what: str) -> str:
    """Return a number with its noun, in the plural where it is not 1."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _network_document(cluster: Cluster) -> dict[str, Any]:
    """Links as numbers; None stands for a bandwidth that was not given and costs nothing."""
    return {
        "gpus": cluster.workers,
        "nodes": cluster.nodes,
        "gpus_per_node": cluster.accelerators_per_node,
        "nics_per_node": cluster.nics_per_node,
        "bandwidth_Bps": cluster.inter.bandwidth if math.isfinite(cluster.inter.bandwidth) else None,
        "latency_s": cluster.inter.latency_s,
        "utilization": cluster.inter.utilization,
        "intra_bandwidth_Bps": cluster.intra.bandwidth if math.isfinite(cluster.intra.bandwidth) else None,
        "intra_latency_s": cluster.intra.latency_s,
    }


def job_document(job: Job, leave_out: str = "") -> dict[str, Any]:
    """The job as it was understood, without the quantity that is solved for."""
    document: dict[str, Any] = {"workload": job.workload.name, "batch_size": job.workload.batch_size}
    document |= {"gradient_bytes": job.workload.size, "timing": job.workload.timing, "method": job.method.name}
    document["collective"] = job.method.collective if job.method.architecture == "all-reduce" else None
    document |= {"compression": job.method.compression, "accumulation": job.accumulation}
    if job.method.compressor is not None:
        compressor = job.method.compressor
        document |= {"compressor": compressor.label, "codec": dataclasses.asdict(compressor.codec)}
    if job.cluster is not None:
        document |= _network_document(job.cluster)
    solved = {
        "bandwidth": ["bandwidth_Bps"],
        "gpus": ["gpus", "nodes"],
        "batch": ["batch_size"],
        "latency": ["latency_s"],
    }
    for key in solved.get(leave_out, [leave_out]):
        document.pop(key, None)
    return document


def job_line(job: Job, leave_out: str = "") -> str:
    """One line that says which job this is, without the quantity that is solved for."""
    workload, cluster = job.workload, job.cluster
    parts = [
        f"{printable(workload.name)} ({counted(len(workload.tensors), 'tensor')}, {format_bytes(workload.size)}"
        f" {workload.gradient_dtype})"
    ]
    if leave_out != "batch":
        parts.append(f"batch {workload.batch_size} per GPU")
    if cluster is not None and leave_out != "gpus":
        parts.append(f"{counted(cluster.workers, 'GPU')} on {counted(cluster.nodes, 'node')}")
    elif cluster is not None:
        parts.append(f"{counted(cluster.accelerators_per_node, 'GPU')} per node")
    if cluster is not None and leave_out != "bandwidth" and math.isfinite(cluster.inter.bandwidth):
        parts.append(format_bandwidth(cluster.inter.bandwidth))
    if job.method.compression != 1 and leave_out != "compression":
        parts.append(f"compression {job.method.compression:g}×")
    if job.method.compressor is not None:
        parts.append(job.method.compressor.label)
    if job.accumulation > 1:
        parts.append(f"{job.accumulation} passes per step")
    with_collective = job.method.architecture == "all-reduce" and job.method.collective != "ring"
    return ", ".join([*parts, job.method.name + (f" with {job.method.collective}" if with_collective else "")])


def echo_assumptions(assumptions: list[str]) -> None:
    """Print the line that says what the answer takes for granted."""
    typer.echo(f"  assumed         {printable('; '.join(assumptions))}")
