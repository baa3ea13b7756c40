"""The command need: what it takes to reach a scaling factor."""

import math
from typing import Annotated

import typer

from wirebound.cli.job_interval import note_ranges
from wirebound.cli.job_options import JobOptions, with_job_options
from wirebound.cli.job_reading import read_job
from wirebound.cli.job_report import echo_assumptions, job_document, job_line
from wirebound.cli.output import JsonFlag, note, print_json
from wirebound.errors import InputError
from wirebound.simulate.need import BATCH_LIMIT, LARGEST, UNITS, solve_need
from wirebound.units import SHARE_BOUNDS


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("need")(need)


@with_job_options()
def need(
    given: JobOptions,
    target: Annotated[float, typer.Option("--target", help="Scaling factor to reach, such as 0.95.")],
    solve: Annotated[str, typer.Option("--solve", help=f"What to solve for: {', '.join(UNITS)}.")],
    json_output: JsonFlag = False,
) -> None:
    """Solve for what reaches a scaling factor: the least bandwidth, compression or batch, or the most GPUs or latency.

    Example: wirebound need --workload vgg16 --gpus 64 --bandwidth "10 Gbps" --method horovod --target 0.95
    --solve compression
    """
    if not SHARE_BOUNDS.has(target):
        raise InputError(f"--target {target} must be a scaling factor {SHARE_BOUNDS.shown}, such as 0.95")
    if solve == "compression" and given.compressor is not None:
        raise InputError("--solve compression asks for a ratio that costs nothing: leave --compressor out")
    given_gpus, given_latency = given.gpus, given.latency
    if solve == "latency":
        given.latency = "1 us"  # any: it is what is solved for
    if solve == "gpus":
        given.gpus = 2 * given.gpus_per_node  # any cluster with a network: the number is what is solved for
    elif given_gpus is None:
        raise InputError("the number of accelerators is missing: give --gpus 64")
    job = read_job(given, network_needed=solve != "bandwidth", batch_varies=solve == "batch")
    assert job.cluster is not None
    answer = solve_need(
        job.workload,
        job.cluster,
        job.method,
        target=target,
        solve=solve,
        include_vector_add=job.include_vector_add,
        accumulation=job.accumulation,
    )
    if given.network is not None and solve in (used := {"bandwidth": "latency", "latency": "bandwidth"}):
        note(f"{solve} is what is solved for: of --network only the {used[solve]} is used")
    given_values = {"bandwidth": given.bandwidth, "gpus": given_gpus, "batch": given.batch, "latency": given_latency}
    if answer.value is not None and not math.isfinite(answer.value):
        raise InputError(f"the {solve} needed is larger than numbers can tell: check --utilization and --bandwidth")
    ignored = given_values.get(solve)
    if ignored is not None or (solve == "compression" and given.compression != 1):
        note(f"--{solve} is what is solved for: the value given is ignored")
    for line in job.notes:
        note(line)
    note_ranges(job, leave_out=solve)
    if json_output:
        print_json(
            {
                "value": answer.value,
                "unit": answer.unit,
                "scaling_factor": answer.scaling_factor,
                "reachable": answer.reachable,
                "at_search_limit": answer.at_search_limit,
                "limited_by": answer.limited_by,
                "target": target,
                "solve": solve,
                "job": job_document(job, leave_out=solve),
                "assumptions": job.assumptions,
            }
        )
        return
    typer.echo(job_line(job, leave_out=solve))
    if answer.value is None:
        limit = f" up to {BATCH_LIMIT:,} (the most that is searched)" if answer.at_search_limit else ""
        best = "there" if answer.at_search_limit else "at best"
        typer.echo(
            f"  no {solve}{limit} reaches {target:.1%}: {best} {answer.scaling_factor:.1%},"
            f" limited by {answer.limited_by}"
        )
    else:
        extent = "at most" if solve in LARGEST else "at least"
        limit = " (the most that is searched)" if answer.at_search_limit else ""
        shown = f"{answer.value:,}" if isinstance(answer.value, int) else _rounded(answer.value, down=solve in LARGEST)
        typer.echo(
            f"  {solve} {extent} {shown} {answer.unit}{limit} for a scaling factor of {target:.1%}"
            f" (there {answer.scaling_factor:.2%})"
        )
    echo_assumptions(job.assumptions)


def _rounded(value: float, *, down: bool) -> str:
    """Four digits of a value, rounded to the side on which the target is still reached."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    step = 10.0 ** (math.floor(math.log10(abs(value))) - 3)
    return f"{(math.floor if down else math.ceil)(value / step) * step:.5g}"
