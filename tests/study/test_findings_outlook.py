"""Verdicts on the outlook: altered results give other verdicts."""

import math

import pytest
from scipy import stats

from wirebound.study import findings_outlook as outlook
from wirebound.study.findings import FAILS, HOLDS, IN_PART

CLEAR, UNSURE, WORSE = (0.03, 0.01, 0.05), (0.01, -0.01, 0.03), (-0.04, -0.06, -0.02)


def test_interval_is_scipys():
    values = [0.91, 0.94, 0.92, 0.95]
    low, high = stats.t.interval(0.95, 3, loc=0.93, scale=stats.sem(values))
    assert outlook.mean_interval(values) == pytest.approx((0.93, low, high))
    assert outlook.mean_interval([0.5]) == (0.5, -math.inf, math.inf)


def test_differences_are_of_the_same_seed():
    rows = [
        {"variant": name, "seed": seed, "accuracy": base + 0.1 * seed}
        for name, base in (("new", 0.52), ("old", 0.50))
        for seed in (2, 0, 1)
    ]
    mean, low, high = outlook.paired_difference(rows, "new", "old")
    assert (mean, low, high) == pytest.approx((0.02, 0.02, 0.02))


def choice(chosen_s, chosen_lost, everything_s=1.0, everything_lost=0.99):
    return {
        "workload": "resnet50",
        "workers": 16,
        "gbps": 10.0,
        "everything_s": everything_s,
        "everything_lost_share": everything_lost,
        "chosen_s": chosen_s,
        "chosen_lost_share": chosen_lost,
    }


def test_exposed_only():
    assert outlook.exposed_only([choice(1.0, 0.3), choice(0.9, 0.5)]).verdict == HOLDS
    mixed = outlook.exposed_only([choice(1.0, 0.3), choice(1.0, 0.98)])
    assert mixed.verdict == IN_PART
    assert "1 of 2" in mixed.evidence
    assert "30 % (resnet50, 16 workers, 10 Gbps)" in mixed.evidence
    assert outlook.exposed_only([choice(1.1, 0.3)]).verdict == FAILS
    assert "in 1 the step is shorter" in outlook.exposed_only([choice(0.9, 0.5)]).evidence


def test_selective_learns_better():
    assert outlook.selective_learns_better({"a": CLEAR, "b": CLEAR}).verdict == HOLDS
    assert outlook.selective_learns_better({"a": CLEAR, "b": UNSURE}).verdict == IN_PART
    failed = outlook.selective_learns_better({"a": WORSE, "b": UNSURE})
    assert failed.verdict == FAILS
    assert "a: -4.0 points (-6.0 to -2.0)" in failed.evidence


def test_rounds_matter():
    both = outlook.rounds_matter({"a": {"early": CLEAR, "late": WORSE}, "b": {"early": CLEAR, "late": UNSURE}})
    assert both.verdict == HOLDS
    assert "Certainly better: early on a; early on b. Certainly worse: late on a." in both.evidence
    one = outlook.rounds_matter({"a": {"early": CLEAR}, "b": {"early": UNSURE}})
    assert one.verdict == IN_PART
    none = outlook.rounds_matter({"a": {"early": UNSURE}})
    assert none.verdict == FAILS
    assert "Certainly better: none" in none.evidence


def test_adaptive_pays():
    assert outlook.adaptive_pays({"a": CLEAR}, "dense first").verdict == HOLDS
    assert outlook.adaptive_pays({"a": UNSURE}, "dense first").verdict == FAILS
    assert "beats dense first" in outlook.adaptive_pays({"a": UNSURE}, "dense first").claim


def test_gradients_repeat():
    assert outlook.gradients_repeat({"a": 0.2, "b": 0.9}).verdict == HOLDS
    mixed = outlook.gradients_repeat({"gradient": 1.8, "velocity": 0.1})
    assert mixed.verdict == IN_PART
    assert "gradient: 1.80; velocity: 0.10" in mixed.evidence
    assert outlook.gradients_repeat({"a": 1.2}).verdict == FAILS


def test_differences_pay():
    assert outlook.differences_pay({"a": {"gradient": CLEAR}}).verdict == HOLDS
    mixed = outlook.differences_pay({"a": {"gradient": WORSE, "velocity": CLEAR}})
    assert mixed.verdict == IN_PART
    assert "Certainly worse: a, gradient" in mixed.evidence
    assert outlook.differences_pay({"a": {"gradient": UNSURE}}).verdict == FAILS
