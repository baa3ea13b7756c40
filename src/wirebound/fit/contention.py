"""How much does communication slow the device down? While it is active, backward takes 1 + c times as long.

Of O seconds of backward during which communication was active, O/(1 + c) were computed; without it backward would have
taken B. So measured backward is B + κ·O with κ = c/(1 + c): a line through the origin in the stretch over O.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from wirebound.errors import InputError

Array = NDArray[np.float64]

#: Relative residuals beyond this count linearly, as in `wirebound.fit.communication`.
ROBUST_SCALE = 0.1
#: Predicted ÷ measured backward off by more than this, in the median, is not described by one factor.
RESIDUAL_LIMIT = 0.10


@dataclass(frozen=True, slots=True)
class ContentionFit:
    """`slowdown` is c, with its 95 % interval; `steps` were fitted.

    `median_error` and `median_error_without` are the medians of |predicted ÷ measured − 1| of backward, with this c
    and with none. `flags`: ``unresolved`` (the interval reaches 0), ``large-residuals``, ``no-overlap`` (communication
    was active during less than a tenth of backward). `verdict` says it in words.
    """

    slowdown: float
    slowdown_ci95: tuple[float, float]
    steps: int
    median_error: float
    median_error_without: float
    flags: tuple[str, ...]
    verdict: str


def stretched_s(alone_s: float, active_s: float, slowdown: float) -> float:
    """Return the seconds of a backward pass of `alone_s`, during `active_s` of which communication was active."""
    return alone_s + active_s * slowdown / (1 + slowdown)


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
    """Fit c to pairs of steps: backward alone, backward under communication, and how long that was active in it.

    Relative errors of the predicted backward count, with SciPy's soft-L1 loss. The interval is that of a bootstrap over
    the pairs (percentiles, seeded). Raises `InputError` for unequal lengths, fewer than 6 pairs, times that are not
    positive and finite, or an active time below 0 or beyond its backward.
    """
    if not len(alone_s) == len(under_s) == len(active_s):
        raise InputError(
            f"{len(alone_s)}, {len(under_s)} and {len(active_s)} times: give one of each for a pair of steps"
        )
    if len(alone_s) < 6:
        raise InputError(f"{len(alone_s)} pairs of steps are too few: measure 6 at least")
    alone, under, active = (np.asarray(times, dtype=float) for times in (alone_s, under_s, active_s))
    for times, what in ((alone, "backward alone"), (under, "backward under communication")):
        good = np.isfinite(times) & (times > 0)
        if not good.all():
            raise InputError(f"{what} of pair {int(np.argmin(good))} must be greater than 0 and finite")
    inside = (active >= 0) & (active <= under * (1 + 1e-9))
    if not inside.all():
        raise InputError(f"active time of pair {int(np.argmin(inside))} must be between 0 and its backward time")
    if active.sum() == 0:
        raise InputError("communication was never active during backward: nothing shows how it slows the device")
    share = _share(alone, under, active)
    generator = np.random.default_rng(seed)
    draws = generator.integers(len(alone), size=(resamples, len(alone)))
    shares = [_share(alone[draw], under[draw], active[draw]) for draw in draws if active[draw].sum() > 0]
    low, high = (_slowdown(float(bound)) for bound in np.percentile(shares, [2.5, 97.5]))
    errors = np.abs((alone + share * active) / under - 1)
    without = np.abs(alone / under - 1)
    findings: list[tuple[str, str]] = []
    if low == 0:
        findings.append(("unresolved", "the interval reaches 0: a slowdown is not shown"))
    if np.median(errors) > RESIDUAL_LIMIT:
        findings.append(
            ("large-residuals", f"one factor leaves half of the steps off by {np.median(errors):.0%} or more")
        )
    if np.median(active / under) < 0.1:
        findings.append(("no-overlap", "communication was active during less than a tenth of backward"))
    verdict = "; ".join(text for _, text in findings) or (
        f"one factor describes backward under communication within {np.median(errors):.1%} in the median,"
        f" against {np.median(without):.1%} without it"
    )
    return ContentionFit(
        slowdown=_slowdown(share),
        slowdown_ci95=(low, high),
        steps=len(alone),
        median_error=float(np.median(errors)),
        median_error_without=float(np.median(without)),
        flags=tuple(flag for flag, _ in findings),
        verdict=verdict,
    )


def _slowdown(share: float) -> float:
    """c from κ = c/(1 + c)."""
    return math.inf if share >= 1 else share / (1 - share)


def _share(alone: Array, under: Array, active: Array) -> float:
    """Minimize Σ soft_l1((B + κ·O)/measured − 1) over κ from 0 to 1."""
    solution = least_squares(
        lambda unknown: (alone + unknown[0] * active) / under - 1,
        [0.2],
        lambda unknown: (active / under)[:, None],
        bounds=(0, 1),
        loss="soft_l1",
        f_scale=ROBUST_SCALE,
        xtol=1e-10,
        ftol=1e-12,
        gtol=1e-12,
    )
    share = float(solution.x[0])
    return 0.0 if share < 1e-6 else share
