"""Verdicts on the outlook: altered results give other verdicts."""

import math

import pytest
from scipy import stats

from wirebound.study import findings_outlook as outlook
from wirebound.study.findings import FAILS, HOLDS, IN_PART, OPEN

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


def choice(chosen_s, chosen_lost, everything_s=1.0, everything_lost=0.99, nothing_s=2.0):
    return {
        "workload": "resnet50",
        "workers": 16,
        "gbps": 10.0,
        "nothing_s": nothing_s,
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


def test_nothing_compressed_is_a_uniform_choice_too():
    assert outlook.uniform_baseline(choice(1.0, 0.3)) == (1.0, 0.99)
    fast = choice(0.89, 0.07, nothing_s=0.9)
    assert outlook.uniform_baseline(fast) == (0.9, 0.0)
    judged = outlook.exposed_only([fast])
    assert judged.verdict == FAILS
    assert "compress nothing: 900 ms against 1000 ms with the best share" in judged.evidence
    assert "the chosen step takes 890 ms" in judged.evidence
    assert "in 1 the step is shorter" in judged.evidence
    assert outlook.exposed_only([fast, choice(1.0, 0.3)]).verdict == IN_PART
    assert "compress nothing" not in outlook.exposed_only([choice(1.0, 0.3)]).evidence


def test_selective_learns_better():
    assert outlook.selective_learns_better({"a": CLEAR, "b": CLEAR}).verdict == HOLDS
    part = outlook.selective_learns_better({"a": CLEAR, "b": UNSURE})
    assert part.verdict == IN_PART
    assert part.evidence.endswith("Left open, for the 95 % interval includes zero: b.")
    left = outlook.selective_learns_better({"a": WORSE, "b": UNSURE})
    assert left.verdict == OPEN
    assert "a: -4.0 points (-6.0 to -2.0)" in left.evidence
    failed = outlook.selective_learns_better({"a": WORSE})
    assert failed.verdict == FAILS
    assert "includes zero" not in failed.evidence


def test_one_seed_leaves_it_open():
    assert outlook.selective_learns_better({"a": outlook.mean_interval([0.1])}).verdict == OPEN


def test_rounds_matter():
    both = outlook.rounds_matter({"a": {"early": CLEAR, "late": WORSE}, "b": {"early": CLEAR, "late": UNSURE}})
    assert both.verdict == HOLDS
    assert "Better, with zero outside the 95 % interval: early on a; early on b." in both.evidence
    assert "Worse, with zero outside the 95 % interval: late on a." in both.evidence
    one = outlook.rounds_matter({"a": {"early": CLEAR}, "b": {"early": UNSURE}})
    assert one.verdict == IN_PART
    none = outlook.rounds_matter({"a": {"early": UNSURE}})
    assert none.verdict == OPEN
    assert "Better, with zero outside the 95 % interval: none" in none.evidence
    assert outlook.rounds_matter({"a": {"early": WORSE}}).verdict == FAILS


def test_adaptive_pays():
    assert outlook.adaptive_pays({"a": CLEAR}, "dense first").verdict == HOLDS
    assert outlook.adaptive_pays({"a": UNSURE}, "dense first").verdict == OPEN
    assert outlook.adaptive_pays({"a": WORSE}, "dense first").verdict == FAILS
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
    assert "Worse, with zero outside the 95 % interval: a, gradient" in mixed.evidence
    assert outlook.differences_pay({"a": {"gradient": UNSURE}}).verdict == OPEN
    assert outlook.differences_pay({"a": {"gradient": WORSE}}).verdict == FAILS
