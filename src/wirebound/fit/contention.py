"""How much does communication slow the device down? Two readings with one parameter each, to be told apart by data.

- A factor: while communication is active, backward takes 1 + c times as long. Of O seconds of backward during which it
  was active, O/(1 + c) were computed; without it backward would have taken B. So backward is B + κ·O, κ = c/(1 + c).
- A cost per byte: moving a byte takes the device d seconds, however long the link needs. So backward is B + d·bytes.

Both are lines through the origin in the stretch, over active seconds or over bytes sent during backward.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wirebound.errors import InputError

Array = NDArray[np.float64]

#: Relative residuals beyond this count linearly, as in `wirebound.fit.communication`.
ROBUST_SCALE = 0.1
#: Predicted ÷ measured backward off by more than this, in the median, is not described by one factor.
RESIDUAL_LIMIT = 0.10
#: Fewer pairs of steps bound nothing.
FEWEST_PAIRS = 6
_ROUNDS = 60


@dataclass(frozen=True, slots=True)
class ContentionFit:
    """Backward under communication = backward alone + `slope`·load; `steps` pairs of steps were fitted.

    The load is active seconds, the slope then κ and `slowdown` c; or bytes, the slope then seconds each. `slope_ci95`
    is its 95 % interval. `median_error` and `median_error_without` are the medians of the absolute
    predicted ÷ measured − 1 of backward, with this slope and with none. `flags`: ``unresolved`` (the interval reaches
    0), ``large-residuals``, ``no-better`` (predictions are no better with it). `verdict` says it in words.
    """

    slope: float
    slope_ci95: tuple[float, float]
    steps: int
    median_error: float
    median_error_without: float
    flags: tuple[str, ...]
    verdict: str

    @property
    def slowdown(self) -> float:
        """c of a slope κ over active seconds."""
        return slowdown_of(self.slope)

    def backward_s(self, alone_s: float, load: float) -> float:
        """Return the seconds of a backward pass of `alone_s` alone, under the load."""
        return alone_s + self.slope * load


def slowdown_of(share: float) -> float:
    """Return c of κ = c/(1 + c), infinite for 1."""
    return math.inf if share >= 1 else share / (1 - share)


def contended_backward_s(
    gaps_s: Sequence[float], last: Sequence[int], costs_s: Sequence[float], slowdown: float
) -> float:
    """Return the seconds of a backward pass that slows down while its own messages are on the wire.

    `gaps_s` are the tensors' gaps alone; message m is complete with tensor last[m] (rising) and takes costs_s[m] on the
    wire, one after the other. The device computes at the rate 1/(1 + c) while the wire is busy. A leaf function.
    """
    now = busy_until = 0.0
    sent = 0
    for tensor, gap in enumerate(gaps_s):
        slow = busy_until - now if busy_until > now else 0.0  # so long the wire is still busy
        if gap * (1 + slowdown) <= slow:
            now += gap * (1 + slowdown)
        else:
            now += slow + gap - slow / (1 + slowdown)
        while sent < len(last) and last[sent] == tensor:
            busy_until = (busy_until if busy_until > now else now) + costs_s[sent]
            sent += 1
    return now


def fit_contention(
    alone_s: Sequence[float],
    under_s: Sequence[float],
    active_s: Sequence[float],
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> ContentionFit:
    """Fit the factor to pairs of steps: backward alone, backward under communication, and how long that was active.

    Relative errors of the predicted backward count, with a soft-L1 loss. The interval is that of a bootstrap over
    the pairs (percentiles, seeded). Raises `InputError` for unequal lengths, fewer than 6 pairs, times that are not
    positive and finite, or an active time below 0 or beyond its backward.
    """
    for pair, (under, active) in enumerate(zip(under_s, active_s, strict=False)):
        if not active <= under * (1 + 1e-9):
            raise InputError(f"active time of pair {pair} must be between 0 and its backward time")
    return _fit(alone_s, under_s, active_s, 1.0, "active time", resamples, seed)


def fit_byte_contention(
    alone_s: Sequence[float],
    under_s: Sequence[float],
    sent_bytes: Sequence[float],
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> ContentionFit:
    """Fit the cost per byte, as `fit_contention` the factor, to the bytes that were sent during backward."""
    return _fit(alone_s, under_s, sent_bytes, math.inf, "bytes", resamples, seed)


def _fit(
    alone_s: Sequence[float],
    under_s: Sequence[float],
    load: Sequence[float],
    largest: float,
    what: str,
    resamples: int,
    seed: int,
) -> ContentionFit:
    if not len(alone_s) == len(under_s) == len(load):
        raise InputError(f"{len(alone_s)}, {len(under_s)} and {len(load)} values: give one of each for a pair of steps")
    if len(alone_s) < FEWEST_PAIRS:
        raise InputError(f"{len(alone_s)} pairs of steps are too few: measure {FEWEST_PAIRS} at least")
    alone, under, loads = (np.asarray(values, dtype=float) for values in (alone_s, under_s, load))
    for values, good, name in (
        (alone, alone > 0, "backward alone"),
        (under, under > 0, "backward under communication"),
        (loads, loads >= 0, what),
    ):
        if not (good & np.isfinite(values)).all():
            index = int(np.argmin(good & np.isfinite(values)))
            raise InputError(f"{name} of pair {index} is {values[index]}: it must be positive and finite")
    if loads.sum() == 0:
        raise InputError("communication was never active during backward: nothing shows how it slows the device")
    slope = float(_slopes(alone[None], under[None], loads[None], largest)[0])
    generator = np.random.default_rng(seed)
    draws = generator.integers(len(alone), size=(resamples, len(alone)))
    draws = draws[loads[draws].sum(axis=1) > 0]
    slopes = _slopes(alone[draws], under[draws], loads[draws], largest)
    low, high = (float(bound) for bound in np.percentile(slopes, [2.5, 97.5]))
    error = float(np.median(np.abs((alone + slope * loads) / under - 1)))
    without = float(np.median(np.abs(alone / under - 1)))
    findings: list[tuple[str, str]] = []
    if low == 0:
        findings.append(("unresolved", "the interval reaches 0: a slowdown is not shown"))
    if error > RESIDUAL_LIMIT:
        findings.append(("large-residuals", f"half of the steps are off by {error:.0%} or more"))
    if error >= without:
        findings.append(("no-better", f"it predicts no better ({error:.1%} in the median) than none ({without:.1%})"))
    verdict = "; ".join(text for _, text in findings) or (
        f"it describes backward under communication within {error:.1%} in the median, against {without:.1%} without"
    )
    return ContentionFit(
        slope=slope,
        slope_ci95=(low, high),
        steps=len(alone),
        median_error=error,
        median_error_without=without,
        flags=tuple(flag for flag, _ in findings),
        verdict=verdict,
    )


def _slopes(alone: Array, under: Array, loads: Array, largest: float) -> Array:
    """Minimize Σ soft_l1((B + slope·load)/measured − 1) over slopes from 0 to `largest`, for each row of pairs.

    One unknown and a convex loss: least squares reweighted until it settles, cut off at the bounds.
    """
    target, ratio = 1 - alone / under, loads / under
    slopes = np.zeros(len(alone))
    for _ in range(_ROUNDS):
        residual = slopes[:, None] * ratio - target
        weight = 1 / np.sqrt(1 + (residual / ROBUST_SCALE) ** 2)
        slopes = (weight * ratio * target).sum(1) / (weight * ratio**2).sum(1)
    return np.asarray(np.clip(slopes, 0, largest))
