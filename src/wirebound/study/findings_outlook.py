"""Verdicts on the survey's outlook for compression: each is a function of results, so that other data give another."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from wirebound.study.findings import FAILS, HOLDS, IN_PART, OPEN, Finding


def mean_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float, float]:
    """Return the mean and its interval at `level`, by Student's t: of independent runs, such as seeds.

    One value alone has an interval without ends.
    """
    from scipy import stats

    mean = math.fsum(values) / len(values)
    if len(values) < 2:
        return mean, -math.inf, math.inf
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
    half = float(stats.t.ppf((1 + level) / 2, len(values) - 1)) * spread / math.sqrt(len(values))
    return mean, mean - half, mean + half


def paired_difference(
    rows: Sequence[Mapping[str, Any]], variant: str, baseline: str, value: str = "accuracy"
) -> tuple[float, float, float]:
    """Return the mean of a variant's values minus the baseline's of the same seed, with its 95 % interval."""
    found = {(row["variant"], row["seed"]): row[value] for row in rows}
    seeds = sorted(seed for name, seed in found if name == variant)
    return mean_interval([found[variant, seed] - found[baseline, seed] for seed in seeds])


def _points(interval: tuple[float, float, float]) -> str:
    mean, low, high = (100 * value for value in interval)
    return f"{mean:+.1f} points ({low:+.1f} to {high:+.1f})"


def _compared(differences: Mapping[str, tuple[float, float, float]]) -> str:
    return "; ".join(f"{name}: {_points(interval)}" for name, interval in differences.items())


def _judged(better: Sequence[bool], unclear: Sequence[bool]) -> str:
    """The verdict on "it is better", by setting: open where it is shown nowhere and an interval includes zero."""
    if any(better):
        return HOLDS if all(better) else IN_PART
    return OPEN if any(unclear) else FAILS


def _includes_zero(interval: tuple[float, float, float]) -> bool:
    return interval[1] <= 0 <= interval[2]


def _clear(differences: Mapping[str, tuple[float, float, float]]) -> str:
    intervals = list(differences.values())
    return _judged([low > 0 for _, low, _ in intervals], [_includes_zero(interval) for interval in intervals])


def _unclear(differences: Mapping[str, tuple[float, float, float]]) -> str:
    """The sentence that names the settings whose interval includes zero, empty without any."""
    names = [name for name, interval in differences.items() if _includes_zero(interval)]
    return f" Left open, for the 95 % interval includes zero: {'; '.join(names)}." if names else ""


def uniform_baseline(row: Mapping[str, Any]) -> tuple[float, float]:
    """Return the shortest step that treats all tensors alike, in seconds, and the share of values it does not send.

    It is the step of nothing compressed where that is at most as long as the best single share's.
    """
    if row["nothing_s"] <= row["everything_s"]:
        return row["nothing_s"], 0.0
    return row["everything_s"], row["everything_lost_share"]


def exposed_only(rows: Sequence[Mapping[str, Any]], *, worth: float = 0.1) -> Finding:
    """Judge "ratios by tensor pay: the same step time, more values sent", on predicted steps.

    `rows` are those of `outlook_choice.choice_row`. A setting counts where the chosen step is no longer than that of
    `uniform_baseline` (to one percent), and the share of values not sent in their step is smaller by `worth`.
    """
    uniform = [uniform_baseline(row) for row in rows]
    pays = [
        row["chosen_s"] <= 1.01 * seconds and row["chosen_lost_share"] <= lost - worth
        for row, (seconds, lost) in zip(rows, uniform, strict=True)
    ]
    shorter = [row for row, (seconds, _) in zip(rows, uniform, strict=True) if row["chosen_s"] < 0.99 * seconds]
    least = min(rows, key=lambda row: row["chosen_lost_share"])
    most = max(rows, key=lambda row: row["chosen_lost_share"])
    evidence = (
        f"In {sum(pays)} of {len(rows)} settings the chosen tensors give a step as short as the best choice for all"
        f" tensors alike (one share, or nothing compressed), and at least {100 * worth:.0f} points more of the values"
        f" are sent in their step; in {len(shorter)} the step is shorter by over 1 %. Not sent in their step are from"
        f" {100 * least['chosen_lost_share']:.0f} % ({_setting(least)})"
        f" to {100 * most['chosen_lost_share']:.1f} % ({_setting(most)})."
    )
    for row in rows:
        if row["nothing_s"] <= row["everything_s"]:
            evidence += (
                f" For {_setting(row)} the best choice for all alike is to compress nothing:"
                f" {1e3 * row['nothing_s']:.0f} ms against {1e3 * row['everything_s']:.0f} ms with the best share;"
                f" the chosen step takes {1e3 * row['chosen_s']:.0f} ms."
            )
    verdict = HOLDS if all(pays) else IN_PART if any(pays) else FAILS
    return Finding(
        "Choosing the ratio tensor by tensor sends more values in their step, at the same step time.", verdict, evidence
    )


def _setting(row: Mapping[str, Any]) -> str:
    return f"{row['workload']}, {row['workers']} workers, {row['gbps']:g} Gbps"


def selective_learns_better(differences: Mapping[str, tuple[float, float, float]]) -> Finding:
    """Judge "at the same step time, chosen ratios reach a higher accuracy than one ratio".

    `differences` maps each task to the mean difference of the final accuracy (0 to 1) with its 95 % interval.
    """
    return Finding(
        "At the same predicted step time, ratios chosen tensor by tensor reach a higher accuracy than one ratio.",
        _clear(differences),
        f"Chosen minus uniform, over seeds: {_compared(differences)}.{_unclear(differences)}",
    )


def rounds_matter(differences: Mapping[str, Mapping[str, tuple[float, float, float]]]) -> Finding:
    """Judge "ratios that change over rounds beat a constant one that sends the same bytes".

    `differences` maps each task to the schedules' differences of final accuracy (0 to 1) from the constant one's. It
    holds where for every task the interval of some schedule lies above zero, and is open where none does but one
    includes zero.
    """
    better = {
        task: [name for name, (_, low, _) in schedules.items() if low > 0] for task, schedules in differences.items()
    }
    worse = {
        task: [name for name, (_, _, high) in schedules.items() if high < 0] for task, schedules in differences.items()
    }
    evidence = "Final accuracy minus that of the constant ratio: " + ". ".join(
        f"On {task} {_compared(schedules)}" for task, schedules in differences.items()
    )
    for what, found in (("Better", better), ("Worse", worse)):
        named = [f"{', '.join(names)} on {task}" for task, names in found.items() if names]
        evidence += f". {what}, with zero outside the 95 % interval: {'; '.join(named) if named else 'none'}"
    unclear = [_includes_zero(interval) for schedules in differences.values() for interval in schedules.values()]
    verdict = _judged([bool(names) for names in better.values()], unclear)
    return Finding("Ratios that change over rounds pay at equal bytes.", verdict, evidence + ".")


def adaptive_pays(differences: Mapping[str, tuple[float, float, float]], against: str) -> Finding:
    """Judge "watching gradient norms (Accordion) beats the fixed schedule `against` that sends the same bytes"."""
    return Finding(
        f"Adapting the ratio to the gradients' norms beats {against} with the same bytes.",
        _clear(differences),
        f"Adaptive minus {against}: {_compared(differences)}.{_unclear(differences)}",
    )


def gradients_repeat(energies: Mapping[str, float]) -> Finding:
    """Judge "successive gradients are so alike that their difference has less energy than the gradient".

    `energies` maps each setting to the energy of the differences ÷ that of what is sent.
    """
    smaller = [energy < 1 for energy in energies.values()]
    listed = "; ".join(f"{name}: {energy:.2f}" for name, energy in energies.items())
    return Finding(
        "The difference to the last step has less energy than the gradient itself.",
        HOLDS if all(smaller) else IN_PART if any(smaller) else FAILS,
        f"Energy of the difference over that of what is sent: {listed}. Below one, sending the difference can save.",
    )


def differences_pay(differences: Mapping[str, Mapping[str, tuple[float, float, float]]]) -> Finding:
    """Judge "sending differences reaches a higher accuracy than plain error feedback at equal bytes".

    `differences` maps each task to, for each kind of what is sent, the difference of final accuracy (0 to 1).
    """
    flat = {f"{task}, {sent}": interval for task, sents in differences.items() for sent, interval in sents.items()}
    worse = [name for name, (_, _, high) in flat.items() if high < 0]
    evidence = f"Difference coding minus error feedback: {_compared(flat)}.{_unclear(flat)}"
    if worse:
        evidence += f" Worse, with zero outside the 95 % interval: {'; '.join(worse)}."
    return Finding("Predicting from the last step pays, at equal bytes.", _clear(flat), evidence)
