"""Tables from a recording of `record_convergence`: runs, what each method reaches, and how many steps it needs."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from wirebound.study.convergence import TUNING_SEED
from wirebound.techniques.learning.runs import Curve, curve_of

#: What tells two methods of one task apart.
SETTINGS = ("task", "compressor", "error_feedback", "warm_up", "learning_rate")


class Interval(NamedTuple):
    """A mean and its 95 % interval over seeds; both bounds are the mean where there is one value."""

    mean: float
    low: float
    high: float


def interval(values: Sequence[float]) -> Interval:
    """Return Student's interval for the mean of independent values; NaN of none."""
    from scipy.stats import t

    count = len(values)
    if not count:
        return Interval(math.nan, math.nan, math.nan)
    mean = sum(values) / count
    if count == 1:
        return Interval(mean, mean, mean)
    variance = sum((value - mean) ** 2 for value in values) / (count - 1)
    half = float(t.ppf(0.975, count - 1)) * math.sqrt(variance / count)
    return Interval(mean, mean - half, mean + half)


def ratio_interval(ratios: Sequence[float]) -> Interval:
    """Return the geometric mean of ratios with its interval: that of their logarithms."""
    return Interval(*(math.exp(value) for value in interval([math.log(ratio) for ratio in ratios])))


def curves_of(document: Mapping[str, Any], seeds: int | None = None) -> list[Curve]:
    """Return the curves of a recording without those that chose learning rates, of the first `seeds` seeds."""
    curves = [curve_of(fields) for fields in document["curves"]]
    return [curve for curve in curves if curve.run.seed < (TUNING_SEED if seeds is None else seeds)]


def steps_to(curve: Curve, accuracy: float) -> float | None:
    """Return the step at which the curve first reaches an accuracy, between points by proportion; None: never."""
    before = curve.points[0]
    for point in curve.points:
        if point.accuracy >= accuracy:
            rise = point.accuracy - before.accuracy
            share = (accuracy - before.accuracy) / rise if rise > 0 else 1.0
            return before.step + share * (point.step - before.step)
        before = point
    return None


def points_table(curves: Sequence[Curve]) -> pd.DataFrame:
    """Return one row for each point of each curve: its settings, seed, step, payload bytes, loss, accuracy."""
    return pd.DataFrame(
        [_settings(curve) | {"seed": curve.run.seed} | point._asdict() for curve in curves for point in curve.points]
    )


def runs_table(curves: Sequence[Curve], rates: Mapping[str, float], target_share: float) -> pd.DataFrame:
    """Return one row for each run, beside the run without compression of the same task and seed, at the task's rate.

    `accuracy` is the mean of the last three points, `lost` the plain run's accuracy less that (0 to 1), `saved` the
    share of payload bytes that a step does not send. The target is `target_share` of what plain runs of the task reach
    on average; `steps` to it are None where a run does not reach it, and `steps_ratio` compares with the plain run.
    Runs whose plain run is missing are left out.
    """
    plain = {
        (curve.run.data, curve.run.seed): curve
        for curve in curves
        if curve.run.compressor is None and curve.run.learning_rate == rates[curve.run.data]
    }
    targets = {}
    for task in {data for data, _ in plain}:
        reached = [curve.last_accuracy for (data, _), curve in plain.items() if data == task]
        targets[task] = target_share * sum(reached) / len(reached)
    rows = []
    for curve in curves:
        beside = plain.get((curve.run.data, curve.run.seed))
        if beside is None:
            continue
        target = targets[curve.run.data]
        steps, plain_steps = steps_to(curve, target), steps_to(beside, target)
        both = steps is not None and plain_steps is not None and curve.diverged_at is None
        rows.append(
            _settings(curve)
            | {
                "seed": curve.run.seed,
                "diverged": curve.diverged_at is not None,
                "accuracy": curve.last_accuracy,
                "lost": beside.last_accuracy - curve.last_accuracy,
                "saved": 1 - _last_step_bytes(curve) / _last_step_bytes(beside),
                "target": target,
                "steps": steps if both else math.nan,
                "steps_ratio": steps / plain_steps if both and steps and plain_steps else math.nan,
            }
        )
    return pd.DataFrame(rows)


def methods_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each method of each task: means and 95 % intervals over seeds, and how many seeds arrived.

    Runs that diverged are counted in `diverged`, not in the means: NaN where all did. `steps_ratio` is NaN where some
    seed did not reach the target: the mean of those that did would be too low.
    """
    rows = []
    for settings, group in runs.groupby(list(SETTINGS), sort=False):
        stable = group[~group["diverged"]]
        accuracy, lost = interval(list(stable["accuracy"])), interval(list(stable["lost"]))
        ratios = list(group["steps_ratio"].dropna())
        steps = ratio_interval(ratios if len(ratios) == len(group) else [])
        rows.append(
            dict(zip(SETTINGS, settings, strict=True))
            | {"seeds": len(group), "diverged": int(group["diverged"].sum()), "arrived": len(ratios)}
            | {"saved": float(group["saved"].mean())}
            | _named("accuracy", accuracy)
            | _named("lost", lost)
            | _named("steps_ratio", steps)
        )
    return pd.DataFrame(rows)


def plain_methods(
    methods: pd.DataFrame, task: str, compressors: Sequence[str], rates: Mapping[str, float]
) -> pd.DataFrame:
    """Return a task's rows of the comparison, in a given order: error feedback on, no warm-up, at these rates."""
    rows = methods[(methods["task"] == task) & methods["error_feedback"] & ~methods["warm_up"]]
    rows = rows[[row.learning_rate == rates.get(row.compressor, rates["none"]) for row in rows.itertuples()]]
    known = [name for name in compressors if name in set(rows["compressor"])]
    return rows.set_index("compressor").loc[known].reset_index()


def _named(name: str, found: Interval) -> dict[str, float]:
    return {name: found.mean, f"{name}_low95": found.low, f"{name}_high95": found.high}


def _settings(curve: Curve) -> dict[str, Any]:
    run = curve.run
    values = (run.data, run.label, run.error_feedback, run.warm_up_steps > 0, run.learning_rate)
    return dict(zip(SETTINGS, values, strict=True))


def _last_step_bytes(curve: Curve) -> float:
    """Payload bytes of a step between the last two points: after warm-up, where there is one; NaN without two."""
    if len(curve.points) < 2:
        return math.nan
    before, last = curve.points[-2:]
    return (last.sent_bytes - before.sent_bytes) / (last.step - before.step)
