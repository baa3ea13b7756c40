"""What an uncertain parameter does to a step: draw it many times, simulate each, and give the interval.

Standard library only. An uncertain parameter is a `Source`: it draws so many changes of a job at once, which lets it
cover its range evenly (one draw from each of n equally likely parts, McKay et al. 1979), so that few samples do. Each
source has a generator of its own, seeded with the seed and the source's name: jobs that share a parameter share its
draws, and can be compared sample by sample.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from wirebound.errors import InputError
from wirebound.simulate.job import TrainingJob

#: One draw of a parameter: what it changes in a job.
Change = Callable[[TrainingJob], TrainingJob]
#: Draws so many changes with the generator.
Source = Callable[[random.Random, int], list[Change]]

#: Drawn where no number is given.
DEFAULT_SAMPLES = 200

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class StepDistribution:
    """One step drawn many times: seconds and scaling factor of each sample, in the order of the draws."""

    iteration_s: tuple[float, ...]
    scaling_factor: tuple[float, ...]


def distribution_of_step(
    job: TrainingJob, sources: Mapping[str, Source], *, samples: int = DEFAULT_SAMPLES, seed: int = 0
) -> StepDistribution:
    """Simulate the step of `job` with its uncertain parameters drawn `samples` times.

    The same arguments give the same distribution. It covers what the sources say, not the error of the model itself.
    Raises `InputError` for fewer than two samples.
    """
    steps = [drawn.step() for drawn in drawn_jobs(job, sources, samples=samples, seed=seed)]
    return StepDistribution(tuple(step.iteration_s for step in steps), tuple(step.scaling_factor for step in steps))


def drawn_jobs(
    job: TrainingJob, sources: Mapping[str, Source], *, samples: int = DEFAULT_SAMPLES, seed: int = 0
) -> Iterator[TrainingJob]:
    """Yield `job` with its parameters drawn `samples` times; raises `InputError` for fewer than two samples."""
    if samples < 2:
        raise InputError(f"samples = {samples} must be at least 2 for an interval")
    drawn = [source(random.Random(f"{seed} {name}"), samples) for name, source in sources.items()]
    for changes in zip(*drawn, strict=True):
        changed = job
        for change in changes:
            changed = change(changed)
        yield changed


def quantiles(values: Sequence[float], coverage: float = 0.95) -> tuple[float, float, float]:
    """Return (low, median, high): the central interval that holds a share `coverage` of the values, and their median.

    Linear between order statistics, as `numpy.percentile` is by default. Raises `InputError` without any value.
    """
    if not values:
        raise InputError("no values to take quantiles of")
    ordered = sorted(values)
    tail = (1 - coverage) / 2
    low, middle, high = (_at(ordered, share) for share in (tail, 0.5, 1 - tail))
    return low, middle, high


def _at(ordered: Sequence[float], share: float) -> float:
    position = share * (len(ordered) - 1)
    below = min(int(position), len(ordered) - 1)
    above = min(below + 1, len(ordered) - 1)
    if ordered[below] == ordered[above]:  # also where both are infinite
        return ordered[below]
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def uncertain_bandwidth(low: float, high: float) -> Source:
    """The bandwidth between nodes is anywhere from `low` to `high` bytes per second, each value equally likely."""
    return lambda generator, count: [
        _inter_change(bandwidth=low + share * (high - low)) for share in even_shares(generator, count)
    ]


def uncertain_latency(low: float, high: float) -> Source:
    """The latency between nodes is anywhere from `low` to `high` seconds, each value equally likely."""
    return lambda generator, count: [
        _inter_change(latency_s=low + share * (high - low)) for share in even_shares(generator, count)
    ]


def uncertain_network(links: Sequence[tuple[float, float]]) -> Source:
    """Bandwidth (bytes per second) and latency (s) between nodes are one of these pairs, each equally likely."""
    return lambda generator, count: [
        _inter_change(bandwidth=bandwidth, latency_s=latency_s)
        for bandwidth, latency_s in even_choices(links, generator, count)
    ]


def uncertain_compute(factors: Sequence[float]) -> Source:
    """All compute times are multiplied by one of these factors, each equally likely."""
    return lambda generator, count: [_compute_change(factor) for factor in even_choices(factors, generator, count)]


def scaled_bandwidth(factor: float) -> Source:
    """The bandwidth between nodes is multiplied by `factor`: after another source, for what is drawn there."""

    def change(job: TrainingJob) -> TrainingJob:
        return job.with_inter(bandwidth=factor * job.cluster.inter.bandwidth)

    return lambda generator, count: [change] * count


def _inter_change(**fields: float) -> Change:
    return lambda job: job.with_inter(**fields)


def _compute_change(factor: float) -> Change:
    return lambda job: job.with_compute_factor(factor)


def even_shares(generator: random.Random, count: int) -> list[float]:
    """Return `count` numbers between 0 and 1, one from each of `count` parts of equal width, in random order."""
    shares = [(index + generator.random()) / count for index in range(count)]
    generator.shuffle(shares)
    return shares


def even_choices(values: Sequence[Value], generator: random.Random, count: int) -> list[Value]:
    """Return `count` of the values in random order, none of them more than once more often than another."""
    chosen: list[Value] = []
    while len(chosen) < count:
        chosen += generator.sample(values, min(len(values), count - len(chosen)))
    return chosen


def within_interval(
    estimate: float, interval95: tuple[float, float], generator: random.Random, count: int
) -> list[float]:
    """Return `count` values that lie in the interval with 95 %: half a normal on each side of the estimate, from 0 up.

    The interval need not be symmetric: its two half-widths are 1.96 standard deviations of their side.
    """
    from statistics import NormalDist  # costs every command 10 ms where it is imported at the top

    low, high = interval95
    inverse = NormalDist().inv_cdf
    unit = inverse(0.975)
    values = []
    for share in even_shares(generator, count):
        deviation = inverse(share) / unit
        values.append(max(0.0, estimate + deviation * (high - estimate if deviation > 0 else estimate - low)))
    return values
