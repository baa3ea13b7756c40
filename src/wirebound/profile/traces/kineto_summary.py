"""The communication of one PyTorch trace: sums, and what to doubt about them."""

import bisect

from wirebound.profile.traces.intervals import Interval, overlap, total, union
from wirebound.profile.traces.kineto import KinetoTrace
from wirebound.profile.traces.steps import whole_steps
from wirebound.profile.traces.summary import TraceSummary

#: A share of communication or computation outside the marked steps that is worth a warning.
_OUTSIDE = 0.05


def summarize(trace: KinetoTrace) -> TraceSummary:
    """Return the sums of a trace: unions of intervals over its device activity, without one over the host's.

    Communication are the collectives' kernels (without any: gloo's annotations), computation all other kernels
    (without any device activity: the host's operations). Copies are neither.
    """
    transfers = union((c.start_us, c.end_us) for c in trace.collectives if c.duration_us is not None)
    computing = (trace.kernels if trace.on_device else trace.operations).union()
    return TraceSummary(
        format="kineto",
        rank=trace.rank,
        world_size=trace.world_size,
        steps=len(whole_steps(trace)),
        communication_us=total(transfers),
        computation_us=total(computing),
        overlap_us=overlap(transfers, computing),
        collectives=tuple(trace.collectives),
        warnings=tuple(trace.warnings + _doubts(trace, transfers, computing)),
    )


def _doubts(trace: KinetoTrace, transfers: list[Interval], computing: list[Interval]) -> list[str]:
    found = []
    if trace.rank is None or trace.world_size is None:
        missing = " and ".join(
            name for name, value in (("rank", trace.rank), ("world size", trace.world_size)) if value is None
        )
        found.append(f"the trace does not tell its {missing} (distributedInfo is absent or partial)")
    if not trace.on_device:
        found.append("no device activity: computation is the time in host operations")
    if not trace.collectives:
        found.append("no collectives: was this a run of one process, or were they not recorded?")
    whole, cut = trace.cut_off_at is None, "what the device did may follow where the file is cut off"
    launches_only = sum(collective.duration_us is None for collective in trace.collectives)
    if launches_only:
        found.append(
            f"{launches_only} collective(s) of nccl were only seen being launched: their time is unknown and not in"
            f" communication_us; {'record ProfilerActivity.CUDA too' if whole else cut}"
        )
    unsized = sum(collective.size is None for collective in trace.collectives)
    if unsized:
        found.append(
            f"{unsized} of {len(trace.collectives)} collectives do not tell their size:"
            f" {'PyTorch 2.3 and newer record it' if whole else cut}"
        )
    found += _partial_steps(trace, transfers, computing)
    return found


def _partial_steps(trace: KinetoTrace, transfers: list[Interval], computing: list[Interval]) -> list[str]:
    steps = whole_steps(trace)
    if not steps:
        return [
            "no ProfilerStep marks: the sums may not be of whole training steps; call profiler.step() after each step"
        ]
    found = []
    if trace.on_device:  # what a step launched may end after its mark, but not before it
        launched = list(zip(trace.started, trace.ended, trace.launched, strict=True))
        busy = sum(end - start for start, end, _ in launched)
        firsts = [first for _, first, _ in steps]
        outside = 0.0
        for start, end, launch in launched:
            index = bisect.bisect_right(firsts, launch) - 1
            if index < 0 or launch >= steps[index][2]:
                outside += end - start
    else:
        marked = union((first, last) for _, first, last in steps)
        busy = total(transfers) + total(computing)
        outside = busy - overlap(transfers, marked) - overlap(computing, marked)
    if busy > 0 and outside > _OUTSIDE * busy:
        found.append(
            f"{outside / busy:.0%} of the activity lies outside the {len(steps)} marked step(s): the sums are not of"
            " whole training steps"
        )
    counts = [
        sum(first <= (c.start_us if c.launch_us is None else c.launch_us) < last for c in trace.collectives)
        for _, first, last in steps
    ]
    if len(set(counts)) > 1:
        found.append(f"the steps have {min(counts)} to {max(counts)} collectives: some may be only partly recorded")
    return found
