"""What the options of a job mean: a workload, a cluster and a method."""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wirebound.cli.job_assumptions import assumptions_of, without_effect
from wirebound.cli.job_compression import method_changes
from wirebound.cli.job_options import JobOptions
from wirebound.errors import InputError
from wirebound.fit.document import FittedLink, load_fitted_link
from wirebound.model import Cluster, Link, Method, Workload, method_named
from wirebound.model.cluster import FREE_LINK
from wirebound.model.library import builtin_names, builtin_workload
from wirebound.simulate.all_reduces import candidates
from wirebound.simulate.need import BATCH_LIMIT
from wirebound.units import parse_bandwidth, parse_bytes, parse_duration

if TYPE_CHECKING:
    from wirebound.fit.batches import BatchScaling

#: No whole number on the command line may exceed this.
_LARGEST = BATCH_LIMIT


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


def read_job(options: JobOptions, *, network_needed: bool = True, batch_varies: bool = False) -> Job:
    """Check the options and return the job; raises `InputError` that names the option at fault.

    With `network_needed` false, a cluster of several nodes may lack its bandwidth (it then costs nothing).
    `batch_varies` says that the workload will be asked for other batch sizes, as --batch does once.
    """
    for flag, value in (
        ("--gpus", options.gpus),
        ("--gpus-per-node", options.gpus_per_node),
        ("--nics-per-node", options.nics_per_node),
        ("--batch", options.batch),
        ("--accumulation", options.accumulation),
        ("--servers", options.servers),
    ):
        if value is not None and not 1 <= value <= _LARGEST:
            raise InputError(f"{flag} {value} must be between 1 and {_LARGEST:,}")
    workload, batch_rule, warnings = _workload(options, batch_varies or options.batch is not None)
    method = _method(options)
    fitted = _fitted_link(options)
    cluster = _cluster(options, network_needed, fitted)
    job = Job(workload, cluster, method, options.accumulation, not options.no_vector_add)
    doubts = None if fitted is None else fitted.doubts
    job.assumptions = assumptions_of(workload, cluster, method, options, doubts, batch_rule)
    job.assumptions += [f"the profile warns: {warning}" for warning in warnings]
    job.notes = without_effect(method, options)
    return job


def _workload(options: JobOptions, batch_varies: bool) -> tuple[Workload, str | None, tuple[str, ...]]:
    """The workload, how its compute time follows the batch where that varies, and the warnings of its profile."""
    batch_rule = "compute time in proportion to the batch" if options.batch is not None else None
    name = options.workload
    separators = tuple(filter(None, (os.sep, os.altsep)))
    is_path = name.lower().endswith(".json") or any(mark in name for mark in separators) or os.path.exists(name)
    if name not in builtin_names() and is_path:
        from wirebound.profile.schema import load_profile

        profile = load_profile(Path(name))
        workload, warnings = profile.workload(), profile.warnings
        if batch_varies and len(profile.batch_samples) > 1:
            from wirebound.fit.batches import fit_batch_scaling

            scaling = fit_batch_scaling(profile.batch_samples)
            workload, batch_rule = scaling.applied_to(workload), _batch_rule(scaling, options.batch)
    else:
        workload, warnings = builtin_workload(name), ()
    if options.batch is not None:
        workload = workload.with_batch(options.batch)
    if options.gradient_dtype is not None:
        workload = workload.with_gradient_dtype(options.gradient_dtype)
    return workload, batch_rule, warnings


def _batch_rule(scaling: "BatchScaling", batch: int | None) -> str:
    measured = scaling.backward.batches
    rule = f"compute time over the batch follows lines fitted to measured batches of {measured[0]} to {measured[-1]}"
    if batch is not None and not measured[0] <= batch <= measured[-1]:
        rule += f", and {batch} lies outside"
    return rule if scaling.doubts is None else f"{rule} (in doubt: {scaling.doubts})"


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
    if options.collective is not None:
        try:
            candidates(options.collective)
        except InputError as error:
            raise InputError(f"--collective: {error}") from None
        changes["collective"] = options.collective
    changes |= method_changes(options)
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
    if per_node % options.nics_per_node:
        raise InputError(
            f"--nics-per-node {options.nics_per_node} does not divide --gpus-per-node {per_node}: each card serves as"
            " many GPUs"
        )
    return Cluster(
        nodes=gpus // per_node,
        inter=_network_link(options, fitted, needed=network_needed and gpus > per_node),
        accelerators_per_node=per_node,
        intra=_intra_link(options),
        nics_per_node=options.nics_per_node,
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
