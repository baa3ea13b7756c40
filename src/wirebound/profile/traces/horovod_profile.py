"""From a Horovod timeline to a profile: when gradients were ready, without the forward and backward behind that.

A tensor's k-th all-reduce belongs to the k-th step. The timeline does not say when forward ends and backward begins:
all the time between the end of a step's last operation and the next step's first gradient counts as forward.
"""

import itertools
import statistics

from wirebound.errors import InputError
from wirebound.profile.schema import Profile
from wirebound.profile.spread import median
from wirebound.profile.traces.horovod import HorovodOperation, HorovodTimeline, messages
from wirebound.profile.traces.summary import TraceSummary
from wirebound.profile.traces.workload import (
    TracedMessage,
    TracedWorkload,
    batch_warning,
    collective_timings,
    common_dtype,
    tensor_profiles,
)


def horovod_steps(timeline: HorovodTimeline) -> list[list[HorovodOperation]]:
    """Return the gradient all-reduces step by step: of the tensors that were reduced as often as most."""
    by_tensor: dict[int | str, list[HorovodOperation]] = {}
    for operation in timeline.operations:
        if operation.kind == "all_reduce":
            by_tensor.setdefault(operation.tensor, []).append(operation)
    if not by_tensor:
        return []
    times = statistics.mode(len(own) for own in by_tensor.values())
    regular = [own for own in by_tensor.values() if len(own) == times]
    return [[own[step] for own in regular] for step in range(times)]


def horovod_profile(
    timeline: HorovodTimeline, summary: TraceSummary, *, batch_size: int | None = None
) -> TracedWorkload:
    """Return the profile of a timeline; raises `InputError` with the reason when it does not tell one."""
    steps = horovod_steps(timeline)
    if len(steps) < 2:
        raise InputError(
            f"{timeline.path}: no workload can be made: it has {len(steps)} whole step(s) of gradient all-reduces, but"
            " needs two, for the time between them is the compute: record more steps"
        )
    unsized = [o.tensor for o in steps[0] if not o.size]
    if unsized:
        name = timeline.names.get(unsized[0], str(unsized[0]))
        raise InputError(f"{timeline.path}: no workload can be made: tensor {name!r} does not tell its size")
    firsts = [min(o.ready_us for o in step) for step in steps]
    # Each step's tensors in the order that the medians over the steps give them.
    lag = {
        o.tensor: median([step[place].ready_us - first for step, first in zip(steps, firsts, strict=True)])
        for place, o in enumerate(steps[0])
    }
    ordered = [sorted(step, key=lambda o: lag[o.tensor]) for step in steps]
    ready_s = [
        [max(o.ready_us for o in step[: index + 1]) / 1e6 - first / 1e6 for index in range(len(step))]
        for step, first in zip(ordered, firsts, strict=True)
    ]
    periods = [(b - a) / 1e6 for a, b in itertools.pairwise(firsts)]
    if median(periods) <= 0:
        raise InputError(f"{timeline.path}: no workload can be made: its steps take no time")
    ends = [(max(o.done_us for o in step) - first) / 1e6 for step, first in zip(steps, firsts, strict=True)]
    forward_s = max(0.0, median([period - end for period, end in zip(periods, ends, strict=False)]))
    dtype, warnings = common_dtype(summary.collectives)
    left_out = len({o.tensor for o in timeline.operations if o.kind == "all_reduce"}) - len(steps[0])
    if left_out:
        warnings.append(f"{left_out} tensor(s) were not reduced once in every step and are not in the workload")
    warnings.append(
        "forward, optimizer and the start of backward are not told apart: all of it counts as forward; negotiation with"
        " the other ranks is not modelled"
    )
    profile = Profile(
        name="Horovod timeline",
        source="wirebound import: a Horovod timeline",
        machine={"world_size": timeline.ranks},
        steps=len(steps),
        batch_size=batch_size or 1,
        gradient_dtype=dtype,
        forward_s=round(forward_s, 9),
        tensors=tensor_profiles(
            [timeline.names.get(o.tensor, str(o.tensor)) for o in ordered[0]],
            [o.size or 0 for o in ordered[0]],
            ready_s,
        ),
        backward_samples_s=tuple(round(step[-1], 9) for step in ready_s),
        collectives=collective_timings(summary.collectives, timeline.ranks, None),
        warnings=(*summary.warnings, *warnings, *batch_warning(batch_size)),
    )
    # A middle step stands for all: which tensors are fused may change from step to step.
    middle = len(steps) // 2
    traced = [
        TracedMessage(
            ready_s=max(0.0, max(o.ready_us for o in group) - firsts[middle]) / 1e6,
            duration_s=(max(o.end_us for o in group) - min(o.start_us for o in group)) / 1e6,
        )
        for group in messages(steps[middle])
    ]
    return TracedWorkload(profile, tuple(traced), median(periods))
