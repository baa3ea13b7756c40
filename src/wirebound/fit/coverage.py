"""Do the 95 % intervals of a communication fit hold the truth in about 95 % of cases? Synthetic data with known truth.

None of the noises is what the fit assumes (the soft-L1 loss is that of no distribution): some have heavy tails, one
mixes in slow outliers. Each has the median 1, or nearly, so that the true line is that of the medians.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from wirebound.errors import unknown_name
from wirebound.fit.communication import fit_communication

Noise = Callable[[Generator, int], NDArray[np.float64]]

#: Factors on the true times, by name.
NOISES: dict[str, Noise] = {
    "gamma, 5 %": lambda rng, count: rng.gamma(400, 1 / 400, count),
    "uniform, ±8 %": lambda rng, count: rng.uniform(0.92, 1.08, count),
    "Laplace, 3 %": lambda rng, count: np.exp(rng.laplace(0, 0.03, count)),
    "Student t, 3 degrees, 4 %": lambda rng, count: np.exp(0.04 * rng.standard_t(3, count)),
    "Student t, 2 degrees, 4 %": lambda rng, count: np.exp(0.04 * rng.standard_t(2, count)),
    "2 %, a tenth of them up to twice as slow": lambda rng, count: np.where(
        rng.random(count) < 0.1, rng.uniform(1.2, 2, count), rng.normal(1, 0.02, count)
    ),
}


@dataclass(frozen=True, slots=True)
class Coverage:
    """Shares of `trials` in which the 95 % interval of α, and that of β, held the truth."""

    noise: str
    trials: int
    alpha: float
    beta: float

    @property
    def pooled(self) -> float:
        """The share over α and β together."""
        return (self.alpha + self.beta) / 2


def interval_coverage(noise: str, *, trials: int = 100, resamples: int = 400, seed: int = 0) -> Coverage:
    """Fit `trials` random lines with noise on 15 sizes from 1 KiB to 16 MiB, and count the intervals that hold them.

    α is log-uniform between 10 µs and 1 ms, 1/β between 0.3 and 10 GB/s. Raises `InputError` for an unknown noise.
    """
    if noise not in NOISES:
        raise unknown_name("noise", noise, NOISES)
    rng = np.random.default_rng(seed)
    sizes = 2.0 ** np.arange(10, 25)
    held_alpha = held_beta = 0
    for trial in range(trials):
        alpha, beta = 10 ** rng.uniform(-5, -3), 10 ** rng.uniform(-10, -8.5)
        times = (alpha + beta * sizes) * NOISES[noise](rng, len(sizes))
        fit = fit_communication(sizes.tolist(), times.tolist(), resamples=resamples, seed=trial)
        held_alpha += fit.alpha_ci95[0] <= alpha <= fit.alpha_ci95[1]
        held_beta += fit.beta_ci95[0] <= beta <= fit.beta_ci95[1]
    return Coverage(noise, trials, held_alpha / trials, held_beta / trials)
