"""Median, spread, and an interval for a median that assumes nothing about the distribution. Standard library only."""

import math
import statistics
from collections.abc import Sequence

from wirebound.profile.observations import HookOverhead

median = statistics.median


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """Return the lower and upper quartile, linearly interpolated as by `numpy.percentile`; one value is both."""
    if len(values) == 1:
        return values[0], values[0]
    lower, _, upper = statistics.quantiles(values, n=4, method="inclusive")
    return lower, upper


def interquartile_range(values: Sequence[float]) -> float:
    """Return the upper minus the lower quartile."""
    lower, upper = quartiles(values)
    return upper - lower


def median_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float, float]:
    """Return (low, high, confidence reached) for the median, from order statistics.

    Of n independent values the number below the true median is binomial(n, 1/2), so the k-th smallest and the k-th
    largest enclose it with probability 1 − 2·P(X < k), X ~ binomial(n, 1/2) (David & Nagaraja, Order Statistics,
    section 7.1). The largest k that still reaches `confidence` is taken; with fewer than 6 values none reaches 95 %,
    and the whole range is returned with what it does reach.
    """
    ordered = sorted(values)
    n = len(ordered)
    below, k, reached = 0.0, 1, 1 - 2 * 0.5**n
    for candidate in range(1, n // 2 + 1):
        below += math.comb(n, candidate - 1) * 0.5**n  # P(X < candidate)
        if candidate > 1 and 1 - 2 * below < confidence:
            break
        k, reached = candidate, 1 - 2 * below
    return ordered[k - 1], ordered[n - k], max(reached, 0.0)


def overhead_of(ratios: Sequence[float]) -> HookOverhead:
    """Return the overhead that ratios of neighbouring measurements, with ÷ without, tell: their median, an interval."""
    low, high, confidence = median_interval(ratios)
    return HookOverhead(round(median(ratios), 6), round(low, 6), round(high, 6), round(confidence, 4), len(ratios))
