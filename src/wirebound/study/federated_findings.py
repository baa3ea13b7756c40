"""Verdicts on published claims about federated learning, each a function of results."""

from collections.abc import Mapping, Sequence

from wirebound.study.federated_results import Interval
from wirebound.study.findings import FAILS, HOLDS, IN_PART, OPEN, Finding


def _verdict(outcomes: Sequence[bool]) -> str:
    if all(outcomes):
        return HOLDS
    return IN_PART if any(outcomes) else FAILS


def _clear(values: Mapping[str, Interval | None], shown: Mapping[str, Interval | None]) -> str:
    """The verdict on "the ratio is above 1": open where it is shown nowhere and an interval includes 1."""
    verdict = _verdict([name in shown for name in values])
    unclear = any(value is not None and value.low <= 1 <= value.high for value in values.values())
    return OPEN if verdict == FAILS and unclear else verdict


def _listing(texts: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))


def _ratio(value: Interval | None) -> str:
    if value is None:
        return "not reached by all seeds"
    return f"{value.mean:.2f}× ({value.low:.2f}–{value.high:.2f})"


def _each(values: Mapping[str, Interval | None]) -> str:
    return _listing([f"{name} {_ratio(value)}" for name, value in values.items()])


def slows_convergence(rounds: Mapping[str, Interval | None], target: float) -> Finding:
    """Judge "compression slows convergence": true of a reduction whose whole interval lies above 1.

    `rounds` maps each reduction to its rounds to the accuracy `target` ÷ those without reduction; None (never reached)
    counts as slower.
    """
    slower = {name: value for name, value in rounds.items() if value is None or value.low > 1}
    evidence = "For none does the whole 95 % interval of the rounds, divided by those of FedAvg, lie above 1."
    if slower:
        evidence = (
            f"{len(slower)} of {len(rounds)} need more rounds to {100 * target:g} % than FedAvg (the whole 95 %"
            f" interval lies above 1, or not all seeds get there): {_each(slower)}."
        )
    rest = {name: value for name, value in rounds.items() if name not in slower}
    if slower and rest:
        evidence += f" No slowing is shown of {_each(rest)}."
    return Finding("Compressing what clients send slows convergence.", _clear(rounds, slower), evidence)


def speeds_training(times: Mapping[str, Interval | None], link: str) -> Finding:
    """Judge "compression raises the speed of training": true of a reduction whose whole interval is above 1.

    `times` maps each reduction to the predicted time to an accuracy without it ÷ with it; None counts as not faster.
    """
    faster = {name: value for name, value in times.items() if value is not None and value.low > 1}
    evidence = (
        f"{len(faster)} of {len(times)} are predicted to reach the same accuracy sooner than FedAvg, with a 95 %"
        " interval of the gain that lies wholly above 1."
    )
    if faster:
        best = max(faster, key=lambda name: faster[name].mean)
        evidence += f" The most is gained by {best}: {_ratio(faster[best])}."
    rest = [name for name in times if name not in faster]
    if faster and rest:
        evidence += f" No gain is shown of {_listing(rest)}."
    return Finding(
        f"With {link}, compression makes federated training faster all the same.",
        _clear(times, faster),
        evidence,
    )


def communication_dominates(shares: Mapping[str, float], at_least: float = 0.9) -> Finding:
    """Judge "communication costs far more than computing": where it is at least `at_least` of a client's round."""
    listed = _listing([f"{100 * share:.0f} % ({name})" for name, share in shares.items()])
    return Finding(
        "In federated learning communication costs far more than computing.",
        _verdict([share >= at_least for share in shares.values()]),
        f"Share of a median client's round that is communication, without any reduction: {listed}; "
        f"far more is taken to be {100 * at_least:g} %.",
    )


def fewer_rounds(
    gains: Mapping[str, Interval | None], low: float, high: float, *, at_first: Mapping[str, int], smallest: int
) -> Finding:
    """Judge "averaging needs `low` to `high` times fewer rounds than FedSGD", by the whole interval of each setting.

    `gains` maps each setting to FedSGD's rounds ÷ those of averaging, None where a run does not get there. `at_first`
    counts a setting's averaging runs that are there at the first evaluation, after `smallest` rounds: their gain may be
    larger than what is seen. A setting is open where its interval includes a limit, or lies below and may be larger.
    """
    inside = {
        name: value is not None and low <= value.low and value.high <= high and not at_first.get(name)
        for name, value in gains.items()
    }
    unclear = {
        name: value is None
        or value.low <= low <= value.high
        or value.low <= high <= value.high
        or bool(value.high < high and at_first.get(name))
        for name, value in gains.items()
    }
    verdict = _verdict(list(inside.values()))
    if verdict == FAILS and any(unclear.values()):
        verdict = OPEN
    bounds = {name: count for name, count in at_first.items() if count}
    evidence = "Rounds of one gradient each, divided by rounds of averaging, mean and 95 % interval over seeds: "
    evidence += _listing(
        [f"{name} {'at least ' if name in bounds else ''}{_ratio(value)}" for name, value in gains.items()]
    )
    evidence += "."
    if bounds:
        seeds = _listing([f"{count} of {name}" for name, count in bounds.items()])
        evidence += (
            f" {smallest} rounds are the fewest that can be seen, for accuracy is looked at every {smallest}:"
            f" runs there at the first look are {seeds}, so their gain may be larger."
        )
    return Finding(
        f"Averaging after local epochs needs {low:g}–{high:g}× fewer rounds than one gradient step per round.",
        verdict,
        evidence,
    )


def saves_uplink(savings: Mapping[str, Interval | None], orders: int = 2) -> Finding:
    """Judge "the bytes sent up fall by `orders` orders of magnitude": true of a reduction that saves at least that.

    `savings` maps each reduction to the bytes to the target without it ÷ with it.
    """
    limit = 10.0**orders
    reached = {name: value for name, value in savings.items() if value is not None}
    evidence = "No reduction reached the accuracy with all seeds."
    if reached:
        best = max(reached, key=lambda name: reached[name].mean)
        evidence = f"The most is saved by {best}: {_ratio(reached[best])} to the same accuracy."
    enough = [value.mean >= limit for value in reached.values()]
    return Finding(
        f"Reductions cut what clients send by a factor of {limit:,.0f}.",
        _verdict(enough) if any(enough) else FAILS,
        evidence,
    )


def dropout_saves(downlink: Mapping[str, float], computing: Mapping[str, float], margin: float = 0.05) -> Finding:
    """Judge "Federated Dropout sends less down and computes faster": true of a ratio that is below 1 − `margin`.

    `downlink` and `computing` map each task to bytes down, and to training time, with it ÷ without.
    """
    outcomes = [ratio < 1 - margin for ratios in (downlink, computing) for ratio in ratios.values()]

    def listed(ratios: Mapping[str, float]) -> str:
        return _listing([f"{value:.2f}× ({name})" for name, value in ratios.items()])

    return Finding(
        "Federated Dropout sends less to the clients and lets them compute faster.",
        _verdict(outcomes),
        f"With ÷ without it: bytes down {listed(downlink)}; training time of a sample, measured, {listed(computing)}.",
    )
