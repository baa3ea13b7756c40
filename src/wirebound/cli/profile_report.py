"""What `wirebound profile` shows while it measures, and what it says when it has measured."""

import sys

import typer

from wirebound.cli.output import note, printable
from wirebound.profile.observations import HookOverhead
from wirebound.profile.schema import Profile
from wirebound.units import format_bandwidth, format_bytes, format_duration

_MEMORY = {
    "cuda-allocated": "allocated on the GPU",
    "process-resident": "resident, the whole process",
}


class ProfileProgress:
    """A bar where a terminal is there, else one line for each thing that begins; on standard error.

    Only the first of several ranks shows anything.
    """

    def __init__(self, shown: bool = True) -> None:
        self._said: set[str] = set()
        self._shown = shown
        bar = shown and sys.stderr.isatty()
        self._bar = typer.progressbar(length=100, file=sys.stderr, label="profile") if bar else None

    def __enter__(self) -> "ProfileProgress":
        if self._bar is not None:
            self._bar.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.render_finish()

    def show(self, share: float, what: str) -> None:
        """Show the share done, between 0 and 1, and what is going on."""
        if self._bar is not None:
            self._bar.label = what
            self._bar.update(int(100 * share) - self._bar.pos)
        elif self._shown and what not in self._said:
            self._said.add(what)
            note(what)


def profile_summary(profile: Profile) -> str:
    """Return what was measured, a line for each thing."""
    size = sum(tensor.size for tensor in profile.tensors)
    backward_s = sum(tensor.gap_s for tensor in profile.tensors)
    batch = "" if profile.batch_size is None else f", batch {profile.batch_size}"
    lines = [
        f"{printable(profile.name)}: {len(profile.tensors)} gradients, {format_bytes(size)}{batch}",
        f"forward {format_duration(profile.forward_s)}, backward {format_duration(backward_s)},"
        f" optimizer {format_duration(profile.optimizer_s)} ({_steps(profile.steps)}, {profile.clock})",
    ]
    if profile.loading_s is not None:
        lines.append(f"loading a batch {format_duration(profile.loading_s)}, apart from the step")
    if profile.peak_memory is not None:
        kind = _MEMORY[profile.peak_memory.kind]
        lines.append(f"peak memory {format_bytes(profile.peak_memory.size)} ({kind})")
    if profile.hook_overhead is not None:
        lines.append(f"the hooks' own cost: step time {_overhead(profile.hook_overhead)}")
    lines += [*_batch_lines(profile), *_rank_lines(profile)]
    lines += [
        f"{printable(timing.collective)}, {timing.ranks} ranks, {format_bytes(timing.size)}:"
        f" {format_duration(timing.median_s)}"
        for timing in (profile.collectives[:1] + profile.collectives[-1:] if profile.collectives else ())
    ]
    lines += _counter_lines(profile)
    if profile.disturbed:
        lines.append("this run was disturbed: see its warnings, and measure again on a quiet machine")
    return "\n".join(lines)


def _steps(count: int) -> str:
    return "one step" if count == 1 else f"medians of {count} steps"


def _overhead(overhead: HookOverhead) -> str:
    if overhead.pairs == 1:  # one value bounds nothing
        return f"×{overhead.ratio:.3f} (one pair)"
    return (
        f"×{overhead.ratio:.3f} ({overhead.confidence:.0%} interval {overhead.ratio_low:.3f} to"
        f" {overhead.ratio_high:.3f}, {overhead.pairs} pairs)"
    )


def _batch_lines(profile: Profile) -> list[str]:
    """One line each for forward and backward over the batch, where batches were measured."""
    if len(profile.batch_samples) < 2:
        return []
    from wirebound.fit.batches import fit_batch_scaling

    scaling = fit_batch_scaling(profile.batch_samples)
    return [
        f"{name} over the batch: {format_duration(fit.fixed_s)} + {format_duration(fit.per_sample_s)} a sample"
        f" ({fit.verdict})"
        for name, fit in (("forward", scaling.forward), ("backward", scaling.backward))
    ]


def _rank_lines(profile: Profile) -> list[str]:
    if len(profile.ranks) < 2:
        return []
    fastest = min(profile.ranks, key=lambda timing: timing.step_s)
    slowest = max(profile.ranks, key=lambda timing: timing.step_s)
    return [
        f"{len(profile.ranks)} ranks: steps from {format_duration(fastest.step_s)} (rank {fastest.rank})"
        f" to {format_duration(slowest.step_s)} (rank {slowest.rank})"
    ]


def _counter_lines(profile: Profile) -> list[str]:
    """What link and processor did while there was communication, a line per rank, and what reading that cost."""
    from wirebound.profile.utilization import usage_of_communication

    lines = []
    for series in profile.counters:
        usage = usage_of_communication(series)
        if usage is None:
            continue
        sent = "bytes not available here" if usage.sent_Bps is None else format_bandwidth(usage.sent_Bps)
        link = "" if usage.link is None else f" ({usage.link:.0%} of the link)"
        waiting = "run queue not available here" if usage.waiting is None else f"waited {usage.waiting:.0%} for a core"
        lines.append(
            f"rank {series.rank}, {series.phase}, while communicating: {sent}{link}, processor {usage.cpu:.0%} of a"
            f" core, {waiting}"
        )
        if series.overhead is not None and series.rank == 0:
            lines.append(f"the counters' own cost: time of {series.phase} {_overhead(series.overhead)}")
    return lines
