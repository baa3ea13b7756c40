"""What predict, messages and need share: their options, and how these become a workload, a cluster and a method."""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from wirebound.errors import InputError
from wirebound.fit.document import FittedLink, load_fitted_link
from wirebound.model import Cluster, Link, Method, Workload, method_named
from wirebound.model.cluster import FREE_LINK
from wirebound.model.library import builtin_names, builtin_workload
from wirebound.model.method import METHODS, MIB
from wirebound.model.workload import GRADIENT_DTYPES
from wirebound.simulate.need import BATCH_LIMIT
from wirebound.units import format_duration, parse_bandwidth, parse_bytes, parse_duration


def _option(name: str, help_text: str, *, metavar: str | None = None) -> Any:
    return typer.Option(name, help=help_text, metavar=metavar)


WorkloadName = Annotated[
    str, _option("--workload", "A built-in workload, or a profile's file.", metavar="NAME|PROFILE.json")
]
Gpus = Annotated[int | None, _option("--gpus", "Accelerators in all, one worker each.")]
GpusPerNode = Annotated[int, _option("--gpus-per-node", "Accelerators that share a node's network link.")]
Batch = Annotated[int | None, _option("--batch", "Samples per accelerator; compute time is scaled in proportion.")]
GradientDtype = Annotated[
    str | None, _option("--gradient-dtype", f"Type that gradients are sent in: {', '.join(GRADIENT_DTYPES)}.")
]
Accumulation = Annotated[int, _option("--accumulation", "Passes computed for each communication.")]
NoVectorAdd = Annotated[bool, typer.Option("--no-vector-add", help="Leave the measured time of adding vectors out.")]
Bandwidth = Annotated[
    str | None, _option("--bandwidth", "Of a node's network link, such as '10 Gbps'.", metavar="TEXT")
]
Network = Annotated[
    Path | None,
    _option("--network", "A fit of your network, instead of --bandwidth.", metavar="FIT.json"),
]
Latency = Annotated[str | None, _option("--latency", "Per message, such as '20 us'. [default: 0]")]
Utilization = Annotated[float, _option("--utilization", "Share of the bandwidth that the transport reaches, up to 1.")]
IntraBandwidth = Annotated[
    str | None,
    _option("--intra-bandwidth", "Between the accelerators of a node. [default: exchange is free]"),
]
IntraLatency = Annotated[
    str | None, _option("--intra-latency", "Per message inside a node, such as '5 us'. [default: 0]")
]
MethodName = Annotated[
    str, _option("--method", f"How gradients are synchronized: {', '.join(METHODS)}.", metavar="NAME")
]
Compression = Annotated[float, _option("--compression", "Divides the bytes on the wire; encoding is free.")]
BucketCap = Annotated[str | None, _option("--bucket-cap", "Bucket limit of ddp, such as '25 MiB'. [default: 25 MiB]")]
FirstBucketCap = Annotated[
    str | None, _option("--first-bucket-cap", "Limit of the first bucket of ddp. [default: 1 MiB]")
]
Servers = Annotated[int | None, _option("--servers", "Parameter servers. [default: as many as nodes]")]
Colocated = Annotated[bool, typer.Option("--colocated", help="Servers share the workers' nodes.")]


#: No whole number on the command line may exceed this.
_LARGEST = BATCH_LIMIT


@dataclass(slots=True)
class JobOptions:
    """The options as they were given; sizes, times and bandwidths still are text with a unit."""

    workload: str
    method: str
    gpus: int | None
    gpus_per_node: int = 1
    batch: int | None = None
    gradient_dtype: str | None = None
    accumulation: int = 1
    no_vector_add: bool = False
    bandwidth: str | None = None
    network: Path | None = None
    latency: str | None = None
    utilization: float = 1.0
    intra_bandwidth: str | None = None
    intra_latency: str | None = None
    compression: float = 1.0
    bucket_cap: str | None = None
    first_bucket_cap: str | None = None
    servers: int | None = None
    colocated: bool = False


@dataclass(slots=True)
class Job:
    """What the options mean. `cluster` is None where no number of accelerators was given."""

    workload: Workload
    cluster: Cluster | None
    method: Method
    accumulation: int
    include_vector_add: bool
    assumptions: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_job(options: JobOptions, *, network_needed: bool = True) -> Job:
    """Check the options and return the job; raises `InputError` that names the option at fault.

    With `network_needed` false, a cluster of several nodes may lack its bandwidth (it then costs nothing).
    """
    for flag, value in (
        ("--gpus", options.gpus),
        ("--gpus-per-node", options.gpus_per_node),
        ("--batch", options.batch),
        ("--accumulation", options.accumulation),
        ("--servers", options.servers),
    ):
        if value is not None and not 1 <= value <= _LARGEST:
            raise InputError(f"{flag} {value} must be between 1 and {_LARGEST:,}")
    workload = _workload(options)
    method = _method(options)
    fitted = _fitted_link(options)
    cluster = _cluster(options, network_needed, fitted)
    job = Job(workload, cluster, method, options.accumulation, not options.no_vector_add)
    job.assumptions = _assumptions(job, options, None if fitted is None else fitted.doubts)
    job.notes = _without_effect(job, options)
    return job


def _workload(options: JobOptions) -> Workload:
    name = options.workload
    separators = tuple(filter(None, (os.sep, os.altsep)))
    is_path = name.lower().endswith(".json") or any(mark in name for mark in separators) or os.path.exists(name)
    if name not in builtin_names() and is_path:
        from wirebound.profile.schema import load_profile

        workload = load_profile(Path(name)).workload()
    else:
        workload = builtin_workload(name)
    if options.batch is not None:
        workload = workload.with_batch(options.batch)
    if options.gradient_dtype is not None:
        workload = workload.with_gradient_dtype(options.gradient_dtype)
    return workload


def _method(options: JobOptions) -> Method:
    if not (math.isfinite(options.compression) and options.compression >= 1):
        raise InputError(f"--compression {options.compression} must be a finite ratio, at least 1")
    changes: dict[str, Any] = {"compression": options.compression, "colocated": options.colocated}
    if options.bucket_cap is not None:
        changes["bucket_cap_bytes"] = _cap("--bucket-cap", options.bucket_cap)
    if options.first_bucket_cap is not None:
        changes["first_bucket_bytes"] = _cap("--first-bucket-cap", options.first_bucket_cap)
    if options.servers is not None:
        if options.colocated:
            raise InputError("--servers and --colocated exclude each other: colocated servers run on every node")
        changes["servers"] = options.servers
    return method_named(options.method, **changes)


def _cap(flag: str, text: str) -> float:
    size = _parsed(flag, parse_bytes, text)
    if size == 0:
        raise InputError(f"{flag} {text!r} must be greater than zero, such as '25 MiB'")
    return size


def _fitted_link(options: JobOptions) -> FittedLink | None:
    if options.network is None:
        return None
    if options.bandwidth is not None:
        raise InputError("--bandwidth and --network both give the bandwidth: leave one of them out")
    return load_fitted_link(options.network)


def _cluster(options: JobOptions, network_needed: bool, fitted: FittedLink | None) -> Cluster | None:
    gpus, per_node = options.gpus, options.gpus_per_node
    if gpus is None:
        return None
    if gpus % per_node:
        raise InputError(f"--gpus {gpus} is not a multiple of --gpus-per-node {per_node}: nodes must be full")
    return Cluster(
        nodes=gpus // per_node,
        inter=_network_link(options, fitted, needed=network_needed and gpus > per_node),
        accelerators_per_node=per_node,
        intra=_intra_link(options),
    )


def _network_link(options: JobOptions, fitted: FittedLink | None, *, needed: bool) -> Link:
    bandwidth, latency = math.inf, 0.0
    if fitted is not None:
        bandwidth, latency = fitted.bandwidth, fitted.latency_s
    elif options.bandwidth is not None:
        bandwidth = _parsed("--bandwidth", parse_bandwidth, options.bandwidth)
    elif needed:
        raise InputError("the network's bandwidth is missing: give --bandwidth '10 Gbps', or --network FIT.json")
    if options.latency is not None:
        latency = _parsed("--latency", parse_duration, options.latency)
    if not 0 < options.utilization <= 1:
        raise InputError(f"--utilization {options.utilization} must be greater than 0 and at most 1")
    return Link(bandwidth, latency, options.utilization)


def _intra_link(options: JobOptions) -> Link:
    if options.intra_bandwidth is None and options.intra_latency is None:
        return FREE_LINK
    bandwidth, latency = math.inf, 0.0
    if options.intra_bandwidth is not None:
        bandwidth = _parsed("--intra-bandwidth", parse_bandwidth, options.intra_bandwidth)
    if options.intra_latency is not None:
        latency = _parsed("--intra-latency", parse_duration, options.intra_latency)
    return Link(bandwidth, latency)


def _parsed(flag: str, parse: Callable[[str], float], text: str) -> float:
    try:
        return parse(text)
    except InputError as error:
        raise InputError(f"{flag}: {error}") from None


def _assumptions(job: Job, options: JobOptions, network_doubts: str | None) -> list[str]:
    """What the answer takes for granted, one phrase each."""
    workload, cluster, method = job.workload, job.cluster, job.method
    assumed = []
    if workload.timing == "measured":
        assumed.append(f"compute times measured ({workload.source})")
    else:
        assumed.append(f"compute times {workload.timing}, not measured per layer ({workload.source})")
    if options.batch is not None:
        assumed.append("compute time in proportion to the batch")
    if cluster is not None and cluster.nodes > 1:
        if cluster.inter.latency_s == 0:
            assumed.append("messages have no latency")
        if network_doubts is not None:
            assumed.append(f"the fitted network is in doubt ({network_doubts})")
        if cluster.inter.utilization == 1:
            assumed.append("the transport reaches the whole bandwidth")
        if cluster.accelerators_per_node > 1 and method.architecture == "all-reduce":
            assumed.append(
                f"all-reduce is two-level: a ring inside each node, then a {method.collective} over the nodes' shared"
                " links (a flat ring of all P workers would send 2(P−1)/P·S through each link)"
            )
    if options.gpus_per_node > 1 and options.intra_bandwidth is None:
        assumed.append("accelerators of a node exchange for free (no --intra-bandwidth)")
    if method.compression > 1:
        assumed.append("compression and decompression take no time")
    if method.architecture == "parameter-server":
        if method.colocated:
            assumed.append("every node is a server too; adding vectors there is free")
        else:
            count = method.servers or "as many as nodes"
            assumed.append(
                f"servers are machines of their own ({count}); push and pull do not overlap;"
                " adding vectors there is free"
            )
    if method.architecture == "all-reduce" or options.gpus_per_node > 1:
        adding = "adding vectors" + (" inside a node" if method.architecture == "parameter-server" else "")
        if not workload.vector_add:
            assumed.append(f"{adding} takes no time (not measured for this workload)")
        elif options.no_vector_add:
            assumed.append(f"{adding} takes no time (--no-vector-add)")
        else:
            assumed.append(f"{adding} takes its measured time")
    if method.schedule == "priority":
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


def _without_effect(job: Job, options: JobOptions) -> list[str]:
    """Options that were given and change nothing."""
    schedule, architecture = job.method.schedule, job.method.architecture
    reason = f"the method {options.method}"
    idle: list[tuple[str, object, str]] = []
    if schedule != "ddp":
        idle += [
            ("--bucket-cap", options.bucket_cap, reason),
            ("--first-bucket-cap", options.first_bucket_cap, reason),
        ]
    if architecture != "parameter-server":
        idle += [("--servers", options.servers, reason), ("--colocated", options.colocated or None, reason)]
    if options.gpus_per_node == 1:
        reason = "one accelerator per node"
        idle += [
            ("--intra-bandwidth", options.intra_bandwidth, reason),
            ("--intra-latency", options.intra_latency, reason),
        ]
    return [f"{flag} changes nothing with {reason}" for flag, value, reason in idle if value is not None]
