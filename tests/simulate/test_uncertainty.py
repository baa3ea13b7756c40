"""Intervals of a step: against closed forms, against NumPy, and against truths that noise has hidden."""

import dataclasses
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirebound.errors import InputError
from wirebound.fit.communication import fit_communication
from wirebound.fit.document import link_beneath
from wirebound.model import Cluster, Link, method_named
from wirebound.model.library import builtin_workload
from wirebound.simulate.job import TrainingJob
from wirebound.simulate.uncertainty import (
    distribution_of_step,
    drawn_jobs,
    even_choices,
    even_shares,
    quantiles,
    uncertain_bandwidth,
    uncertain_compute,
    uncertain_latency,
    uncertain_network,
    within_interval,
)

from .jobs import made

#: 3 s of compute, then one message of 8 bytes between two workers: 8/B + 2·α.
JOB = TrainingJob(made([1.0], [8], 2.0), Cluster(2, Link(8.0)), method_named("bsp-a2a"))


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=40), st.floats(0.01, 1))
def test_quantiles_are_numpys(values, coverage):
    tail = (1 - coverage) / 2
    expected = np.quantile(values, [tail, 0.5, 1 - tail])
    assert quantiles(values, coverage) == pytest.approx(expected, rel=1e-9, abs=1e-6)


def test_a_uniform_bandwidth_by_hand():
    # 3 + 8/B with B uniform in [4, 16]: its 2.5 % and 97.5 % quantiles are at B = 15.7 and 4.3
    drawn = distribution_of_step(JOB, {"bandwidth": uncertain_bandwidth(4.0, 16.0)}, samples=1000)
    low, middle, high = quantiles(drawn.iteration_s)
    assert (low, middle, high) == pytest.approx((3 + 8 / 15.7, 3.8, 3 + 8 / 4.3), rel=2e-3)
    assert quantiles(drawn.scaling_factor) == pytest.approx((3 / high, 3 / middle, 3 / low), rel=1e-3)


def test_a_uniform_latency_by_hand():
    # 4 + 2·α with α uniform in [0, 1 s]
    drawn = distribution_of_step(JOB, {"latency": uncertain_latency(0.0, 1.0)}, samples=1000)
    assert quantiles(drawn.iteration_s) == pytest.approx((4.05, 5.0, 5.95), rel=1e-3)


def test_compute_varies_with_the_measured_steps():
    # 3·f + 1 s with f from 0.5, 1, 2, each drawn 20 times; bandwidth 8 B/s
    drawn = distribution_of_step(JOB, {"compute": uncertain_compute([0.5, 1.0, 2.0])}, samples=60)
    values, counts = np.unique(np.round(drawn.iteration_s, 9), return_counts=True)
    assert (values.tolist(), counts.tolist()) == ([2.5, 4.0, 7.0], [20, 20, 20])
    assert set(np.round(drawn.scaling_factor, 9)) == {0.6, 0.75, round(6 / 7, 9)}


def test_a_networks_bandwidth_and_latency_are_drawn_together():
    pairs = [(8.0, 0.5), (4.0, 0.0)]  # both make 2 s of communication; mixed they would make 1 or 3
    drawn = distribution_of_step(JOB, {"network": uncertain_network(pairs)}, samples=50)
    assert drawn.iteration_s == pytest.approx([5.0] * 50)


def test_the_same_seed_gives_the_same_draws_whatever_else_is_uncertain():
    bandwidth = {"bandwidth": uncertain_bandwidth(4.0, 16.0)}
    both = bandwidth | {"compute": uncertain_compute([0.9, 1.1])}
    assert distribution_of_step(JOB, bandwidth, seed=5) == distribution_of_step(JOB, bandwidth, seed=5)
    assert distribution_of_step(JOB, bandwidth, seed=5) != distribution_of_step(JOB, bandwidth, seed=6)
    alone = [job.cluster.inter.bandwidth for job in drawn_jobs(JOB, bandwidth)]
    assert [job.cluster.inter.bandwidth for job in drawn_jobs(JOB, both)] == alone


def test_what_is_not_uncertain_stays():
    job = dataclasses.replace(JOB, cluster=Cluster(2, Link(8.0, 0.25, 0.5)))
    for drawn in drawn_jobs(job, {"bandwidth": uncertain_bandwidth(4.0, 16.0)}, samples=10):
        assert drawn.cluster.inter == Link(drawn.cluster.inter.bandwidth, 0.25, 0.5)
    assert distribution_of_step(job, {}, samples=3).iteration_s == ()


@given(st.integers(1, 50), st.integers(1, 200), st.integers(0, 9))
def test_draws_are_even(values, count, seed):
    chosen = even_choices(range(values), random.Random(seed), count)
    times = [chosen.count(value) for value in range(values)]
    assert len(chosen) == count
    assert max(times) - min(times) <= 1
    shares = even_shares(random.Random(seed), count)
    assert sorted(int(share * count) for share in shares) == list(range(count))


def test_an_interval_holds_its_share_of_the_draws():
    drawn = within_interval(2.0, (1.0, 6.0), random.Random(0), 4000)
    assert quantiles(drawn) == pytest.approx((1.0, 2.0, 6.0), rel=0.01)
    assert min(within_interval(1.0, (0.0, 2.0), random.Random(0), 4000)) == 0


def test_too_few_samples():
    with pytest.raises(InputError, match="samples = 1 must be at least 2"):
        distribution_of_step(JOB, {}, samples=1)
    with pytest.raises(InputError, match="no values"):
        quantiles([])


SIZES = [2.0**power for power in range(10, 25)]


@pytest.mark.parametrize(
    ("noise", "method"),
    [
        (lambda rng: np.exp(0.05 * rng.standard_t(5, len(SIZES))), "ddp"),
        (lambda rng: rng.lognormal(0, 0.06, len(SIZES)), "ddp"),
        (lambda rng: rng.gamma(300, 1 / 300, len(SIZES)), "mg-wfbp"),
    ],
    ids=["student-t", "lognormal", "gamma"],
)
def test_the_interval_of_a_prediction_holds_the_truth(noise, method):
    # α and β drawn, hidden in noise, fitted; the step of the true link must lie in the interval as often as it says
    rng, workload, trials = np.random.default_rng(3), builtin_workload("vgg16"), 200

    def job(link):
        return TrainingJob(workload, Cluster(16, link), method_named(method))

    inside = 0
    for trial in range(trials):
        alpha, beta = 10 ** rng.uniform(-5, -3.5), 10 ** rng.uniform(-9.5, -8.5)
        times = np.array([alpha + beta * size for size in SIZES]) * noise(rng)
        fit = fit_communication(SIZES, times, resamples=200, seed=trial)
        links = [link_beneath(*pair, "ring-allreduce", 4) for pair in fit.bootstrap]
        network = uncertain_network([(link.bandwidth, link.latency_s) for link in links])
        drawn = distribution_of_step(job(links[0]), {"network": network}, samples=100, seed=trial)
        low, _, high = quantiles(drawn.iteration_s)
        inside += low <= job(link_beneath(alpha, beta, "ring-allreduce", 4)).step().iteration_s <= high
    assert 0.90 * trials <= inside <= 0.99 * trials
