"""How does compute time grow with the batch? T(b) = T₀ + T₁·b for forward and for backward, and where that fails.

T₀ is what every step costs whatever its samples (launching, updating, memory that a layer's weights need), T₁ the time
of one more sample. Scaling in proportion, T(b) = T(b₀)·b/b₀, says that T₀ is 0.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from wirebound.errors import InputError
from wirebound.fit.communication import fit_communication
from wirebound.fit.curves import BATCH_CURVES, CurveChoice, choose_curve
from wirebound.fit.verdict import ENOUGH_SIZES, RESIDUAL_LIMIT
from wirebound.model import Workload


class BatchSample(Protocol):
    """Steps measured at one batch size, in seconds, such as `wirebound.profile.schema.BatchTiming`."""

    @property
    def batch_size(self) -> int: ...
    @property
    def forward_s(self) -> tuple[float, ...]: ...
    @property
    def backward_s(self) -> tuple[float, ...]: ...


@dataclass(frozen=True, slots=True)
class BatchFit:
    """T(b) = `fixed_s` + `per_sample_s`·b seconds, with 95 % intervals.

    `batches` and `times_s` are the fitted points, one per batch size in rising order, the median where there were
    several times. `relative_residuals` are measured ÷ fitted − 1. `curves` compares the line with a floor (see
    `wirebound.fit.curves`), None where the batches are too few for that. `flags` are the reasons to doubt the line:
    ``too-few-batches``, ``narrow-range`` (largest ÷ smallest below 8), ``flat-small-batches`` (a floor describes them
    better), ``large-residuals``, ``per-sample-unresolved`` (its interval reaches 0). `verdict` says it in words.
    """

    fixed_s: float
    per_sample_s: float
    fixed_ci95: tuple[float, float]
    per_sample_ci95: tuple[float, float]
    batches: tuple[int, ...]
    times_s: tuple[float, ...]
    relative_residuals: tuple[float, ...]
    curves: CurveChoice | None
    flags: tuple[str, ...]
    verdict: str

    def time_s(self, batch: float) -> float:
        """Return the fitted seconds of `batch` samples."""
        return self.fixed_s + self.per_sample_s * batch

    def fixed_share(self, batch: float) -> float:
        """Return the share of the fitted time of `batch` samples that does not grow with them."""
        return self.fixed_s / self.time_s(batch)


@dataclass(frozen=True, slots=True)
class BatchScaling:
    """The lines of forward and backward."""

    forward: BatchFit
    backward: BatchFit

    def applied_to(self, workload: Workload) -> Workload:
        """Return the workload with its times as they are, and these lines where `with_batch` would scale them."""
        return dataclasses.replace(
            workload,
            fixed_forward=self.forward.fixed_share(workload.batch_size),
            fixed_backward=self.backward.fixed_share(workload.batch_size),
        )

    @property
    def doubts(self) -> str | None:
        """The verdicts of the lines that have flags, None where there are none."""
        doubted = [f"{name}: {fit.verdict}" for name, fit in self._named() if fit.flags]
        return "; ".join(doubted) or None

    def _named(self) -> tuple[tuple[str, BatchFit], ...]:
        return ("forward", self.forward), ("backward", self.backward)


@dataclass(frozen=True, slots=True)
class ScalingError:
    """How wrong two rules are at one batch size: predicted ÷ measured − 1.

    `proportional` scales the time at the base batch, `line` is fitted without this batch's own times.
    """

    batch: int
    measured_s: float
    proportional: float
    line: float


def fit_batch_times(
    batches: Sequence[int], times_s: Sequence[float], *, resamples: int = 1000, seed: int = 0
) -> BatchFit:
    """Fit T(b) = T₀ + T₁·b to the times of steps in seconds, by ratio, with outliers damped.

    The solver and the intervals are those of `wirebound.fit.communication.fit_communication`, with samples instead of
    bytes; raises `InputError` as it does, also for batches below 1.
    """
    if batches and min(batches) < 1:
        raise InputError(f"batch {min(batches)} must be at least 1")
    fit = fit_communication(batches, times_s, resamples=resamples, seed=seed)
    sizes = tuple(int(size) for size in fit.sizes)
    curves = choose_curve(fit.sizes, fit.times_s, BATCH_CURVES)
    flags, verdict = _assess(sizes, fit.relative_residuals, fit.alpha_ci95, fit.beta_ci95, curves)
    return BatchFit(
        fixed_s=fit.alpha_s,
        per_sample_s=fit.beta_s_per_byte,
        fixed_ci95=fit.alpha_ci95,
        per_sample_ci95=fit.beta_ci95,
        batches=sizes,
        times_s=fit.times_s,
        relative_residuals=fit.relative_residuals,
        curves=curves,
        flags=flags,
        verdict=verdict,
    )


def fit_batch_scaling(samples: Sequence[BatchSample], *, resamples: int = 1000, seed: int = 0) -> BatchScaling:
    """Fit both lines to the batch samples of a profile; raises `InputError` for fewer than two batch sizes."""
    fits = []
    for times in ([sample.forward_s for sample in samples], [sample.backward_s for sample in samples]):
        batches = [sample.batch_size for sample, some in zip(samples, times, strict=True) for _ in some]
        flat = [time for some in times for time in some]
        fits.append(fit_batch_times(batches, flat, resamples=resamples, seed=seed))
    return BatchScaling(*fits)


def scaling_errors(batches: Sequence[int], times_s: Sequence[float], *, base: int) -> tuple[ScalingError, ...]:
    """Compare scaling in proportion from the batch `base` with the line, at every other batch size.

    There is one time in seconds per batch size, in rising order. The line is fitted to all batches but the one that it
    predicts. Raises `InputError` where `base` was not measured, or fewer than three batch sizes were.
    """
    if base not in batches:
        raise InputError(f"batch {base} was not measured: choose one of {', '.join(map(str, batches))}")
    if len(batches) < 3:
        raise InputError(f"{len(batches)} batch sizes are too few to hold one out: measure three at least")
    base_s = times_s[list(batches).index(base)]
    errors = []
    for index, (batch, measured_s) in enumerate(zip(batches, times_s, strict=True)):
        if batch == base:
            continue
        others = [(b, t) for other, (b, t) in enumerate(zip(batches, times_s, strict=True)) if other != index]
        line = fit_communication([b for b, _ in others], [t for _, t in others], resamples=2)
        errors.append(
            ScalingError(batch, measured_s, base_s * batch / base / measured_s - 1, line.time_s(batch) / measured_s - 1)
        )
    return tuple(errors)


def _assess(
    batches: Sequence[int],
    residuals: Sequence[float],
    fixed_ci95: tuple[float, float],
    per_sample_ci95: tuple[float, float],
    curves: CurveChoice | None,
) -> tuple[tuple[str, ...], str]:
    """Return (flags, verdict) of a line over the batch."""
    findings: list[tuple[str, str]] = []
    if len(batches) < ENOUGH_SIZES:
        findings.append(("too-few-batches", f"{len(batches)} batch sizes are too few to judge a line: use 5"))
    if batches[-1] / batches[0] < 8:
        findings.append(("narrow-range", "the largest batch is less than 8 times the smallest"))
    if curves is not None and curves.best == "floor":
        floor_s = curves.fit.parameters["floor_s"]
        flat = [batch for batch in batches if math.isclose(curves.fit.time_s(batch), floor_s, rel_tol=1e-9)]
        if len(flat) > 1:
            findings.append(
                ("flat-small-batches", f"batches up to {flat[-1]} all take the same time: they do not fill the device")
            )
    wrong = [batch for batch, residual in zip(batches, residuals, strict=True) if abs(residual) > RESIDUAL_LIMIT]
    if wrong:
        worst = max(abs(residual) for residual in residuals)
        named = ", ".join(map(str, wrong))
        findings.append(("large-residuals", f"the line is off by up to {worst:.0%}, at the batches {named}"))
    if len(batches) > 2 and per_sample_ci95[0] == 0:
        findings.append(("per-sample-unresolved", "the interval of the time of a sample reaches 0"))
    if findings:
        return tuple(flag for flag, _ in findings), "; ".join(text for _, text in findings)
    worst = max(abs(residual) for residual in residuals)
    verdict = f"T₀ + T₁·b describes all {len(batches)} batch sizes within {worst:.1%}"
    if fixed_ci95[0] == 0:
        verdict += "; the interval of T₀ reaches 0, so the time may well be in proportion to the batch"
    return (), verdict
