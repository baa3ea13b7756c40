"""Verdicts on what the survey says about consistency protocols; see `findings`."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from wirebound.study.findings import FAILS, OPEN, Finding, _each, _listing, _verdict


class Interval(NamedTuple):
    """A mean and its 95 % interval."""

    mean: float
    low: float
    high: float

    def text(self, unit: str = "") -> str:
        """Return it printed with two decimals, such as ``−1.20 points (−2.00 to −0.40)``."""
        return f"{self.mean:+.2f}{unit} ({self.low:+.2f} to {self.high:+.2f})".replace("-", "−")


def mean_interval(values: Sequence[float]) -> Interval:
    """Return the mean and its 95 % interval by Student's t, for values that are independent and about normal.

    Raises `ValueError` for fewer than two.
    """
    from scipy.stats import t

    if len(values) < 2:
        raise ValueError(f"{len(values)} value: an interval needs at least two")
    mean = math.fsum(values) / len(values)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
    half = float(t.ppf(0.975, len(values) - 1)) * spread / math.sqrt(len(values))
    return Interval(mean, mean - half, mean + half)


def good_speed_up(protocol: str, gains: Mapping[str, float], at_least: float) -> Finding:
    """Judge "the speed-up is very good": true for settings with at least `at_least` times the steps of BSP.

    `gains` maps each setting to the steps per second of the protocol ÷ those of BSP.
    """
    return Finding(
        f"The speed-up of {protocol} is very good.",
        _verdict([gain >= at_least for gain in gains.values()]),
        f"Steps per second over those of BSP: {_each(gains, '{:.2f}×')}; {at_least:g}× counts as very good.",
    )


def scales_to_many(efficiency: Mapping[str, float], at_least: float, few: int, many: int) -> Finding:
    """Judge "asynchronous protocols scale to many workers": true for settings that keep `at_least` of their efficiency.

    `efficiency` maps each setting to steps per second and worker with `many` workers ÷ those with `few`.
    """
    return Finding(
        "Asynchronous protocols scale to many nodes.",
        _verdict([value >= at_least for value in efficiency.values()]),
        f"Steps per second and worker with {many} workers over those with {few}: "
        f"{_each(efficiency, '{:.2f}')}; {at_least:g} or more counts as high.",
    )


def hurts_convergence(protocol: str, differences: Mapping[str, Interval], little: float = 1.0) -> Finding:
    """Judge "the protocol hurts convergence": true for settings whose whole interval lies below zero.

    `differences` maps each setting to its accuracy minus that of BSP after as many samples, in points, over seeds. With
    no such setting, the question stays open unless every interval rules out a loss of more than `little` points.
    """
    hurt = [name for name, interval in differences.items() if interval.high < 0]
    better = [name for name, interval in differences.items() if interval.low > 0]
    evidence = "Accuracy after as many samples as BSP, minus that of BSP, mean and 95 % interval over seeds: "
    evidence += _listing([f"{name} {interval.text(' points')}" for name, interval in differences.items()]) + "."
    unclear = [name for name in differences if name not in hurt and name not in better]
    if unclear:
        evidence += f" For {_listing(unclear)} the interval includes zero."
    verdict = _verdict([name in hurt for name in differences])
    if verdict == FAILS and any(interval.low < -little for interval in differences.values()):
        verdict = OPEN
        evidence += f" No harm is shown, and a loss of more than {little:g} in a hundred is not ruled out."
    return Finding(f"{protocol} hurts convergence.", verdict, evidence)


def staleness_is_others(staleness: Mapping[str, float], others: Mapping[str, int], within: float = 0.05) -> Finding:
    """Judge "the staleness of ASP is about P − 1": true within a share of it.

    `staleness` maps each setting to its mean staleness, `others` to P − 1.
    """
    return Finding(
        "Under ASP an update of one of P workers is P − 1 updates stale on average.",
        _verdict([abs(value / others[name] - 1) <= within for name, value in staleness.items()]),
        f"Mean staleness: {_listing([f'{name} {value:.2f} of {others[name]}' for name, value in staleness.items()])}.",
    )


def keeps_its_promise(bound: int, largest: Mapping[str, int]) -> Finding:
    """Judge "no worker gets further ahead than the bound of SSP": `largest` maps each run to the clocks seen."""
    return Finding(
        f"Under SSP no worker reads parameters more than {bound} clocks ahead of the slowest.",
        _verdict([value <= bound for value in largest.values()]),
        f"Furthest ahead in any step: {_listing([f'{name} {value}' for name, value in largest.items()])}.",
    )


def who_waits_keeps_the_slowest_pace(
    paces: Mapping[str, float], factor: float, asp: float, within: float = 0.15
) -> Finding:
    """Judge "whoever waits, however rarely, ends at the pace of a worker that is slow for good".

    `paces` maps each protocol but ASP to the mean steps of a worker per second ÷ those of the slow worker computing
    alone, which is `factor` times as slow as the others; `asp` is the same for ASP. The claim holds where the pace is
    at most a share `within` above the slow worker's.
    """
    return Finding(
        "Only ASP outruns a worker that is slow for good; bounds, periods and fewer neighbours do not.",
        _verdict([value <= 1 + within for value in paces.values()] + [asp > 1 + within]),
        f"With one worker {factor:g} times as slow, the mean worker goes at this many times its pace: "
        f"{_each(paces, '{:.2f}')}; under ASP {asp:.2f}.",
    )
