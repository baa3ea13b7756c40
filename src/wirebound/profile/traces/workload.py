"""From traced steps to a profile: what all importers of traces share."""

from collections.abc import Sequence
from dataclasses import dataclass

from wirebound.profile.schema import CollectiveTiming, Profile, TensorProfile
from wirebound.profile.spread import interquartile_range, median
from wirebound.profile.traces.summary import Collective


@dataclass(frozen=True, slots=True)
class TracedMessage:
    """One message of a traced step, seconds: ready since backward began, then `duration_s` on the wire."""

    ready_s: float
    duration_s: float


@dataclass(frozen=True, slots=True)
class TracedWorkload:
    """A profile from a trace, and the step that it came from: its messages and how long it really took, in seconds."""

    profile: Profile
    messages: tuple[TracedMessage, ...]
    iteration_s: float


def tensor_profiles(
    names: Sequence[str], sizes: Sequence[int], ready_s: Sequence[Sequence[float]]
) -> tuple[TensorProfile, ...]:
    """Return tensors from their ready times, one sequence per step, all in the order in which they become ready.

    Gaps are between the medians of ready times. Registration is taken for the reverse of that order.
    """
    middle = [median(column) for column in zip(*ready_s, strict=True)]
    middle = [max(middle[: index + 1]) for index in range(len(middle))]
    backward = [step[-1] for step in ready_s]
    tensors = []
    for index, (name, size) in enumerate(zip(names, sizes, strict=True)):
        gaps = [step[index] - (step[index - 1] if index else 0.0) for step in ready_s]
        shares = [
            min(1.0, step[index] / last) if last > 0 else 0.0 for step, last in zip(ready_s, backward, strict=True)
        ]
        tensors.append(
            TensorProfile(
                name=name,
                size=size,
                registration=len(names) - 1 - index,
                gap_s=round(middle[index] - (middle[index - 1] if index else 0.0), 9),
                gap_spread_s=round(interquartile_range(gaps), 9) if len(gaps) > 1 else None,
                ready_spread=round(interquartile_range(shares), 6) if len(gaps) > 1 else None,
                ready_samples=tuple(round(share, 6) for share in shares),
            )
        )
    return tuple(tensors)


def collective_timings(
    collectives: Sequence[Collective], world_size: int | None, backend: str | None
) -> tuple[CollectiveTiming, ...]:
    """Return the times of each collective at each size, without waiting where that is known.

    Where there are all-reduces, only these: `wirebound fit` resolves them into a link, under the name ring-allreduce.
    Those without a size, a time or a number of ranks are left out.
    """
    reduces = [collective for collective in collectives if collective.kind == "all_reduce"]
    groups: dict[tuple[str, int, int], list[float]] = {}
    for collective in reduces or collectives:
        time_us = collective.duration_us if collective.transfer_us is None else collective.transfer_us
        ranks = collective.ranks or world_size
        if not collective.size or not time_us or not ranks or collective.kind == "unknown":
            continue
        name = "ring-allreduce" if collective.kind == "all_reduce" else collective.kind.replace("_", "-")
        groups.setdefault((name, ranks, collective.size), []).append(round(time_us / 1e6, 9))
    return tuple(
        CollectiveTiming(
            collective=name,
            ranks=ranks,
            size=size,
            median_s=median(times),
            spread_s=round(interquartile_range(times), 9) if len(times) > 1 else None,
            times_s=tuple(times),
            backend=backend,
        )
        for (name, ranks, size), times in sorted(groups.items())
        if min(times) > 0
    )


def common_dtype(collectives: Sequence[Collective]) -> tuple[str, list[str]]:
    """Return the type that most bytes have, fp32 where none is told, and a warning where there are others."""
    sizes: dict[str, int] = {}
    for collective in collectives:
        if collective.dtype is not None:
            sizes[collective.dtype] = sizes.get(collective.dtype, 0) + (collective.size or 0)
    if not sizes:
        return "fp32", ["the type of the gradients is not told: taken for fp32"]
    most = max(sizes, key=lambda name: sizes[name])
    others = sorted(set(sizes) - {most})
    return most, [f"gradients are {most} and {', '.join(others)}: taken for {most}"] if others else []


def batch_warning(batch_size: int | None) -> list[str]:
    """Return the warning of a profile whose batch nobody told."""
    if batch_size is not None:
        return []
    return ["the trace does not tell its batch: 1 stands for it, so samples are batches; give --batch to the import"]
