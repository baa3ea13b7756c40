"""Commands about your own job: predict, messages, need, workloads."""

import math
from typing import Annotated, Any

import typer

from wirebound.cli import job_options as options
from wirebound.cli.output import JsonFlag, note, print_json, printable
from wirebound.errors import InputError
from wirebound.model import Cluster, Step, Workload
from wirebound.model.cluster import FREE_LINK
from wirebound.model.library import builtin_names, builtin_workload
from wirebound.simulate.cost import message_cost
from wirebound.simulate.messages import planned_messages
from wirebound.simulate.need import BATCH_LIMIT, UNITS, solve_need
from wirebound.simulate.step import simulate_step
from wirebound.units import format_bandwidth, format_bytes, format_duration


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command("predict")(predict)
    app.command("messages")(messages)
    app.command("need")(need)
    app.command("workloads")(workloads)


def predict(
    workload: options.WorkloadName,
    gpus: options.Gpus,
    method: options.MethodName,
    gpus_per_node: options.GpusPerNode = 1,
    bandwidth: options.Bandwidth = None,
    network: options.Network = None,
    latency: options.Latency = None,
    utilization: options.Utilization = 1.0,
    intra_bandwidth: options.IntraBandwidth = None,
    intra_latency: options.IntraLatency = None,
    compression: options.Compression = 1.0,
    bucket_cap: options.BucketCap = None,
    first_bucket_cap: options.FirstBucketCap = None,
    servers: options.Servers = None,
    colocated: options.Colocated = False,
    batch: options.Batch = None,
    gradient_dtype: options.GradientDtype = None,
    accumulation: options.Accumulation = 1,
    no_vector_add: options.NoVectorAdd = False,
    json_output: JsonFlag = False,
) -> None:
    """Predict the time of one training step, and how well the job scales.

    Example: wirebound predict --workload resnet50 --gpus 64 --bandwidth "10 Gbps" --method wfbp-a2a
    """
    given = _given(locals())
    job = options.read_job(given)
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
    for line in job.notes:
        note(line)
    samples_per_s = _samples_per_s(job, step)
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
        "job": _job_document(job),
        "assumptions": job.assumptions,
    }
    if json_output:
        print_json(document)
        return
    typer.echo(_job_line(job))
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
        f"  network         {_counted(len(step.messages), 'message')}, busy for"
        f" {format_duration(step.communication_s)}; a worker sends {format_bytes(step.wire_bytes_per_worker)};"
        f" link {step.link_utilization:.1%} used over the step"
    )
    _echo_assumptions(job)


def messages(
    workload: options.WorkloadName,
    method: options.MethodName,
    gpus: options.Gpus = None,
    gpus_per_node: options.GpusPerNode = 1,
    bandwidth: options.Bandwidth = None,
    network: options.Network = None,
    latency: options.Latency = None,
    utilization: options.Utilization = 1.0,
    intra_bandwidth: options.IntraBandwidth = None,
    intra_latency: options.IntraLatency = None,
    compression: options.Compression = 1.0,
    bucket_cap: options.BucketCap = None,
    first_bucket_cap: options.FirstBucketCap = None,
    servers: options.Servers = None,
    colocated: options.Colocated = False,
    batch: options.Batch = None,
    gradient_dtype: options.GradientDtype = None,
    accumulation: options.Accumulation = 1,
    no_vector_add: options.NoVectorAdd = False,
    json_output: JsonFlag = False,
) -> None:
    """List the messages of one step: bytes before compression, when each is ready, and the tensors in it.

    Times are since backward began. With --gpus and --bandwidth each message also has its start and end on the wire,
    in the order in which they are sent. Only mg-wfbp needs to know the network to decide.

    Example: wirebound messages --workload resnet18 --method ddp --bucket-cap "25 MiB"
    """
    given = _given(locals())
    has_network = gpus is not None and (bandwidth is not None or network is not None)
    job = options.read_job(given, network_needed=gpus is not None)
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
    if json_output:
        print_json({"messages": rows})
        return
    typer.echo(f"{_job_line(job)}: {_counted(len(rows), 'message')}")
    for index, row in enumerate(rows):
        first, last = row["tensors"][0], row["tensors"][-1]
        span = printable(first if first == last else f"{first} … {last}")
        sent = f"  sent {format_duration(row['start_s'])}–{format_duration(row['end_s'])}" if "start_s" in row else ""
        typer.echo(
            f"  {index:4}  {row['bytes']:>12,} B  ready {format_duration(row['ready_s'])}{sent}"
            f"  {_counted(len(row['tensors']), 'tensor')}: {span}"
        )
    _echo_assumptions(job)


def need(
    workload: options.WorkloadName,
    method: options.MethodName,
    target: Annotated[float, typer.Option("--target", help="Scaling factor to reach, such as 0.95.")],
    solve: Annotated[str, typer.Option("--solve", help=f"What to solve for: {', '.join(UNITS)}.")],
    gpus: options.Gpus = None,
    gpus_per_node: options.GpusPerNode = 1,
    bandwidth: options.Bandwidth = None,
    network: options.Network = None,
    latency: options.Latency = None,
    utilization: options.Utilization = 1.0,
    intra_bandwidth: options.IntraBandwidth = None,
    intra_latency: options.IntraLatency = None,
    compression: options.Compression = 1.0,
    bucket_cap: options.BucketCap = None,
    first_bucket_cap: options.FirstBucketCap = None,
    servers: options.Servers = None,
    colocated: options.Colocated = False,
    batch: options.Batch = None,
    gradient_dtype: options.GradientDtype = None,
    accumulation: options.Accumulation = 1,
    no_vector_add: options.NoVectorAdd = False,
    json_output: JsonFlag = False,
) -> None:
    """Solve for what reaches a scaling factor: the smallest bandwidth, compression or batch, or the most GPUs.

    Example: wirebound need --workload vgg16 --gpus 64 --bandwidth "10 Gbps" --method horovod --target 0.95
    --solve compression
    """
    given = _given(locals())
    if not 0 < target <= 1:
        raise InputError(f"--target {target} must be a scaling factor greater than 0 and at most 1, such as 0.95")
    if solve == "gpus":
        given.gpus = 2 * gpus_per_node  # any cluster with a network: the number is what is solved for
    elif gpus is None:
        raise InputError("the number of accelerators is missing: give --gpus 64")
    job = options.read_job(given, network_needed=solve != "bandwidth")
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
    if solve == "bandwidth" and network is not None:
        note("bandwidth is what is solved for: of --network only the latency is used")
    ignored = {"bandwidth": bandwidth, "gpus": gpus, "batch": batch}.get(solve)
    if ignored is not None or (solve == "compression" and compression != 1):
        note(f"--{solve} is what is solved for: the value given is ignored")
    for line in job.notes:
        note(line)
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
                "job": _job_document(job, leave_out=solve),
                "assumptions": job.assumptions,
            }
        )
        return
    typer.echo(_job_line(job, leave_out=solve))
    if answer.value is None:
        limit = f" up to {BATCH_LIMIT:,} (the most that is searched)" if answer.at_search_limit else ""
        best = "there" if answer.at_search_limit else "at best"
        typer.echo(
            f"  no {solve}{limit} reaches {target:.1%}: {best} {answer.scaling_factor:.1%},"
            f" limited by {answer.limited_by}"
        )
    else:
        extent = "at most" if solve == "gpus" else "at least"
        limit = " (the most that is searched)" if answer.at_search_limit else ""
        shown = f"{answer.value:,}" if isinstance(answer.value, int) else f"{answer.value:.4g}"
        typer.echo(
            f"  {solve} {extent} {shown} {answer.unit}{limit} for a scaling factor of {target:.1%}"
            f" (there {answer.scaling_factor:.2%})"
        )
    _echo_assumptions(job)


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


def _given(values: dict[str, Any]) -> options.JobOptions:
    """The shared options among a command's arguments."""
    return options.JobOptions(**{name: values[name] for name in options.JobOptions.__dataclass_fields__})


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _whole(size: float) -> int | float:
    return int(size) if size == int(size) else size


def _samples_per_s(job: options.Job, step: Step) -> float | None:
    if job.cluster is None or step.iteration_s == 0:
        return None
    return job.cluster.workers * job.workload.batch_size * job.accumulation / step.iteration_s


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


def _network_document(cluster: Cluster) -> dict[str, Any]:
    """Links as numbers; None stands for a bandwidth that was not given and costs nothing."""
    return {
        "gpus": cluster.workers,
        "nodes": cluster.nodes,
        "gpus_per_node": cluster.accelerators_per_node,
        "bandwidth_Bps": cluster.inter.bandwidth if math.isfinite(cluster.inter.bandwidth) else None,
        "latency_s": cluster.inter.latency_s,
        "utilization": cluster.inter.utilization,
        "intra_bandwidth_Bps": cluster.intra.bandwidth if math.isfinite(cluster.intra.bandwidth) else None,
        "intra_latency_s": cluster.intra.latency_s,
    }


def _job_document(job: options.Job, leave_out: str = "") -> dict[str, Any]:
    """The job as it was understood, without the quantity that is solved for."""
    document: dict[str, Any] = {"workload": job.workload.name, "batch_size": job.workload.batch_size}
    document |= {"gradient_bytes": job.workload.size, "timing": job.workload.timing, "method": job.method.name}
    document |= {"compression": job.method.compression, "accumulation": job.accumulation}
    if job.cluster is not None:
        document |= _network_document(job.cluster)
    solved = {"bandwidth": ["bandwidth_Bps"], "gpus": ["gpus", "nodes"], "batch": ["batch_size"]}
    for key in solved.get(leave_out, [leave_out]):
        document.pop(key, None)
    return document


def _job_line(job: options.Job, leave_out: str = "") -> str:
    """One line that says which job this is, without the quantity that is solved for."""
    workload, cluster = job.workload, job.cluster
    parts = [
        f"{printable(workload.name)} ({_counted(len(workload.tensors), 'tensor')}, {format_bytes(workload.size)}"
        f" {workload.gradient_dtype})"
    ]
    if leave_out != "batch":
        parts.append(f"batch {workload.batch_size} per GPU")
    if cluster is not None and leave_out != "gpus":
        parts.append(f"{_counted(cluster.workers, 'GPU')} on {_counted(cluster.nodes, 'node')}")
    elif cluster is not None:
        parts.append(f"{_counted(cluster.accelerators_per_node, 'GPU')} per node")
    if cluster is not None and leave_out != "bandwidth" and cluster.inter != FREE_LINK:
        parts.append(format_bandwidth(cluster.inter.bandwidth))
    if job.method.compression != 1 and leave_out != "compression":
        parts.append(f"compression {job.method.compression:g}×")
    if job.accumulation > 1:
        parts.append(f"{job.accumulation} passes per step")
    return ", ".join([*parts, job.method.name])


def _echo_assumptions(job: options.Job) -> None:
    typer.echo(f"  assumed         {printable('; '.join(job.assumptions))}")
