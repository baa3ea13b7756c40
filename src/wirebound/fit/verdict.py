"""Where does T(S) = α + β·S fail? Judges a fit and says it in words. Standard library only."""

import math
import statistics
from collections.abc import Mapping, Sequence

from wirebound.units import format_binary_bytes

#: Sizes below this are the small region: there, scheduling and not the wire decides.
SMALL_BELOW = 64 * 1024
#: A point whose measured time is off by more than this is not described by the model.
RESIDUAL_LIMIT = 0.20
#: Bandwidth at the largest size below this share of the best one counts as falling.
FALLING_SHARE = 0.85
#: Two groups of times of one size this factor apart, each with at least a fifth of them, count as two modes.
MODE_FACTOR = 2.5
#: Fewer sizes than this cannot show whether the model holds.
ENOUGH_SIZES = 5


def assess(
    *,
    sizes: Sequence[float],
    times_s: Sequence[float],
    residuals: Sequence[float],
    repeats: Mapping[float, Sequence[float]],
    alpha_ci95: tuple[float, float],
    beta_ci95: tuple[float, float],
) -> tuple[tuple[str, ...], str]:
    """Return (flags, verdict) of a fit; sizes in bytes, in rising order, residuals relative (measured ÷ fitted − 1).

    The flags: ``too-few-sizes``, ``narrow-range`` (largest ÷ smallest below 8), ``bimodal`` (one size has two groups of
    times), ``jump`` (a larger message is much faster than a smaller one), ``falling-bandwidth``, ``large-residuals``,
    ``alpha-unresolved`` and ``beta-unresolved`` (the interval reaches 0).
    """
    findings: list[tuple[str, str]] = []
    if len(sizes) < ENOUGH_SIZES:
        findings.append(
            (
                "too-few-sizes",
                f"{len(sizes)} sizes are too few to tell whether a straight line fits: use {ENOUGH_SIZES}",
            )
        )
    if sizes[-1] / sizes[0] < 8:
        findings.append(
            ("narrow-range", "the largest size is less than 8 times the smallest: α and β are hard to part")
        )
    modes = {size: factor for size, times in repeats.items() if (factor := _mode_factor(times)) is not None}
    if modes:
        worst = max(modes, key=lambda size: modes[size])
        findings.append(
            (
                "bimodal",
                f"times of {len(modes)} size(s) fall into two groups (at {format_binary_bytes(worst)}"
                f" {modes[worst]:.1f}× apart): no single time describes them",
            )
        )
    jump = _jump(sizes, times_s)
    if jump is not None:
        findings.append(("jump", jump))
    falling = _falling(sizes, times_s)
    if falling is not None:
        findings.append(("falling-bandwidth", falling))
    large = _large_residuals(sizes, residuals)
    if large is not None:
        findings.append(("large-residuals", large))
    if len(sizes) > 2:
        if alpha_ci95[0] == 0:
            findings.append(("alpha-unresolved", "the interval of α reaches 0: measure smaller sizes"))
        if beta_ci95[0] == 0:
            findings.append(("beta-unresolved", "the interval of β reaches 0: measure larger sizes"))
    if not findings:
        worst_residual = max(abs(residual) for residual in residuals)
        return (), f"α + β·S describes all {len(sizes)} sizes within {worst_residual:.1%}"
    return tuple(flag for flag, _ in findings), "; ".join(text for _, text in findings)


def _mode_factor(times: Sequence[float]) -> float | None:
    """Return how far apart two groups of times are (ratio of their medians), None where there is one group."""
    least = max(2, math.ceil(len(times) / 5))
    if len(times) < 2 * least:
        return None
    ordered = sorted(times)
    # The widest gap, by ratio, that leaves enough times on both sides parts the groups, if it exceeds their own width.
    cut = max(range(least, len(ordered) - least + 1), key=lambda index: ordered[index] / ordered[index - 1])
    gap = ordered[cut] / ordered[cut - 1]
    factor = statistics.median(ordered[cut:]) / statistics.median(ordered[:cut])
    return factor if gap >= math.sqrt(MODE_FACTOR) and factor >= MODE_FACTOR else None


def _jump(sizes: Sequence[float], times_s: Sequence[float]) -> str | None:
    drops = [
        (times_s[index] / min(times_s[index + 1 :]), sizes[index])
        for index in range(len(sizes) - 1)
        if times_s[index] / min(times_s[index + 1 :]) >= MODE_FACTOR
    ]
    if not drops:
        return None
    factor, size = max(drops)
    return f"{format_binary_bytes(size)} takes {factor:.1f}× as long as a larger message"


def _falling(sizes: Sequence[float], times_s: Sequence[float]) -> str | None:
    rates = [size / time for size, time in zip(sizes, times_s, strict=True)]
    best = max(range(len(rates)), key=lambda index: rates[index])
    share = rates[-1] / rates[best]
    if share >= FALLING_SHARE:
        return None
    return (
        f"bandwidth falls with size: at {format_binary_bytes(sizes[-1])} it is {share:.0%} of that at"
        f" {format_binary_bytes(sizes[best])}, which no α + β·S can do"
    )


def _large_residuals(sizes: Sequence[float], residuals: Sequence[float]) -> str | None:
    wrong = [index for index, residual in enumerate(residuals) if abs(residual) > RESIDUAL_LIMIT]
    if not wrong:
        return None
    worst = max(abs(residuals[index]) for index in wrong)
    if wrong[-1] < len(sizes) - 1:
        rest = max(abs(residual) for residual in residuals[wrong[-1] + 1 :])
        good = sizes[wrong[-1] + 1]
        return (
            f"the model holds from {format_binary_bytes(good)} up (within {rest:.0%}); below, it is off by up to"
            f" {worst:.0%}"
        )
    return f"the model is off by up to {worst:.0%}, also at the largest size, {format_binary_bytes(sizes[-1])}"
