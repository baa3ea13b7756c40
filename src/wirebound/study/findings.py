"""Verdicts on published claims: each is a function of results, so that other data give another verdict."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

HOLDS, IN_PART, FAILS = "holds", "holds in part", "does not hold"
OPEN = "is left open by these runs"


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim, the verdict on it, and the sentence with the numbers that decide it."""

    claim: str
    verdict: str
    evidence: str

    def markdown(self) -> str:
        """Return the finding as one Markdown paragraph."""
        return f"**Claim.** {self.claim}\n\n**It {self.verdict}.** {self.evidence}"


def _verdict(outcomes: Sequence[bool]) -> str:
    if all(outcomes):
        return HOLDS
    return IN_PART if any(outcomes) else FAILS


def _listing(names: Sequence[str]) -> str:
    if len(names) < 2:
        return "".join(names)
    return ", ".join(names[:-1]) + " and " + names[-1]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _points(number: float) -> str:
    return f"{number:g} point" if number == 1 else f"{number:g} points"


def _tenths(number: float) -> str:
    text = f"{number:.1f}"
    return "0.0" if text == "-0.0" else text


def _each(values: Mapping[str, float], form: str) -> str:
    return _listing([f"{name} {form.format(value)}" for name, value in values.items()])


def used_bandwidth(used_gbps: Mapping[str, float], claimed_gbps: float, link_gbps: float) -> Finding:
    """Judge "training uses about `claimed_gbps` of the link": true where a model is within 15 % of the claim.

    `used_gbps` maps each model to the bandwidth in Gbps that it was measured to use.
    """
    near = [name for name, value in used_gbps.items() if abs(value / claimed_gbps - 1) <= 0.15]
    others = {name: value for name, value in used_gbps.items() if name not in near}
    evidence = f"Measured: {_each(used_gbps, '{:.1f} Gbps')} of {link_gbps:g}."
    if near and others:
        largest = near == [max(used_gbps, key=lambda name: used_gbps[name])]
        low, high = f"{min(others.values()):.0f}", f"{max(others.values()):.0f}"
        evidence += (
            f" The figure is that of {_listing(near)}{', the largest' if largest else ''}; {_listing(list(others))} "
        )
        evidence += f"{'uses' if len(others) == 1 else 'use'} {low if low == high else f'{low}–{high}'} Gbps."
    return Finding(
        f"During training about {claimed_gbps:g} of {link_gbps:g} Gbps are used.",
        _verdict([name in near for name in used_gbps]),
        evidence,
    )


#: A link is lightly loaded below this share of its rate, idle below the second, full from the third.
LIGHTLY_LOADED, IDLE, FULL = 0.5, 0.1, 0.9
#: A link swings between idle and full where it spends this share of the time at least in each.
SWINGS = 0.05


def bursty_link(busy: Sequence[float], seconds: Sequence[float], span_ms: float) -> Finding:
    """Judge "lightly loaded on average, but swinging between full and idle": each half is true or false by itself.

    `busy` is the utilization (0 to 1) of one link in neighbouring spans, `seconds` how long each is, about `span_ms`
    milliseconds.
    """
    whole = sum(seconds)
    mean = sum(share * time for share, time in zip(busy, seconds, strict=True)) / whole
    idle = sum(time for share, time in zip(busy, seconds, strict=True) if share < IDLE) / whole
    full = sum(time for share, time in zip(busy, seconds, strict=True) if share >= FULL) / whole
    return Finding(
        "Links are lightly loaded on average, but swing between full and idle at the scale of milliseconds.",
        _verdict([mean < LIGHTLY_LOADED, min(idle, full) >= SWINGS]),
        f"Over whole steps the link of this recording is {mean:.0%} busy. In spans of {span_ms:g} ms it is idle (below"
        f" {IDLE:.0%}) {idle:.0%} of the time, and full (from {FULL:.0%} up) {full:.0%} of it.",
    )


def ratio_suffices(
    needed: Mapping[str, float | None], at_limit: Mapping[str, float], limit: float, *, link_gbps: float, target: float
) -> Finding:
    """Judge "compression by at most `limit` is enough": true for models whose needed ratio is within it.

    `needed` maps each model to the smallest ratio that reaches the scaling factor `target` (0 to 1) at `link_gbps`
    (None: none does), `at_limit` to its scaling factor in percent at the limit.
    """
    enough = [name for name, ratio in needed.items() if ratio is not None and ratio <= limit]
    missing = [name for name in needed if name not in enough]
    ratios = _listing([f"{name} {'no ratio' if ratio is None else f'{ratio:.2f}×'}" for name, ratio in needed.items()])
    evidence = f"Needed for {100 * target:g} %: {ratios}."
    if missing:
        evidence += f" At {limit:g}× the scaling factor of {_each({n: at_limit[n] for n in missing}, 'is {:.0f} %')}."
    return Finding(
        f"At {link_gbps:g} Gbps a compression ratio of at most {limit:g}× is enough for almost linear scaling.",
        _verdict([name in enough for name in needed]),
        evidence,
    )


def upper_bound(
    cases: Sequence[tuple[str, float, float]],
    reading_error: float,
    simulation: str = "The simulation of a fully used network",
) -> Finding:
    """Judge "the simulation is an upper bound of what is measured".

    `cases` are (setting, measured, simulated) scaling factors in percent; a measured value more than
    `reading_error` points above the simulated one is a violation.
    """
    violations = [case for case in cases if case[1] > case[2] + reading_error]
    verdict = HOLDS if not violations else FAILS if len(violations) == len(cases) else IN_PART
    if violations:
        listed = _listing([f"{name}: {measured:.1f} % against {bound:.1f} %" for name, measured, bound in violations])
        lie = "lies" if len(violations) == 1 else "lie"
        evidence = f"{len(violations)} of {len(cases)} measured points {lie} above the simulated bound ({listed})."
    else:
        evidence = f"None of {len(cases)} measured points lies above the simulated bound."
    return Finding(f"{simulation} is an upper bound of the measured scaling factor.", verdict, evidence)


def one_bandwidth(effective_gbps: Mapping[str, Sequence[float]], spread: float = 1.25) -> Finding:
    """Judge "one effective bandwidth explains the measured scaling factors of all models".

    `effective_gbps` maps each model to the bandwidths in Gbps that explain its measured scaling factors; the claim
    holds when the largest of the models' medians is at most `spread` times the smallest.
    """
    medians = {name: sorted(values)[len(values) // 2] for name, values in effective_gbps.items()}
    ranges = _listing([f"{name} {min(values):.0f}–{max(values):.0f} Gbps" for name, values in effective_gbps.items()])
    ratio = max(medians.values()) / min(medians.values())
    return Finding(
        "One effective bandwidth explains the measured scaling of all models.",
        HOLDS if ratio <= spread else FAILS,
        f"The bandwidth that explains the measured scaling factors is {ranges}: {ratio:.1f}× apart.",
    )


def reproducible(published: Sequence[tuple[str, float, float]], reading_error: float) -> Finding:
    """Judge "the published simulation is its arithmetic": (setting, published, arithmetic) in percent.

    It holds when every published value is within `reading_error` points of the arithmetic.
    """
    worst = max(published, key=lambda case: abs(case[1] - case[2]))
    outside = [case for case in published if abs(case[1] - case[2]) > reading_error]
    return Finding(
        "The published simulation gives what its arithmetic gives.",
        _verdict([case not in outside for case in published]),
        f"{len(published) - len(outside)} of {len(published)} published values lie within {reading_error:g} points of "
        f"the arithmetic; the farthest is {worst[0]}: {worst[1]:.1f} % published, {worst[2]:.1f} % computed.",
    )


def almost_linear(scaling_percent: Mapping[str, float], threshold: float, link_gbps: float) -> Finding:
    """Judge "with the network fully used, scaling is almost linear": at least `threshold` percent for every model."""
    return Finding(
        f"With a fully used network of {link_gbps:g} Gbps, the scaling factor is close to one.",
        _verdict([value >= threshold for value in scaling_percent.values()]),
        f"Simulated: {_each(scaling_percent, '{:.1f} %')}.",
    )


def limited_gain(gains: Mapping[str, float], limit: float, slower: Sequence[str]) -> Finding:
    """Judge "scheduling of communication gives a limited speed-up".

    `gains` maps each setting to the throughput of its best schedule ÷ that of BSP on the same architecture; a gain is
    limited when it is below `limit`. `slower` names the settings where overlapping tensor by tensor is slower than BSP.
    """
    largest = max(gains, key=lambda name: gains[name])
    within = [gain < limit for gain in gains.values()]
    evidence = (
        f"In {sum(within)} of {len(gains)} settings the best schedule gains less than {limit:g}× over BSP; the largest "
        f"gain is {gains[largest]:.2f}× ({largest})."
    )
    if slower:
        evidence += f" In {_count(len(slower), 'setting')} overlapping tensor by tensor is slower than not overlapping."
    return Finding("Scheduling of communication gives a limited speed-up.", _verdict(within), evidence)


def same_network(ratios: Mapping[str, float], tolerance: float) -> Finding:
    """Judge "every run labelled as the faster network ran on it": false when a throughput equals the slower one's.

    `ratios` maps each run to its throughput ÷ that of the same run on the slower network; within `tolerance` of one
    they are called equal.
    """
    equal = [ratio for ratio in ratios.values() if abs(ratio - 1) <= tolerance]
    faster = [ratio for ratio in ratios.values() if abs(ratio - 1) > tolerance]
    evidence = f"{len(equal)} of {len(ratios)} of these runs are within {100 * tolerance:g} % of the same run on 10 GbE"
    evidence += f" (ratios {min(equal):.3f}–{max(equal):.3f})" if equal else ""
    evidence += f"; the others have ratios of {min(faster):.2f}–{max(faster):.2f}." if faster else "."
    return Finding("Every run labelled 100 GbE ran on that network.", FAILS if equal else HOLDS, evidence)


def latency_decides(
    with_latency: Mapping[str, tuple[float, float]], with_bandwidth: Mapping[str, tuple[float, float]]
) -> Finding:
    """Judge "latency, not only bandwidth, decides": true where more latency costs over 5 points of scaling factor.

    `with_latency` maps each way of sending to its scaling factors in percent at a small and a large latency,
    `with_bandwidth` to those at a small and a large bandwidth.
    """
    lost = {name: small - large for name, (small, large) in with_latency.items()}
    gained = {name: large - small for name, (small, large) in with_bandwidth.items()}
    evidence = (
        f"A hundredfold latency costs {_each(lost, '{:.1f} points')} of scaling factor; a tenfold bandwidth gives"
        f" {_each(gained, '{:.1f} points')}."
    )
    more = [name for name in lost if lost[name] > gained[name]]
    if more:
        evidence += f" For {_listing(more)} that latency costs more than that bandwidth gives."
    return Finding(
        "Latency, not only bandwidth, decides how well training scales.",
        _verdict([value > 5 for value in lost.values()]),
        evidence,
    )


def _loses_more(low: float, high: float, margin: float) -> bool | None:
    """Whether an interval of points lost lies above the margin (true), within it (false), or holds it (None: open)."""
    if low > margin:
        return True
    return False if high <= margin else None


def _verdict_or_open(outcomes: Sequence[bool | None]) -> str:
    if not any(outcomes) and None in outcomes:
        return OPEN
    return _verdict([outcome is True for outcome in outcomes])


def compression_is_free(
    lost: Mapping[str, Mapping[str, tuple[float, float, float, float]]], saving_percent: float, margin_points: float
) -> Finding:
    """Judge "compression cuts traffic by up to `saving_percent` without losing accuracy", for the best code of a task.

    `lost` maps each task to its compressors, each to the traffic saved in percent, the points of accuracy lost, and the
    lower and upper end of the interval of these points (infinite where a run diverged). It holds for a task where some
    compressor saves at least that much and its whole interval is within `margin_points`; where none does but the
    interval of one holds the margin, the task is open.
    """
    free: list[bool | None] = []
    parts, margin = [], _points(margin_points)
    for task, compressors in lost.items():
        strong = {name: found for name, found in compressors.items() if found[0] >= saving_percent}
        outcomes = {name: _loses_more(low, high, margin_points) for name, (_, _, low, high) in strong.items()}
        kept = [name for name, more in outcomes.items() if more is False]
        dearer = sum(more is True for more in outcomes.values())
        unsure = len(strong) - len(kept) - dearer
        free.append(True if kept else None if unsure else False)
        part = f"{task}: of {_count(len(strong), 'code')} with this saving, losing at most {margin}: {len(kept)}"
        if kept:
            most = max(kept, key=lambda name: strong[name][0])
            saved, points, _, high = strong[most]
            part += f" (most is saved by {most}: {saved:.1f} %, {_tenths(points)} points lost, {_tenths(high)} at most)"
        parts.append(f"{part}, losing more: {dearer}, open: {unsure}")
    return Finding(
        f"Compression cuts traffic by up to {saving_percent:g} % without losing accuracy.",
        _verdict_or_open(free),
        f"Judged for the best code of each task, by whole intervals. {'; '.join(parts)}.",
    )


def strong_compression_loses_accuracy(
    at_highest: Mapping[str, tuple[float, float, float, float]], margin_points: float
) -> Finding:
    """Judge "very high ratios lose accuracy": true for a method whose whole interval is above `margin_points`.

    `at_highest` maps each method to its highest ratio, the points of accuracy that it loses there, and the lower and
    upper end of the interval of these points (infinite where a run diverged).
    """
    outcomes = {name: _loses_more(low, high, margin_points) for name, (_, _, low, high) in at_highest.items()}
    listed = _listing(
        [
            f"{name} ({ratio:,.0f}×) {'diverges' if low == math.inf else f'loses {_tenths(points)} points'}"
            f"{' (open)' if outcomes[name] is None else ''}"
            for name, (ratio, points, low, _) in at_highest.items()
        ]
    )
    return Finding(
        "Very high compression ratios lose accuracy.",
        _verdict_or_open(list(outcomes.values())),
        f"At the highest ratio tried, {listed}. What counts is an interval wholly above {_points(margin_points)}.",
    )
