"""From a PyTorch trace to a profile: gradient messages, their ready times, and the compute around them."""

from collections.abc import Sequence

from wirebound.errors import InputError
from wirebound.profile.schema import Profile
from wirebound.profile.spread import median
from wirebound.profile.traces.kineto import KinetoTrace
from wirebound.profile.traces.steps import TracedStep, median_steps, traced_steps
from wirebound.profile.traces.summary import Collective, TraceSummary
from wirebound.profile.traces.workload import (
    TracedMessage,
    TracedWorkload,
    batch_warning,
    collective_timings,
    common_dtype,
    tensor_profiles,
)


def kineto_profile(trace: KinetoTrace, summary: TraceSummary, *, batch_size: int | None = None) -> TracedWorkload:
    """Return the profile of a trace; `summary` is what was told of it (with several ranks: without the waiting).

    Each gradient all-reduce (a bucket of DistributedDataParallel) is one tensor, for traces do not name the tensors in
    a bucket. Times are medians over the steps with the most common sizes; `optimizer_s` has all that follows the last
    gradient but the waiting for communication. How steps are divided is described in `steps`.
    Raises `InputError` with the reason when the trace does not tell them.
    """
    steps = traced_steps(trace)
    if not steps:
        raise _undivided(trace)
    chosen = median_steps(steps)
    messages = chosen[0].messages
    sizes = [message.size for message in messages]
    known = [size for size in sizes if size]
    if len(known) < len(sizes):
        remedy = _cut_off(trace) or "record with PyTorch 2.3 or newer, on gloo with record_shapes=True"
        raise InputError(
            f"{trace.path}: no workload can be made: {len(sizes) - len(known)} of {len(sizes)} all-reduces in a step do"
            f" not tell their size: {remedy}"
        )
    ready_s = [[moment / 1e6 for moment in step.ready_us] for step in chosen]
    names = [f"bucket {index}" for index in range(len(known))]
    dtype, warnings = common_dtype(messages)
    warnings += _remarks(steps, chosen, trace, summary)
    transfers = _by_start(summary.collectives)
    profile = Profile(
        name=_name(trace),
        source="wirebound import: a trace of the PyTorch profiler",
        machine={"device": trace.device, "backend": trace.backend, "rank": trace.rank, "world_size": trace.world_size},
        steps=len(chosen),
        batch_size=batch_size or 1,
        gradient_dtype=dtype,
        forward_s=round(median([step.forward_us for step in chosen]) / 1e6, 9),
        optimizer_s=round(median([step.rest_us for step in chosen]) / 1e6, 9),
        tensors=tensor_profiles(names, known, ready_s),
        backward_samples_s=tuple(round(step[-1], 9) for step in ready_s),
        collectives=collective_timings(summary.collectives, trace.world_size, trace.backend),
        warnings=(*summary.warnings, *warnings, *batch_warning(batch_size)),
    )
    traced = [
        TracedMessage(
            ready_s=median([step[index] for step in ready_s]),
            duration_s=median([_duration_us(transfers, step.messages[index]) for step in chosen]) / 1e6,
        )
        for index in range(len(known))
    ]
    return TracedWorkload(profile, tuple(traced), median([step.duration_us for step in chosen]) / 1e6)


def _by_start(collectives: Sequence[Collective]) -> dict[tuple[float, object], Collective]:
    return {(collective.start_us, collective.stream): collective for collective in collectives}


def _duration_us(transfers: dict[tuple[float, object], Collective], message: Collective) -> float:
    """A message's time on the wire, without waiting where the other ranks' traces told it."""
    found = transfers.get((message.start_us, message.stream), message)
    return (found.duration_us or 0.0) if found.transfer_us is None else found.transfer_us


def _name(trace: KinetoTrace) -> str:
    """A name without the file's, for that often has a host's name in it."""
    rank = "" if trace.rank is None else f" of rank {trace.rank}"
    world = "" if trace.rank is None or trace.world_size is None else f" of {trace.world_size}"
    return f"trace{rank}{world}" + (f" on {trace.device}" if trace.device and trace.on_device else "")


def _remarks(
    steps: Sequence[TracedStep], chosen: Sequence[TracedStep], trace: KinetoTrace, summary: TraceSummary
) -> list[str]:
    found = []
    if len(chosen) < len(steps):
        found.append(f"{len(steps) - len(chosen)} step(s) with other message sizes than most were left out")
    if len(chosen) < summary.steps:
        found.append(
            f"{len(chosen)} of {summary.steps} steps have forward, backward and gradient all-reduces and were used"
        )
    queued = sum(step.queued for step in chosen)
    if queued:
        found.append(f"{queued} message(s) queued behind another: ready when the host asked for them, or earlier")
    kinds = {c.kind for c in summary.collectives} & {"reduce_scatter", "all_gather", "all_to_all", "send_recv"}
    if kinds:
        found.append(f"{', '.join(sorted(kinds))} are no gradient all-reduces and are not in the workload")
    if trace.world_size != 1 and all(c.transfer_us is None for c in summary.collectives):
        found.append(
            "times of collectives include waiting for the last rank: import the traces of all ranks together to tell"
            " the two apart"
        )
    return found


def _cut_off(trace: KinetoTrace) -> str:
    """That the file is cut off, for then what was recorded is not to blame; empty for a whole file."""
    if trace.cut_off_at is None:
        return ""
    return f"the file is cut off at byte {trace.cut_off_at}: copy it again, or export the trace again"


def _undivided(trace: KinetoTrace) -> InputError:
    reasons = (
        (trace.cut_off_at is not None, _cut_off(trace)),
        (not trace.step_marks, "it has no ProfilerStep marks: call profiler.step() after each training step"),
        (
            not trace.backward,
            "it has no operations of autograd: record ProfilerActivity.CPU too, in whole steps",
        ),
        (
            not any(collective.kind == "all_reduce" for collective in trace.collectives),
            "it has no gradient all-reduces: record a run of several ranks under DistributedDataParallel",
        ),
        (
            all(collective.duration_us is None for collective in trace.collectives),
            "its collectives were only seen being launched: record ProfilerActivity.CUDA too",
        ),
        (True, "no marked step has a backward pass with gradient all-reduces: is only part of a step recorded?"),
    )
    return InputError(f"{trace.path}: no workload can be made: {next(reason for holds, reason in reasons if holds)}")
