"""Which remedy helps a job most, and where the advice would flip: ranking and thresholds. Standard library only.

A remedy is the same job with something changed. Its gain is the ratio of samples per second, so that remedies that
change the batch compare with those that do not.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from wirebound.simulate.job import TrainingJob, without_terms
from wirebound.simulate.uncertainty import quantiles

#: A remedy pays off from this gain on; below, the model's own error is larger.
WORTHWHILE_GAIN = 1.01
#: Less difference than this between two remedies, or between what one costs and saves, is none.
NOTICEABLE_GAIN = 1.001
#: Thresholds are looked for within this factor of the present bandwidth, both ways.
SEARCHED_FACTOR = 128.0

_PRECISION = 1e-5


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """What the network costs: `share` of the step is exposed communication, in [0, 1).

    `bound` is the gain of a free network, iteration ÷ compute: no faster network and no better use of it can gain more.
    `gains` are those of making one term alone free: ``bandwidth``, ``latency``, ``vector-add``, ``intra-node
    bandwidth``.
    """

    share: float
    bound: float
    gains: dict[str, float]


def bottleneck(job: TrainingJob) -> Bottleneck:
    """Return what the network costs the job."""
    step, rate = job.step(), job.samples_per_s()
    gains = {term: without.samples_per_s() / rate for term, without in without_terms(job).items()}
    bound = step.iteration_s / step.compute_s if step.compute_s > 0 else math.inf
    return Bottleneck(step.exposed_s / step.iteration_s, bound, gains)


@dataclass(frozen=True, slots=True)
class Threshold:
    """A bandwidth in bytes per second; a statement holds on the `side` of it that is named, and not on the other."""

    bandwidth: float
    side: Literal["below", "above"]


#: Samples per second at a bandwidth of the given job's network, in bytes per second.
RateAt = Callable[[float], float]


def rate_at(job: TrainingJob, *, local_steps: int = 1, own_bandwidth: bool = False) -> RateAt:
    """Return the job's throughput as a function of the bandwidth; it keeps its own where the remedy is a bandwidth.

    With `local_steps` = H workers average their models every H steps only (local SGD).
    """
    if own_bandwidth:
        rate = local_sgd_rate(job, local_steps)
        return lambda bandwidth: rate
    return functools.cache(lambda bandwidth: local_sgd_rate(job.with_inter(bandwidth=bandwidth), local_steps))


def local_sgd_rate(job: TrainingJob, local_steps: int) -> float:
    """Return samples per second of equally fast workers that expose their communication in one of H steps only.

    A step takes compute + exposed/H on average (Lin et al. 2020, local SGD); H = 1 is the job as it is.
    """
    step = job.step()
    return job.samples_per_step / (step.iteration_s - step.exposed_s * (1 - 1 / local_steps))


def threshold(first: RateAt, second: RateAt, bandwidth: float, *, gain: float = 1.0) -> Threshold | None:
    """Return the bandwidth nearest to `bandwidth` at which "first ÷ second ≥ `gain`" begins or ceases to hold.

    It is found in steps of a factor of two, both ways up to `SEARCHED_FACTOR`, and bisected by ratio; None where the
    statement holds, or fails, all the way. Of two equally near the lower one is returned. A statement that changes
    twice within a factor of two is seen as unchanged.
    """

    def holds(value: float) -> bool:
        return first(value) >= gain * second(value)

    now = holds(bandwidth)
    factor = 1.0
    while factor < SEARCHED_FACTOR:
        near, factor = factor, 2 * factor
        for inner, outer in ((bandwidth / near, bandwidth / factor), (bandwidth * near, bandwidth * factor)):
            if holds(outer) != now:
                found = _bisected(holds, inner, outer)
                return Threshold(found, "above" if now == (outer < inner) else "below")
    return None


def _bisected(holds: Callable[[float], bool], inner: float, outer: float) -> float:
    """The bandwidth between two at which `holds` changes, to a relative 1e-5."""
    at_inner = holds(inner)
    while abs(outer / inner - 1) > _PRECISION:
        middle = math.sqrt(inner * outer)
        if holds(middle) == at_inner:
            inner = middle
        else:
            outer = middle
    return math.sqrt(inner * outer)


def gain_interval(
    iterations_s: Sequence[float], samples_per_step: int, base_iterations_s: Sequence[float], base_per_step: int
) -> tuple[float, float]:
    """Return the 95 % interval of the gain over paired samples of two jobs, which share what is uncertain in both.

    A job without uncertainty has a single sample, which is paired with all of the other's.
    """
    count = max(len(iterations_s), len(base_iterations_s))
    own, base = (
        values if len(values) == count else [values[0]] * count for values in (iterations_s, base_iterations_s)
    )
    gains = [samples_per_step / base_per_step * b / a for a, b in zip(own, base, strict=True)]
    low, _, high = quantiles(gains)
    return low, high


def tied(better: tuple[float, float] | None, worse: tuple[float, float] | None) -> bool:
    """Whether two intervals of gains overlap, so that their order is not sure; never without intervals."""
    return better is not None and worse is not None and worse[1] >= better[0]
