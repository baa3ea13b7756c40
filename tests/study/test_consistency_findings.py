"""The verdicts on the survey's words about protocols: altered figures give other verdicts."""

import pytest

from wirebound.study import findings
from wirebound.study.consistency_findings import (
    OPEN,
    Interval,
    good_speed_up,
    hurts_convergence,
    keeps_its_promise,
    mean_interval,
    scales_to_many,
    staleness_is_others,
    who_waits_keeps_the_slowest_pace,
)


def test_the_speed_up_is_good_where_it_is_large():
    finding = good_speed_up("ASP", {"equal workers": 1.2, "a straggler": 2.4}, 1.5)
    assert finding.verdict == findings.IN_PART
    assert "equal workers 1.20× and a straggler 2.40×" in finding.evidence
    assert good_speed_up("ASP", {"a": 1.6, "b": 2.4}, 1.5).verdict == findings.HOLDS
    assert good_speed_up("ASP", {"a": 1.1}, 1.5).verdict == findings.FAILS


def test_scaling_depends_on_the_server():
    assert scales_to_many({"many servers": 1.0, "one": 0.1}, 0.8, 8, 512).verdict == findings.IN_PART
    assert scales_to_many({"many servers": 1.0}, 0.8, 8, 512).verdict == findings.HOLDS


def test_harm_is_an_interval_below_zero():
    harm, unclear, gain = Interval(-2, -3, -1), Interval(-1, -2, 0.5), Interval(1, 0.5, 2)
    assert hurts_convergence("ASP", {"a": harm, "b": harm}).verdict == findings.HOLDS
    finding = hurts_convergence("ASP", {"a": harm, "b": unclear, "c": gain})
    assert finding.verdict == findings.IN_PART
    assert "For b the interval includes zero" in finding.evidence
    assert "a −2.00 points (−3.00 to −1.00)" in finding.evidence
    assert hurts_convergence("ASP", {"b": unclear, "c": gain}).verdict == OPEN
    assert hurts_convergence("ASP", {"b": Interval(0.1, -0.5, 0.7), "c": gain}).verdict == findings.FAILS


def test_staleness_is_that_of_the_others_within_a_twentieth():
    others = {"4": 3, "8": 7}
    assert staleness_is_others({"4": 2.95, "8": 6.9}, others).verdict == findings.HOLDS
    assert staleness_is_others({"4": 2.95, "8": 5.0}, others).verdict == findings.IN_PART


def test_a_bound_is_a_bound():
    assert keeps_its_promise(3, {"a": 3, "b": 1}).verdict == findings.HOLDS
    assert keeps_its_promise(3, {"a": 4}).verdict == findings.FAILS


def test_who_waits_goes_at_the_slowest_pace():
    assert who_waits_keeps_the_slowest_pace({"bsp": 0.97, "ssp": 1.05}, 3, 2.5).verdict == findings.HOLDS
    assert who_waits_keeps_the_slowest_pace({"bsp": 0.97, "ssp": 1.6}, 3, 2.5).verdict == findings.IN_PART
    assert who_waits_keeps_the_slowest_pace({"bsp": 1.7}, 3, 1.1).verdict == findings.FAILS


def test_the_interval_is_students():
    """Three values around 2 with standard deviation 1: 4.303/√3 on either side (t at 97.5 %, two degrees)."""
    interval = mean_interval([1.0, 2.0, 3.0])
    assert interval.mean == pytest.approx(2)
    assert interval.high - interval.mean == pytest.approx(4.303 / 3**0.5, rel=1e-3)
    assert interval.mean - interval.low == pytest.approx(interval.high - interval.mean)
    with pytest.raises(ValueError, match="at least two"):
        mean_interval([1.0])
