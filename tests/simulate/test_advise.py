"""What the network costs, thresholds between two jobs, and intervals of gains, by hand."""

import pytest

from wirebound.model import Cluster, Link, method_named
from wirebound.model.compute_time import ComputeTime
from wirebound.model.library import builtin_workload
from wirebound.simulate.advise import (
    Threshold,
    bottleneck,
    gain_interval,
    local_sgd_rate,
    rate_at,
    threshold,
    tied,
)
from wirebound.simulate.consistency_job import simulate_job
from wirebound.simulate.consistency_protocols import consistency_named
from wirebound.simulate.job import TrainingJob

from .jobs import made

#: 3 s of compute, then one message between two workers: 8/B + 2·α.
WORKLOAD = made([1.0], [8], 2.0)


def job(bandwidth=8.0, latency=0.0, **changes):
    return TrainingJob(WORKLOAD, Cluster(2, Link(bandwidth, latency)), method_named("bsp-a2a", **changes))


def test_bottleneck_by_hand():
    found = bottleneck(job(8.0, 0.5))  # 3 s of compute, 1 s of bytes, 1 s of latency
    assert found.share == pytest.approx(2 / 5)
    assert found.bound == pytest.approx(5 / 3)
    assert found.gains["bandwidth"] == found.gains["latency"] == pytest.approx(5 / 4)
    assert found.gains["vector-add"] == 1


def test_threshold_by_hand():
    # compression by 2 saves 4/B of 3 + 8/B: a gain of 1.2 needs 3 + 8/B ≥ 1.2·(3 + 4/B), B ≤ 16/3
    squeezed, plain = rate_at(job(compression=2.0)), rate_at(job())
    for start in (0.1, 4.0, 8.0, 100.0):
        found = threshold(squeezed, plain, start, gain=1.2)
        assert found == Threshold(pytest.approx(16 / 3, rel=1e-5), "below")
    assert threshold(squeezed, plain, 8.0) is None  # it never loses
    assert threshold(squeezed, plain, 1e4, gain=1.2) is None  # too far away


def test_a_threshold_above_which_something_holds():
    # a bought bandwidth of 10 B/s takes 3.8 s; compression by 2 at B takes 3 + 4/B: better from B = 5 on
    bought, squeezed = rate_at(job(10.0), own_bandwidth=True), rate_at(job(compression=2.0))
    assert threshold(squeezed, bought, 8.0) == Threshold(pytest.approx(5.0, rel=1e-5), "above")
    assert threshold(bought, squeezed, 8.0) == Threshold(pytest.approx(5.0, rel=1e-5), "below")
    assert threshold(bought, squeezed, 2.0) == Threshold(pytest.approx(5.0, rel=1e-5), "below")


def test_the_nearer_of_two_thresholds_is_found():
    def bump(bandwidth):  # better than 1 between 3 and 40
        return 2.0 if 3 < bandwidth < 40 else 0.5

    assert threshold(bump, lambda bandwidth: 1.0, 5.0) == Threshold(pytest.approx(3.0, rel=1e-5), "above")
    assert threshold(bump, lambda bandwidth: 1.0, 30.0) == Threshold(pytest.approx(40.0, rel=1e-5), "below")
    assert threshold(bump, lambda bandwidth: 1.0, 1.0) == Threshold(pytest.approx(3.0, rel=1e-5), "above")


@pytest.mark.parametrize("method", ["bsp-a2a", "ddp", "wfbp-ps", "bytescheduler-a2a"])
@pytest.mark.parametrize("steps", [1, 2, 8])
def test_local_sgd_is_what_the_workers_played_out_give(method, steps):
    training = TrainingJob(builtin_workload("vgg16"), Cluster(4, Link(1.25e9, 2e-5)), method_named(method))
    played = simulate_job(
        *(training.workload, training.cluster, training.method),
        *(consistency_named(f"local-sgd:{steps}"), ComputeTime(1.0, "none", 0.0)),
    )
    assert local_sgd_rate(training, steps) == pytest.approx(played.steps_per_s * 32, rel=1e-9)
    assert rate_at(training, local_steps=steps)(1.25e9) == local_sgd_rate(training, steps)


def test_the_interval_of_a_gain_is_over_pairs():
    # the second job is always twice as fast, however much both vary
    slow = [1.0 + index / 10 for index in range(100)]
    assert gain_interval([value / 2 for value in slow], 8, slow, 8) == pytest.approx((2.0, 2.0))
    # twice the samples in the same time
    assert gain_interval(slow, 16, slow, 8) == pytest.approx((2.0, 2.0))
    # a certain job against an uncertain one
    low, high = gain_interval([1.0], 8, slow, 8)
    assert (low, high) == pytest.approx((1.2475, 10.6525))


def test_ties():
    assert tied((2.0, 3.0), (1.0, 2.1))
    assert not tied((2.0, 3.0), (1.0, 1.9))
    assert not tied(None, (1.0, 2.0))
    assert not tied((1.0, 2.0), None)
