"""What the options of a job mean: a workload, a cluster and a method, and what of them is uncertain."""

import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wirebound.cli.job_assumptions import assumptions_of, without_effect
from wirebound.cli.job_batch import PROPORTIONAL, with_measured_batches
from wirebound.cli.job_compression import method_changes
from wirebound.cli.job_options import JobOptions
from wirebound.cli.naming import naming, parsed
from wirebound.errors import InputError
from wirebound.fit.document import FittedLink, load_fitted_link
from wirebound.model import Cluster, Link, Method, Workload, method_named
from wirebound.model.cluster import FREE_LINK
from wirebound.model.library import builtin_names, builtin_workload
from wirebound.simulate.all_reduces import candidates
from wirebound.simulate.job import TrainingJob
from wirebound.simulate.need import BATCH_LIMIT
from wirebound.simulate.uncertainty import (
    Source,
    uncertain_bandwidth,
    uncertain_compute,
    uncertain_latency,
    uncertain_network,
)
from wirebound.units import RATIO_BOUNDS, SHARE_BOUNDS, bounded_bandwidth, bounded_bytes, bounded_duration

if TYPE_CHECKING:
    from wirebound.profile.schema import Profile

#: No whole number on the command line may exceed this.
_LARGEST = BATCH_LIMIT


@dataclass(slots=True)
class Job:
    """What the options mean. `cluster` is None where no number of accelerators was given.

    `sources` are the parameters that are uncertain (see `wirebound.simulate.uncertainty`); the job itself has their
    estimates. `origins` says in words where each one's uncertainty comes from.
    """

    workload: Workload
    cluster: Cluster | None
    method: Method
    accumulation: int
    include_vector_add: bool
    assumptions: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    sources: dict[str, Source] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)

    @property
    def training(self) -> TrainingJob:
        """The job that can be simulated; raises `InputError` where no number of accelerators was given."""
        if self.cluster is None:
            raise InputError("the number of accelerators is missing: give --gpus 64")
        return TrainingJob(self.workload, self.cluster, self.method, self.include_vector_add, self.accumulation)


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
    workload, batch_rule, profile = _workload(options, batch_varies or options.batch is not None)
    compute_factors = () if profile is None else _step_factors(profile.backward_samples_s)
    method = _method(options)
    fitted = _fitted_link(options)
    cluster = _cluster(options, network_needed, fitted)
    job = Job(workload, cluster, method, options.accumulation, not options.no_vector_add)
    doubts = None if fitted is None else fitted.doubts
    job.assumptions = assumptions_of(workload, cluster, method, options, doubts, batch_rule)
    if profile is not None:
        job.assumptions += [f"the profile warns: {warning}" for warning in profile.warnings]
    job.notes = without_effect(method, options)
    if compute_factors:
        job.sources["compute"] = uncertain_compute(compute_factors)
        job.origins["compute"] = f"compute from {len(compute_factors)} measured steps, the same for all workers"
    if cluster is not None and cluster.nodes > 1:
        _add_network_sources(job, options, fitted)
    return job


def _add_network_sources(job: Job, options: JobOptions, fitted: FittedLink | None) -> None:
    """Add what is uncertain about the link between nodes: a fit's, then ranges, which replace it."""
    if fitted is not None and fitted.plausible:
        job.sources["network"] = uncertain_network(fitted.plausible)
        job.origins["network"] = f"network from {fitted.plausible_from}"
    bandwidth = _range("--bandwidth", bounded_bandwidth, options.bandwidth)
    if bandwidth is not None:
        job.sources["bandwidth"] = uncertain_bandwidth(*bandwidth)
        job.origins["bandwidth"] = f"bandwidth anywhere in {options.bandwidth}"
    latency = None if options.latency is None else _range("--latency", bounded_duration, options.latency)
    if options.latency is not None and (latency is not None or "network" in job.sources):
        # A latency that was given replaces the fitted one, certain or not.
        low, high = latency or (bounded_duration(options.latency),) * 2
        job.sources["latency"] = uncertain_latency(low, high)
        if latency is not None:
            job.origins["latency"] = f"latency anywhere in {options.latency}"


def _workload(options: JobOptions, batch_varies: bool) -> tuple[Workload, str | None, "Profile | None"]:
    """The workload, how its compute time follows the batch where that is asked, and the profile that it comes from."""
    profile, batch_rule = None, PROPORTIONAL if options.batch is not None else None
    name = options.workload
    separators = tuple(filter(None, (os.sep, os.altsep)))
    is_path = name.lower().endswith(".json") or any(mark in name for mark in separators) or os.path.exists(name)
    if name not in builtin_names() and is_path:
        from wirebound.profile.schema import load_profile

        profile = load_profile(Path(name))
        with naming(name):
            workload = profile.workload()
        if batch_varies and len(profile.batch_samples) > 1:
            workload, batch_rule = with_measured_batches(workload, profile, options.batch)
    else:
        workload = builtin_workload(name)
    if options.batch is not None:
        workload = workload.with_batch(options.batch)
    if options.gradient_dtype is not None:
        workload = workload.with_gradient_dtype(options.gradient_dtype)
    return workload, batch_rule, profile


def _step_factors(backward_samples_s: tuple[float, ...]) -> tuple[float, ...]:
    """Each step's backward time over their median; forward and optimizer are taken to vary with it."""
    if len(backward_samples_s) < 2 or min(backward_samples_s) <= 0:
        return ()
    from statistics import median

    middle = median(backward_samples_s)
    return tuple(sample / middle for sample in backward_samples_s)


def _method(options: JobOptions) -> Method:
    if not RATIO_BOUNDS.has(options.compression):
        raise InputError(f"--compression {options.compression} must be a ratio {RATIO_BOUNDS.shown}")
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
        with naming("--collective"):
            candidates(options.collective)
        changes["collective"] = options.collective
    changes |= method_changes(options)
    return method_named(options.method, **changes)


def _cap(flag: str, text: str) -> float:
    size = parsed(flag, bounded_bytes, text)
    if size == 0:
        raise InputError(f"{flag} {text!r} must be greater than zero, such as '25 MiB'")
    return size


def _fitted_link(options: JobOptions) -> FittedLink | None:
    if options.network is None:
        return None
    if options.bandwidth is not None:
        raise InputError("--bandwidth and --network both give the bandwidth: leave one of them out")
    with naming("--network"):
        return load_fitted_link(options.network)


def _cluster(options: JobOptions, network_needed: bool, fitted: FittedLink | None) -> Cluster | None:
    gpus, per_node = options.gpus, options.gpus_per_node
    if gpus is not None and gpus % per_node:
        raise InputError(f"--gpus {gpus} is not a multiple of --gpus-per-node {per_node}: nodes must be full")
    if per_node % options.nics_per_node:
        raise InputError(
            f"--nics-per-node {options.nics_per_node} does not divide --gpus-per-node {per_node}: each card serves as"
            " many GPUs"
        )
    # Also read where no cluster needs them, so that a wrong value is never passed over.
    inter = _network_link(options, fitted, needed=network_needed and gpus is not None and gpus > per_node)
    intra = _intra_link(options)
    return None if gpus is None else Cluster(gpus // per_node, inter, per_node, intra, options.nics_per_node)


def _network_link(options: JobOptions, fitted: FittedLink | None, *, needed: bool) -> Link:
    bandwidth, latency = math.inf, 0.0
    if fitted is not None:
        bandwidth, latency = fitted.bandwidth, fitted.latency_s
    elif options.bandwidth is not None:
        bandwidth = _middle("--bandwidth", bounded_bandwidth, options.bandwidth)
    elif needed:
        raise InputError("the network's bandwidth is missing: give --bandwidth '10 Gbps', or --network FIT.json")
    if options.latency is not None:
        latency = _middle("--latency", bounded_duration, options.latency)
    if not SHARE_BOUNDS.has(options.utilization):
        raise InputError(f"--utilization {options.utilization} must be {SHARE_BOUNDS.shown}")
    return Link(bandwidth, latency, options.utilization)


def _intra_link(options: JobOptions) -> Link:
    if options.intra_bandwidth is None and options.intra_latency is None:
        return FREE_LINK
    bandwidth, latency = math.inf, 0.0
    if options.intra_bandwidth is not None:
        bandwidth = parsed("--intra-bandwidth", bounded_bandwidth, options.intra_bandwidth)
    if options.intra_latency is not None:
        latency = parsed("--intra-latency", bounded_duration, options.intra_latency)
    return Link(bandwidth, latency)


def _range(flag: str, parse: Callable[[str], float], text: str | None) -> tuple[float, float] | None:
    """The two ends of a range such as ``8 Gbps..10 Gbps``; None for text that is no range."""
    if text is None or ".." not in text:
        return None
    ends = re.split(r"(?<!\.)\.\.(?!\.)", text)  # of three dots, one could belong to a number
    if len(ends) != 2 or not all(end.strip() for end in ends):
        raise InputError(f"{flag} {text!r} is not a range: write two values with two dots between, LOWEST..HIGHEST")
    low, high = (parsed(flag, parse, end) for end in ends)
    if low > high:
        raise InputError(f"{flag} {text!r}: the first value of a range must not exceed the second")
    return low, high


def _middle(flag: str, parse: Callable[[str], float], text: str) -> float:
    """One value, or the middle of a range."""
    ends = _range(flag, parse, text)
    return parsed(flag, parse, text) if ends is None else (ends[0] + ends[1]) / 2
