"""How long a worker computes for one step: jitter, unequal workers and stragglers."""

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from wirebound.errors import InputError, unknown_name

#: Distributions beyond this spread are no compute times.
LARGEST_SPREAD = 100.0


@dataclass(frozen=True, slots=True)
class ComputeTime:
    """The compute time of one step of each worker, in seconds: mean_s × factor × jitter × transient slowness.

    `jitter` names the distribution of a factor whose mean is 1: ``none``, ``lognormal`` and ``exponential`` (shifted:
    at least 1 − spread, plus an exponential of mean `spread`, which is at most 1) with the coefficient of variation
    `spread`, or ``empirical``, which draws from `samples` divided by their mean. `factors` slow down (or speed up)
    single workers for good, from worker 0 on; those without one have 1. Each step is also, with `slow_probability`
    and independently of all others, `slow_factor` times as long. So the mean of worker i is
    mean_s · factors[i] · (1 + slow_probability · (slow_factor − 1)).
    """

    mean_s: float
    jitter: str = "none"
    spread: float = 0.0
    samples: tuple[float, ...] = ()
    factors: tuple[float, ...] = ()
    slow_probability: float = 0.0
    slow_factor: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.mean_s < math.inf:
            raise InputError(f"mean compute time {self.mean_s} s must be finite and greater than 0")
        if self.jitter not in JITTERS:
            raise unknown_name("jitter", self.jitter, JITTERS)
        if not 0 <= self.spread <= LARGEST_SPREAD:
            raise InputError(f"spread {self.spread} must be a coefficient of variation from 0 to 100, such as 0.1")
        if self.jitter == "exponential" and self.spread > 1:
            raise InputError(f"spread {self.spread} of exponential jitter must be at most 1: use lognormal beyond")
        if self.jitter in ("none", "empirical") and self.spread > 0:
            raise InputError(f"spread {self.spread} changes nothing with the jitter {self.jitter!r}: use lognormal")
        if (self.jitter == "empirical") != bool(self.samples):
            raise InputError("samples and the jitter 'empirical' belong together: give both or neither")
        for values, what in ((self.samples, "sample"), (self.factors, "factor"), ((self.slow_factor,), "slow factor")):
            for index, value in enumerate(values):
                if not 0 < value < math.inf:
                    raise InputError(f"{what} {index} of the compute time is {value}: it must be finite and above 0")
        if not 0 <= self.slow_probability <= 1:
            raise InputError(f"probability {self.slow_probability} of a slow step must be between 0 and 1")

    def factor(self, worker: int) -> float:
        """The lasting factor of one worker."""
        return self.factors[worker] if worker < len(self.factors) else 1.0

    def mean_of(self, worker: int) -> float:
        """Seconds that one worker computes for a step, on average."""
        return self.mean_s * self.factor(worker) * (1 + self.slow_probability * (self.slow_factor - 1))

    def draws(self, worker: int, seed: int) -> Iterator[float]:
        """Yield the seconds of this worker's steps 0, 1, 2, …, without end.

        Every worker has a random stream of its own, so that step k of worker i takes the same time whatever the
        others do: two protocols with the same seed are compared on the same draws.
        """
        stream = random.Random(f"{seed}/{worker}")  # text seeds are hashed alike on every system
        jitter, base_s = JITTERS[self.jitter], self.mean_s * self.factor(worker)
        while True:
            seconds = base_s * jitter(self, stream)
            if self.slow_probability and stream.random() < self.slow_probability:
                seconds *= self.slow_factor
            yield seconds


def _none(time: ComputeTime, stream: random.Random) -> float:
    return 1.0


def _lognormal(time: ComputeTime, stream: random.Random) -> float:
    """Mean 1 and coefficient of variation v: σ² = ln(1 + v²), μ = −σ²/2."""
    variance = math.log1p(time.spread**2)
    return stream.lognormvariate(-variance / 2, math.sqrt(variance))


def _exponential(time: ComputeTime, stream: random.Random) -> float:
    """Shifted exponential of mean 1: its standard deviation is that of the exponential part, `spread`."""
    return 1 - time.spread + time.spread * stream.expovariate(1.0)


def _empirical(time: ComputeTime, stream: random.Random) -> float:
    return stream.choice(time.samples) * len(time.samples) / math.fsum(time.samples)


#: Jitter → how to draw a factor of mean 1 from a random stream.
JITTERS: dict[str, Callable[[ComputeTime, random.Random], float]] = {
    "none": _none,
    "lognormal": _lognormal,
    "exponential": _exponential,
    "empirical": _empirical,
}
