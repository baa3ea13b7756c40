"""Rounds, bytes, times and intervals of federated runs against figures worked out by hand; verdicts flip with data."""

import math
from dataclasses import replace

import pytest

from wirebound.errors import InputError
from wirebound.study import federated_findings as judged
from wirebound.study.federated_plan import PLAN
from wirebound.study.federated_results import (
    Curve,
    Interval,
    Links,
    at_first_evaluation,
    client_times,
    curves_of,
    equal_uplinks,
    interval,
    mean_round_s,
    ratio,
    rounds_to,
    time_to,
    uplink_to,
)
from wirebound.study.federated_runs import add_runs, federated_document
from wirebound.study.findings import FAILS, HOLDS, IN_PART, OPEN

CURVE = Curve(
    seed=1,
    rounds=(2, 4, 6, 8),
    accuracy=(0.5, 0.9, 0.8, 0.95),
    uplink_bytes=1000,
    downlink_bytes=4000,
    train_s_per_sample=0.01,
    passes=2,
    sizes=(10, 20, 30),
    sampled=((0, 1), (1, 2)) * 4,
)
ALIKE = Links(uplink=1000.0, downlink=4000.0, latency=0.5, slowdown=1.0, spread=0.0)


def test_an_accuracy_counts_when_it_holds_at_the_next_evaluation():
    assert rounds_to(CURVE, 0.5) == 2
    assert rounds_to(CURVE, 0.8) == 4
    assert rounds_to(CURVE, 0.85) is None
    assert uplink_to(CURVE, 0.8) == 4 * 2 * 1000
    assert uplink_to(CURVE, 0.85) is None


def test_a_round_is_as_long_as_its_slowest_client():
    # 2 × 0.5 s latency, 1 s down, 1 s up, and 2 passes of 10, 20 or 30 samples at 10 ms
    assert client_times(CURVE, ALIKE) == pytest.approx([3.2, 3.4, 3.6])
    assert time_to(CURVE, 0.8, ALIKE) == pytest.approx(3.4 + 3.6 + 3.4 + 3.6)
    assert time_to(CURVE, 0.85, ALIKE) is None
    assert mean_round_s(CURVE, ALIKE) == pytest.approx((3.4 + 3.6 + 3.6) / 3)


def test_intervals_are_students():
    found = interval([1.0, 2.0, 3.0])
    assert (found.mean, found.seeds) == (2.0, 3)
    assert found.high - found.mean == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)  # t of 2 degrees of freedom
    assert interval([5.0]) == Interval(5.0, 5.0, 5.0, 1)


def test_ratios_are_paired_and_geometric():
    found = ratio([2.0, 8.0], [1.0, 1.0])
    assert found is not None
    assert found.mean == pytest.approx(4)
    assert found.low * found.high == pytest.approx(16)
    assert ratio([2.0, None], [1.0, 1.0]) is None


def test_runs_are_recorded_once_and_read_back():
    document = federated_document()
    plan = [planned for planned in PLAN if (planned.task, planned.alpha, planned.seed) == ("digits-mlp", "1", 11)][:1]
    heard = []
    assert add_runs(document, plan, tell=heard.append) == 0
    assert add_runs(document, plan, tell=heard.append) == 0
    assert heard == plan
    (curve,) = curves_of(document, "digits-mlp", "1")[plan[0].method]
    assert len(curve.rounds) == len(curve.accuracy)
    assert curve.rounds[-1] == document["tasks"]["digits-mlp"]["rounds"] == len(curve.sampled)
    assert curve.per_round == 10
    assert sum(curve.sizes) == document["data"]["digits"]["train"]
    with pytest.raises(InputError, match="nothing is recorded"):
        curves_of(document, "digits-mlp", "7")
    with pytest.raises(InputError, match="no recording"):
        curves_of({}, "digits-mlp", "1")
    with pytest.raises(InputError, match="another 'tasks'"):
        add_runs(document | {"tasks": {}}, plan)


SLOW, SAME, FAST = Interval(2.0, 1.5, 2.5, 3), Interval(1.0, 0.9, 1.1, 3), Interval(3.0, 2.0, 4.0, 3)


def test_slowing_must_be_outside_of_the_interval():
    assert judged.slows_convergence({"A": SLOW, "B": None}, 0.9).verdict == HOLDS
    finding = judged.slows_convergence({"A": SLOW, "B": SAME}, 0.9)
    assert finding.verdict == IN_PART
    assert finding.evidence.endswith("get there): A 2.00× (1.50–2.50). No slowing is shown of B 1.00× (0.90–1.10).")
    assert judged.slows_convergence({"B": SAME}, 0.9).verdict == OPEN
    assert judged.slows_convergence({"C": Interval(0.5, 0.4, 0.6, 3)}, 0.9).verdict == FAILS


def test_speed_flips_with_the_times():
    assert judged.speeds_training({"A": FAST}, "a link").verdict == HOLDS
    finding = judged.speeds_training({"A": FAST, "B": SAME}, "a link")
    assert finding.verdict == IN_PART
    assert finding.evidence.startswith("1 of 2 are")
    assert finding.evidence.endswith("gained by A: 3.00× (2.00–4.00). No gain is shown of B.")
    assert judged.speeds_training({"B": None}, "a link").verdict == FAILS
    assert judged.speeds_training({"B": SAME}, "a link").verdict == OPEN


def test_dominance_flips_with_the_share():
    assert judged.communication_dominates({"A": 0.95}).verdict == HOLDS
    assert judged.communication_dominates({"A": 0.95, "B": 0.5}).verdict == IN_PART
    assert judged.communication_dominates({"B": 0.5}).verdict == FAILS


def fewer(gains, **at_first):
    return judged.fewer_rounds(gains, 10, 100, at_first=at_first, smallest=3)


def test_fewer_rounds_flips_with_the_gain():
    large, across = Interval(20, 15, 25, 3), Interval(8, 4, 15, 3)
    assert fewer({"A": large}).verdict == HOLDS
    assert fewer({"A": large, "B": SLOW}).verdict == IN_PART
    assert fewer({"B": SLOW}).verdict == FAILS
    assert fewer({"A": Interval(200, 150, 250, 3)}).verdict == FAILS
    assert fewer({"A": across, "B": SLOW}).verdict == OPEN
    assert fewer({"A": None, "B": SLOW}).verdict == OPEN


def test_what_is_there_at_the_first_look_is_a_lower_bound():
    finding = fewer({"A": SLOW, "B": SLOW}, A=2, B=0)
    assert finding.verdict == OPEN
    assert "A at least 2.00× (1.50–2.50) and B 2.00×" in finding.evidence
    assert "3 rounds are the fewest that can be seen" in finding.evidence
    assert "first look are 2 of A, so" in finding.evidence
    assert fewer({"A": Interval(200, 150, 250, 3)}, A=1).verdict == FAILS
    assert at_first_evaluation([CURVE, replace(CURVE, accuracy=(0.9, 0.9, 0.9, 0.9))], 0.9) == 1


def test_equal_uplinks_are_those_worked_out_by_hand():
    # one client, no latency, no computing: rounds · (down / 10 + up) / U; 2 · (0.4 + 1) kB against 4 · (0.04 + 0.1) kB
    large = replace(CURVE, accuracy=(0.9,) * 4, train_s_per_sample=0.0, sizes=(10,), sampled=((0,),) * 8)
    small = replace(large, accuracy=(0.5, 0.9, 0.9, 0.9), uplink_bytes=100, downlink_bytes=400)
    grid = [1e2, 1e3, 1e4, 1e5]
    assert equal_uplinks([small], [large], 0.9, lambda up: Links(up, 10 * up, 0.0, 1.0, 0.0), grid) == (True, [])
    assert equal_uplinks([large], [small], 0.9, lambda up: Links(up, 10 * up, 0.0, 1.0, 0.0), grid) == (False, [])
    # with a latency of 0.1 s, 2 · (0.2 + 1400 / U) = 4 · (0.2 + 140 / U) at U = 2240 / 0.4
    found = equal_uplinks([small], [large], 0.9, lambda up: Links(up, 10 * up, 0.1, 1.0, 0.0), grid)
    assert found is not None
    assert found[0]
    assert found[1] == pytest.approx([5600.0])
    assert equal_uplinks([small], [large], 0.99, lambda up: Links(up, up, 0.1, 1.0, 0.0), grid) is None


def test_saving_flips_with_the_bytes():
    great = Interval(150, 120, 180, 3)
    assert judged.saves_uplink({"A": great}).verdict == HOLDS
    assert judged.saves_uplink({"A": great, "B": SLOW}).verdict == IN_PART
    finding = judged.saves_uplink({"A": FAST, "B": SLOW, "C": None})
    assert finding.verdict == FAILS
    assert "saved by A: 3.00×" in finding.evidence
    assert judged.saves_uplink({"C": None}).verdict == FAILS


def test_dropout_must_save_both():
    assert judged.dropout_saves({"A": 0.6}, {"A": 0.8}).verdict == HOLDS
    assert judged.dropout_saves({"A": 0.6}, {"A": 1.1}).verdict == IN_PART
    assert judged.dropout_saves({"A": 1.0}, {"A": 0.99}).verdict == FAILS
