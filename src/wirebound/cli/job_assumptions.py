"""What an answer takes for granted, and which options change nothing."""

from wirebound.cli.job_collective import collective_assumptions
from wirebound.cli.job_compression import compression_assumptions, compression_without_effect
from wirebound.cli.job_options import JobOptions
from wirebound.model import Cluster, Method, Workload
from wirebound.model.method import MIB
from wirebound.units import format_duration


def assumptions_of(
    workload: Workload,
    cluster: Cluster | None,
    method: Method,
    options: JobOptions,
    network_doubts: str | None,
    batch_rule: str | None,
) -> list[str]:
    """Return what the answer takes for granted, one phrase each."""
    assumed = []
    if workload.timing == "measured":
        assumed.append(f"compute times measured ({workload.source})")
    else:
        assumed.append(f"compute times {workload.timing}, not measured per layer ({workload.source})")
    if batch_rule is not None:
        assumed.append(batch_rule)
    if cluster is not None and cluster.nodes > 1:
        if cluster.inter.latency_s == 0:
            assumed.append("messages have no latency")
        if network_doubts is not None:
            assumed.append(f"the fitted network is in doubt ({network_doubts})")
        if cluster.inter.utilization == 1:
            assumed.append("the transport reaches the whole bandwidth")
        assumed += collective_assumptions(cluster, method)
    if options.gpus_per_node > 1 and options.intra_bandwidth is None:
        assumed.append("accelerators of a node exchange for free (no --intra-bandwidth)")
    if method.compression > 1:
        assumed.append("compression and decompression take no time")
    assumed += compression_assumptions(workload, cluster, method, options)
    if method.architecture == "parameter-server":
        if method.colocated:
            assumed.append("every node is a server too; adding vectors there is free")
        else:
            count = method.servers or "as many as nodes"
            overlap = {
                "pipelined": "a message is pulled beside the push of later ones",
                "tictac": "all pushes end before the first pull, in the order of the next forward pass",
                "serial": "push and pull do not overlap",
            }["tictac" if method.schedule == "tictac" else "pipelined" if method.pipelined else "serial"]
            assumed.append(f"servers are machines of their own ({count}); {overlap}; adding vectors there is free")
        if method.incast:
            assumed.append(f"servers' links lose {method.incast:.0%} where several workers use them at once")
    if method.architecture == "all-reduce" or options.gpus_per_node > 1:
        adding = "adding vectors" + (" inside a node" if method.architecture == "parameter-server" else "")
        if not workload.vector_add:
            assumed.append(f"{adding} takes no time (not measured for this workload)")
        elif options.no_vector_add:
            assumed.append(f"{adding} takes no time (--no-vector-add)")
        else:
            assumed.append(f"{adding} takes its measured time")
    if method.schedule in ("priority", "tictac"):
        if any(tensor.forward_s is None for tensor in workload.tensors):
            assumed.append("forward time shared out over layers like backward time")
        else:
            assumed.append("layers' measured forward times scaled to the whole forward pass")
    if method.schedule == "ddp":
        caps = f"first {method.first_bucket_bytes / MIB:g} MiB, then {method.bucket_cap_bytes / MIB:g} MiB"
        assumed.append(f"bucket limits {caps}")
    if method.schedule == "horovod":
        window = format_duration(method.fusion_window_s)
        assumed.append(f"fusion after {window} of backward or {method.fusion_bytes / MIB:g} MiB")
    return assumed


def without_effect(method: Method, options: JobOptions) -> list[str]:
    """Return a sentence for every option that was given and changes nothing."""
    schedule, architecture = method.schedule, method.architecture
    reason = f"the method {options.method}"
    idle: list[tuple[str, object, str]] = []
    if schedule != "ddp":
        idle += [
            ("--bucket-cap", options.bucket_cap, reason),
            ("--first-bucket-cap", options.first_bucket_cap, reason),
        ]
    if architecture == "parameter-server":
        idle.append(("--collective", options.collective, reason))
    else:
        idle += [("--servers", options.servers, reason), ("--colocated", options.colocated or None, reason)]
    idle += compression_without_effect(method, options)
    if options.gpus_per_node == 1:
        reason = "one accelerator per node"
        idle += [
            ("--intra-bandwidth", options.intra_bandwidth, reason),
            ("--intra-latency", options.intra_latency, reason),
        ]
    return [f"{flag} changes nothing with {reason}" for flag, value, reason in idle if value is not None]
