"""The command workloads: the jobs that are built in."""

from typing import Any

import typer

from wirebound.cli.output import JsonFlag, print_json
from wirebound.model import Workload
from wirebound.model.library import builtin_names, builtin_workload
from wirebound.units import format_bytes, format_duration


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("workloads")(workloads)


def workloads(json_output: JsonFlag = False) -> None:
    """List the built-in workloads.

    Example: wirebound workloads --json
    """
    found = [builtin_workload(name) for name in builtin_names()]
    if json_output:
        print_json({"workloads": [_workload_document(workload) for workload in found]})
        return
    for workload in found:
        typer.echo(
            f"{workload.name:12} batch {workload.batch_size:3}  {len(workload.tensors):3} tensors"
            f"  {format_bytes(workload.size):>8}  {format_duration(workload.compute_s):>8} a step"
            f"  {workload.timing}: {workload.source}"
        )


def _workload_document(workload: Workload) -> dict[str, Any]:
    return {
        "name": workload.name,
        "batch_size": workload.batch_size,
        "tensors": len(workload.tensors),
        "gradient_bytes": workload.size,
        "gradient_dtype": workload.gradient_dtype,
        "forward_s": workload.forward_s,
        "backward_s": workload.backward_s,
        "optimizer_s": workload.optimizer_s,
        "compute_s": workload.compute_s,
        "timing": workload.timing,
        "vector_add_measured": bool(workload.vector_add),
        "source": workload.source,
    }
