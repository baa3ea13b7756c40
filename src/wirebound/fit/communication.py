"""How long does a collective take? T(S) = α + β·S, fitted to measurements, with intervals and a verdict.

α is in seconds, S in bytes of buffer, β in seconds per byte; both are at least 0. Times over six orders of magnitude
are compared by ratio, not by difference: the fit minimizes Σ ρ(ln(T/t)) with SciPy's soft-L1 loss, so that a doubled
time costs the same at 1 KiB and at 16 MiB and single outliers pull little.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares
from scipy.special import ndtri, stdtrit

from wirebound.errors import InputError
from wirebound.fit.document import COLLECTIVE_COSTS, link_beneath
from wirebound.fit.samples import LARGEST_BYTES, LONGEST_S, SHORTEST_S
from wirebound.fit.verdict import SMALL_BELOW, assess
from wirebound.model import Link

Array = NDArray[np.float64]

#: More distinct sizes than this are grouped.
MOST_SIZES = 256
#: So many pairs of the bootstrap are kept.
KEPT_PAIRS = 200
#: Log residuals beyond this count linearly, not squared (SciPy's `f_scale`).
ROBUST_SCALE = 0.1


@dataclass(frozen=True, slots=True)
class RegionFit:
    """The same fit on part of the sizes, `smallest` to `largest` bytes; `worst_residual` in relative terms."""

    smallest: float
    largest: float
    sizes: int
    alpha_s: float
    beta_s_per_byte: float
    worst_residual: float


@dataclass(frozen=True, slots=True)
class CommunicationFit:
    """T(S) = `alpha_s` + `beta_s_per_byte`·S, with 95 % intervals.

    `sizes` and `times_s` are the fitted points: one per distinct size, in rising order, the median where a size was
    measured several times; or, where there are more than `MOST_SIZES` distinct ones, the medians of neighbouring sizes
    (see `fit_communication`), which the verdict then says.

    `relative_residuals` are measured ÷ fitted − 1. `flags` are the reasons to doubt the model (see
    `wirebound.fit.verdict`), `verdict` says them in words. `small` and `large` are fits to the sizes below and from
    64 KiB, None where a region has fewer than three sizes. `bootstrap` are pairs (α, β) as plausible as the fit itself:
    they spread as the intervals say, and each α belongs to its β, for a line that starts higher rises less. It is empty
    where the intervals bound nothing.
    """

    alpha_s: float
    beta_s_per_byte: float
    alpha_ci95: tuple[float, float]
    beta_ci95: tuple[float, float]
    sizes: tuple[float, ...]
    times_s: tuple[float, ...]
    relative_residuals: tuple[float, ...]
    flags: tuple[str, ...]
    verdict: str
    small: RegionFit | None
    large: RegionFit | None
    bootstrap: tuple[tuple[float, float], ...] = ()

    @property
    def bandwidth_Bps(self) -> float:  # noqa: N802 - the unit is bytes per second
        """Bytes of buffer per second for very large messages, 1/β; infinite where β is 0."""
        return math.inf if self.beta_s_per_byte == 0 else 1 / self.beta_s_per_byte

    def time_s(self, size: float) -> float:
        """Return the fitted time in seconds for `size` bytes."""
        return self.alpha_s + self.beta_s_per_byte * size


def fit_communication(
    sizes_bytes: Sequence[float], times_s: Sequence[float], *, resamples: int = 1000, seed: int = 0
) -> CommunicationFit:
    """Fit T(S) = α + β·S to measured times, sizes in bytes and times in seconds.

    Several times of one size are first reduced to their median. More than `MOST_SIZES` distinct sizes are first put
    into that many bins whose bounds are evenly spaced by ratio, and each bin counts as one size, the median of its
    sizes with the median of its times: the bootstrap then needs no more memory for a million sizes.

    The 95 % intervals come from a wild bootstrap of the points' log residuals (Webb's six weights, residuals enlarged
    by 1/(1 − leverage), seeded), widened by the ratio of Student's t to the normal. α rests on the small sizes and β
    on the large ones, so each has half of the n − 2 degrees of freedom. The intervals include how badly a straight
    line describes the points, not only their noise. The same input gives the same output.

    Raises `InputError` for unequal lengths, sizes that are not greater than 0 and at most 1e18 bytes, times that are
    not between 1e-12 s and 1e9 s, or fewer than two sizes.
    """
    sizes, times, repeats, grouped = _points(sizes_bytes, times_s)
    alpha, beta = _fit_point(sizes, times)
    alpha_ci, beta_ci, pairs = _intervals(sizes, times, alpha, beta, resamples, seed)
    residuals = times / (alpha + beta * sizes) - 1
    small, large = _region(sizes, times, sizes < SMALL_BELOW), _region(sizes, times, sizes >= SMALL_BELOW)
    flags, verdict = assess(
        sizes=sizes.tolist(),
        times_s=times.tolist(),
        residuals=residuals.tolist(),
        repeats=repeats,
        alpha_ci95=alpha_ci,
        beta_ci95=beta_ci,
    )
    if grouped:
        verdict += f" ({grouped:,} sizes were grouped into {len(sizes)} bins of neighbouring ones, each at its median)"
    return CommunicationFit(
        alpha_s=alpha,
        beta_s_per_byte=beta,
        alpha_ci95=alpha_ci,
        beta_ci95=beta_ci,
        sizes=tuple(sizes.tolist()),
        times_s=tuple(times.tolist()),
        relative_residuals=tuple(residuals.tolist()),
        flags=flags,
        verdict=verdict,
        small=small,
        large=large,
        bootstrap=pairs,
    )


def link_parameters(fit: CommunicationFit, collective: str, ranks: int) -> Link:
    """Return the link whose `collective` among `ranks` workers takes α + β·S.

    See `wirebound.fit.document.link_beneath`. Raises `InputError` for another collective, fewer than two ranks, or
    β = 0.
    """
    if collective not in COLLECTIVE_COSTS:
        raise InputError(f"collective {collective!r} cannot be turned into a link: use {', '.join(COLLECTIVE_COSTS)}")
    if ranks < 2:
        raise InputError(f"ranks = {ranks} must be at least 2: one rank uses no link")
    if fit.beta_s_per_byte == 0:
        raise InputError("the times do not grow with the size, so they tell no bandwidth: measure larger sizes too")
    return link_beneath(fit.alpha_s, fit.beta_s_per_byte, collective, ranks)


def _points(
    sizes_bytes: Sequence[float], times_s: Sequence[float]
) -> tuple[Array, Array, dict[float, list[float]], int]:
    """Sizes and times to fit, all times of each, and how many distinct sizes were grouped (0: none)."""
    if len(sizes_bytes) != len(times_s):
        raise InputError(f"{len(sizes_bytes)} sizes but {len(times_s)} times: give one time for each size")
    sizes, times = np.asarray(sizes_bytes, dtype=np.float64), np.asarray(times_s, dtype=np.float64)
    for values, good, what in (
        (sizes, (sizes > 0) & (sizes <= LARGEST_BYTES), f"greater than 0 and at most {LARGEST_BYTES:g} bytes"),
        (times, (times >= SHORTEST_S) & (times <= LONGEST_S), f"between {SHORTEST_S:g} s and {LONGEST_S:g} s"),
    ):
        if not good.all():
            index = int(np.argmin(good))
            raise InputError(f"{'size' if values is sizes else 'time'} {index} is {values[index]}: it must be {what}")
    order = np.argsort(sizes, kind="stable")
    sizes, times = sizes[order], times[order]
    distinct = int(np.count_nonzero(np.diff(sizes))) + 1 if len(sizes) else 0
    if distinct < 2:
        raise InputError(f"measurements of {distinct} size(s) do not fix α and β: measure at least two sizes")
    groups = sizes
    if distinct > MOST_SIZES:
        position = np.log(sizes / sizes[0]) / np.log(sizes[-1] / sizes[0])
        groups = np.minimum(np.floor(position * MOST_SIZES), MOST_SIZES - 1)
    bounds = np.flatnonzero(np.diff(groups)) + 1
    repeats = {
        float(np.median(some_sizes)): some_times.tolist()
        for some_sizes, some_times in zip(np.split(sizes, bounds), np.split(times, bounds), strict=True)
    }
    medians = np.array([float(np.median(some)) for some in repeats.values()])
    return np.array(list(repeats)), medians, repeats, distinct if distinct > MOST_SIZES else 0


def _fit_point(sizes: Array, times: Array) -> tuple[float, float]:
    """Minimize Σ soft_l1(ln((α + βS)/t)) over α, β ≥ 0."""
    # Both unknowns are scaled to about 1, so that the solver's steps suit them.
    alpha_unit, beta_unit = float(times.min()), float((times / sizes).min())
    weights = 1 / times
    design = np.column_stack([np.ones_like(sizes), sizes]) * weights[:, None]
    start, *_ = np.linalg.lstsq(design, np.ones_like(sizes), rcond=None)
    start = np.clip(start / [alpha_unit, beta_unit], 1e-3, None)

    def residuals(unknowns: Array) -> Array:
        return np.asarray(np.log((unknowns[0] * alpha_unit + unknowns[1] * beta_unit * sizes) / times))

    def jacobian(unknowns: Array) -> Array:
        fitted = unknowns[0] * alpha_unit + unknowns[1] * beta_unit * sizes
        return np.column_stack([alpha_unit / fitted, beta_unit * sizes / fitted])

    solution = least_squares(
        residuals,
        start,
        jacobian,
        bounds=(0, np.inf),
        loss="soft_l1",
        f_scale=ROBUST_SCALE,
        x_scale="jac",
        xtol=1e-12,
        ftol=1e-12,
        gtol=1e-12,
    )
    # The solver stays inside its bounds; what is left of an unknown that wants to be 0 is noise.
    alpha, beta = (float(x) if x > 1e-6 else 0.0 for x in solution.x)
    return alpha * alpha_unit, beta * beta_unit


def _refit(sizes: Array, log_times: Array, alpha: float, beta: float, rounds: int = 12) -> tuple[Array, Array]:
    """Return the estimates of `_fit_point` for each row of `log_times` (resamples × sizes), all rows at once.

    Iteratively reweighted Gauss-Newton from the given start; a parameter that would become negative is held at 0.
    """
    a = np.full(len(log_times), alpha)
    b = np.full(len(log_times), beta)
    tiny = math.exp(float(log_times.min())) * 1e-9
    for _ in range(rounds):
        fitted = np.maximum(a[:, None] + b[:, None] * sizes, tiny)
        residual = np.log(fitted) - log_times
        # Weight of soft-L1 times that of a logarithm; the working response is where the line should go.
        weight = 1 / np.sqrt(1 + (residual / ROBUST_SCALE) ** 2) / fitted**2
        target = fitted * (1 - residual)
        w, ws, wss = weight.sum(1), (weight * sizes).sum(1), (weight * sizes**2).sum(1)
        wt, wst = (weight * target).sum(1), (weight * sizes * target).sum(1)
        determinant = w * wss - ws**2
        a_new, b_new = (wss * wt - ws * wst) / determinant, (w * wst - ws * wt) / determinant
        b = np.where(a_new < 0, np.maximum(wst / wss, 0), np.maximum(b_new, 0))
        a = np.where(b_new < 0, np.maximum(wt / w, 0), np.maximum(a_new, 0))
    return a, b


def _intervals(
    sizes: Array, times: Array, alpha: float, beta: float, resamples: int, seed: int
) -> tuple[tuple[float, float], tuple[float, float], tuple[tuple[float, float], ...]]:
    """The intervals of α and β, and pairs of both that spread as these do."""
    n = len(sizes)
    if n < 3:
        return (0.0, math.inf), (0.0, math.inf), ()  # two points fix a line and leave nothing to judge it by
    fitted = alpha + beta * sizes
    design = np.column_stack([np.ones_like(sizes), sizes]) / fitted[:, None]
    design = design / np.linalg.norm(design, axis=0)
    leverage = np.clip(np.einsum("ij,ji->i", design, np.linalg.pinv(design)), 0, 0.95)
    residual = np.log(times / fitted) / (1 - leverage)
    generator = np.random.default_rng(seed)
    webb = np.array([-math.sqrt(1.5), -1.0, -math.sqrt(0.5), math.sqrt(0.5), 1.0, math.sqrt(1.5)])
    log_times = np.log(fitted) + residual * generator.choice(webb, size=(resamples, n))
    with np.errstate(all="ignore"):  # what overflows is seen in the interval
        alphas, betas = _refit(sizes, log_times, alpha, beta)
        # α rests on the small sizes and β on the large ones: each has about half of the n − 2 degrees of freedom.
        widening = float(stdtrit(max((n - 2) / 2, 1), 0.975) / ndtri(0.975))
        spread = [np.maximum(x + widening * (xs - x), 0.0) for x, xs in ((alpha, alphas), (beta, betas))]
    kept = np.column_stack(spread)[:KEPT_PAIRS]
    pairs = tuple((float(a), float(b)) for a, b in kept) if np.isfinite(kept).all() else ()
    return _interval(alpha, alphas, widening), _interval(beta, betas, widening), pairs


def _interval(estimate: float, resampled: Array, widening: float) -> tuple[float, float]:
    low, high = np.percentile(resampled, [2.5, 97.5])
    if not math.isfinite(low + high):
        return 0.0, math.inf  # a resample that no line describes bounds nothing
    below, above = max(estimate - float(low), 0.0), max(float(high) - estimate, 0.0)
    return max(estimate - widening * below, 0.0), estimate + widening * above


def _region(sizes: Array, times: Array, inside: Any) -> RegionFit | None:
    sizes, times = sizes[inside], times[inside]
    if len(sizes) < 3:
        return None
    alpha, beta = _fit_point(sizes, times)
    worst = float(np.max(np.abs(times / (alpha + beta * sizes) - 1)))
    return RegionFit(float(sizes[0]), float(sizes[-1]), len(sizes), alpha, beta, worst)
