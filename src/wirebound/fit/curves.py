"""Does another curve than α + β·S describe a collective better? Chosen by held-out error, never by R².

Three curves, T in seconds and S in bytes, each with a physical reading:

- ``affine``: α + β·S, a start-up and then the transfer.
- ``power``: α + β·S^q, a bandwidth that keeps rising (q < 1) or falls (q > 1) with size. A bandwidth that saturates as
  B·S/(S + S½) needs no curve of its own: that is α + S/B with α = S½/B.
- ``two-segment``: α + β₁·min(S, K) + β₂·max(S − K, 0), a library that changes its protocol or algorithm at K bytes.

For compute times over the batch size (S is then a number of samples) there is, instead of the last two:

- ``floor``: max(T₀, α + β·S), a device that small batches do not fill, so that they all take the same time.

All are fitted like the affine one of `wirebound.fit.communication`: log ratios, SciPy's soft-L1 loss.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from wirebound.errors import InputError

Array = NDArray[np.float64]

#: Log residuals beyond this count linearly, as in `wirebound.fit.communication`.
ROBUST_SCALE = 0.1
#: Sizes are held out in at most this many groups, every twelfth size together.
FOLDS = 12
#: A curve needs this many sizes for each of its parameters.
SIZES_PER_PARAMETER = 2


class _Curve(NamedTuple):
    """One kind of curve: `time` from (logarithms of the parameters, sizes), `starts` from (sizes, times).

    `reach` is how far the logarithm of each parameter may move from its start: a parameter that wants to be 0 or
    infinite stops where it no longer matters.
    """

    names: tuple[str, ...]
    reach: tuple[float, ...]
    time: Callable[[Array, Array], Array]
    starts: Callable[[Array, Array], list[list[float]]]


@dataclass(frozen=True, slots=True)
class CurveFit:
    """One fitted curve: its `parameters` by name (seconds, bytes, seconds per byte, exponents).

    `held_out_errors` are the absolute ln(fitted ÷ measured) of every size, fitted without it, `held_out_error` is their
    mean, and `worst_residual` the largest absolute measured ÷ fitted − 1 of the fit to all sizes.
    """

    name: str
    parameters: Mapping[str, float]
    held_out_errors: tuple[float, ...]
    worst_residual: float

    @property
    def held_out_error(self) -> float:
        """The mean error at sizes held out."""
        return sum(self.held_out_errors) / len(self.held_out_errors)

    def time_s(self, size: float) -> float:
        """Return the seconds of `size` bytes."""
        curve = (CURVES | BATCH_CURVES)[self.name]
        logs = np.log([self.parameters[name] for name in curve.names])
        return float(curve.time(logs, np.array([size]))[0])


@dataclass(frozen=True, slots=True)
class CurveChoice:
    """All `candidates`, the affine one first, and the name of the `best`.

    Another curve than the affine one is best only where its held-out error is smaller by more than one standard error
    of the paired difference, so that four parameters must earn their place.
    """

    best: str
    candidates: tuple[CurveFit, ...]

    @property
    def fit(self) -> CurveFit:
        """The best one."""
        return next(candidate for candidate in self.candidates if candidate.name == self.best)


def _ends(sizes: Array, times: Array) -> tuple[float, float]:
    """Start-up from the smallest size, seconds per byte from the largest, as a start for a solver."""
    return float(times[0]), float(times[-1] / sizes[-1])


def _affine(logs: Array, sizes: Array) -> Array:
    alpha, beta = np.exp(logs)
    return np.asarray(alpha + beta * sizes)


def _affine_starts(sizes: Array, times: Array) -> list[list[float]]:
    return [list(np.log(_ends(sizes, times)))]


def _power(logs: Array, sizes: Array) -> Array:
    return np.asarray(math.exp(logs[0]) + np.exp(logs[1] + math.exp(logs[2]) * np.log(sizes)))


def _power_starts(sizes: Array, times: Array) -> list[list[float]]:
    starts = []
    for exponent in (0.7, 1.0, 1.3):
        beta = math.log(times[-1]) - exponent * math.log(sizes[-1])
        starts.append([math.log(times[0]), beta, math.log(exponent)])
    return starts


def _two_segment(logs: Array, sizes: Array) -> Array:
    alpha, first, second, knee = np.exp(logs)
    return np.asarray(alpha + first * np.minimum(sizes, knee) + second * np.maximum(sizes - knee, 0))


def _two_segment_starts(sizes: Array, times: Array) -> list[list[float]]:
    alpha, beta = _ends(sizes, times)
    return [
        [math.log(alpha), math.log(times[index] / sizes[index]), math.log(beta), math.log(sizes[index])]
        for index in sorted({round(share * (len(sizes) - 1)) for share in (0.25, 0.5, 0.75)})
    ]


def _floor(logs: Array, sizes: Array) -> Array:
    floor, alpha, beta = np.exp(logs)
    return np.asarray(np.maximum(floor, alpha + beta * sizes))


def _floor_starts(sizes: Array, times: Array) -> list[list[float]]:
    alpha, beta = _ends(sizes, times)
    return [
        [math.log(times[index]), math.log(alpha / 10), math.log(beta)]
        for index in sorted({round(share * (len(sizes) - 1)) for share in (0.0, 0.25, 0.5)})
    ]


#: The curves by name. To add one, write its time and its starts, and add one line.
CURVES = {
    "affine": _Curve(("alpha_s", "beta_s_per_byte"), (16, 16), _affine, _affine_starts),
    "power": _Curve(("alpha_s", "beta", "exponent"), (16, 16, 1), _power, _power_starts),
    "two-segment": _Curve(
        ("alpha_s", "beta_below_s_per_byte", "beta_above_s_per_byte", "knee_bytes"),
        (16, 16, 16, 8),
        _two_segment,
        _two_segment_starts,
    ),
}
#: Fewer sizes cannot tell the curves above apart.
ENOUGH_SIZES = SIZES_PER_PARAMETER * max(len(curve.names) for curve in CURVES.values())
#: The curves for compute times over the batch size.
BATCH_CURVES = {
    "affine": CURVES["affine"],
    "floor": _Curve(("floor_s", "alpha_s", "beta_s_per_sample"), (16, 16, 16), _floor, _floor_starts),
}


def choose_curve(
    sizes: Sequence[float], times_s: Sequence[float], curves: Mapping[str, _Curve] = CURVES
) -> CurveChoice | None:
    """Fit every one of `curves` to one time per distinct size (in rising order) and choose by held-out error.

    Returns None for fewer than `SIZES_PER_PARAMETER` sizes for each parameter of the largest curve (`ENOUGH_SIZES` for
    the default ones), which cannot tell the curves apart. Raises `InputError` where the sizes do not rise.
    """
    some_sizes, some_times = np.asarray(sizes, dtype=float), np.asarray(times_s, dtype=float)
    if np.any(np.diff(some_sizes) <= 0):
        raise InputError("the sizes of a curve must rise: give one time per distinct size")
    if len(some_sizes) < SIZES_PER_PARAMETER * max(len(curve.names) for curve in curves.values()):
        return None
    errors = {name: _held_out_errors(curve, some_sizes, some_times) for name, curve in curves.items()}
    candidates = []
    for name, curve in curves.items():
        logs = _fit(curve, some_sizes, some_times)
        fitted = curve.time(logs, some_sizes)
        candidates.append(
            CurveFit(
                name=name,
                parameters=dict(zip(curve.names, np.exp(logs).tolist(), strict=True)),
                held_out_errors=tuple(errors[name].tolist()),
                worst_residual=float(np.max(np.abs(some_times / fitted - 1))),
            )
        )
    best = "affine"
    for candidate in sorted(candidates, key=lambda one: one.held_out_error):
        gained = errors["affine"] - errors[candidate.name]
        if candidate.name != "affine" and gained.mean() > gained.std(ddof=1) / math.sqrt(len(gained)):
            best = candidate.name
            break
    return CurveChoice(best, tuple(candidates))


def _held_out_errors(curve: _Curve, sizes: Array, times: Array) -> Array:
    """|ln(fitted ÷ measured)| of every size, fitted without its group of sizes."""
    errors = np.empty(len(sizes))
    folds = min(FOLDS, len(sizes))
    for fold in range(folds):
        out = np.arange(len(sizes)) % folds == fold
        logs = _fit(curve, sizes[~out], times[~out])
        errors[out] = np.abs(np.log(curve.time(logs, sizes[out]) / times[out]))
    return errors


def _fit(curve: _Curve, sizes: Array, times: Array) -> Array:
    """Minimize Σ soft_l1(ln(T/t)) over the logarithms of the parameters, from every start; the best end."""

    def residuals(logs: Array) -> Array:
        return np.asarray(np.log(curve.time(logs, sizes) / times))

    solutions = []
    for start in curve.starts(sizes, times):
        centre = np.asarray(start)
        bounds = (centre - curve.reach, centre + curve.reach)
        solutions.append(
            least_squares(residuals, centre, bounds=bounds, loss="soft_l1", f_scale=ROBUST_SCALE, max_nfev=60)
        )
    best = min(solutions, key=lambda solution: float(solution.cost))
    return np.asarray(best.x)
