"""Compute times: means and spreads of the distributions, and common random numbers."""

import math
from itertools import islice

import numpy as np
import pytest
from scipy import stats

from wirebound.errors import InputError
from wirebound.model.compute_time import ComputeTime

COUNT = 40_000


def drawn(time, worker=0, seed=1, count=COUNT):
    return np.array(list(islice(time.draws(worker, seed), count)))


def test_without_jitter_every_step_takes_the_mean():
    assert set(drawn(ComputeTime(0.25), count=10)) == {0.25}
    assert set(drawn(ComputeTime(0.25, factors=(1.0, 3.0)), worker=1, count=10)) == {0.75}
    assert set(drawn(ComputeTime(0.25, factors=(1.0, 3.0)), worker=2, count=10)) == {0.25}


@pytest.mark.parametrize("spread", [0.05, 0.3, 1.0])
def test_lognormal_is_the_lognormal_of_this_mean_and_spread(spread):
    sigma = math.sqrt(math.log(1 + spread**2))
    expected = stats.lognorm(sigma, scale=2 * math.exp(-(sigma**2) / 2))
    assert expected.mean() == pytest.approx(2)
    assert expected.std() == pytest.approx(2 * spread)
    assert stats.kstest(drawn(ComputeTime(2.0, "lognormal", spread)), expected.cdf).pvalue > 1e-3


@pytest.mark.parametrize("spread", [0.2, 1.0])
def test_exponential_is_the_shifted_exponential_of_this_mean_and_spread(spread):
    expected = stats.expon(2 * (1 - spread), 2 * spread)
    assert expected.mean() == pytest.approx(2)
    assert expected.std() == pytest.approx(2 * spread)
    assert stats.kstest(drawn(ComputeTime(2.0, "exponential", spread)), expected.cdf).pvalue > 1e-3


def test_empirical_draws_the_samples_scaled_to_the_mean():
    values, times = np.unique(drawn(ComputeTime(4.0, "empirical", samples=(1.0, 2.0, 3.0, 2.0))), return_counts=True)
    assert values == pytest.approx([2.0, 4.0, 6.0])
    assert stats.chisquare(times, [COUNT / 4, COUNT / 2, COUNT / 4]).pvalue > 1e-3


def test_slow_steps_come_as_often_and_last_as_long_as_asked():
    time = ComputeTime(2.0, slow_probability=0.1, slow_factor=5.0)
    slow = drawn(time) == 10.0
    assert slow.mean() == pytest.approx(0.1, abs=4 * math.sqrt(0.09 / COUNT))
    assert time.mean_of(0) == pytest.approx(0.9 * 2 + 0.1 * 10)


def test_streams_are_those_of_worker_and_seed():
    time = ComputeTime(1.0, "lognormal", 0.3)
    assert list(drawn(time, 3, 7, 5)) == list(drawn(time, 3, 7, 5))
    assert list(drawn(time, 3, 7, 5)) != list(drawn(time, 3, 8, 5))
    assert abs(np.corrcoef(drawn(time, 0), drawn(time, 1))[0, 1]) < 4 / math.sqrt(COUNT)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mean_s": 0.0}, "mean compute time 0.0 s"),
        ({"jitter": "lognormall"}, "did you mean 'lognormal'"),
        ({"jitter": "lognormal", "spread": -0.1}, "spread -0.1"),
        ({"jitter": "lognormal", "spread": math.nan}, "spread nan"),
        ({"jitter": "exponential", "spread": 1.5}, "at most 1"),
        ({"spread": 0.5}, "changes nothing with the jitter 'none'"),
        ({"jitter": "empirical"}, "belong together"),
        ({"samples": (1.0,)}, "belong together"),
        ({"jitter": "empirical", "samples": (1.0, 0.0)}, "sample 1 of the compute time is 0.0"),
        ({"factors": (1.0, -2.0)}, "factor 1 of the compute time is -2.0"),
        ({"slow_factor": 0.0}, "slow factor 0"),
        ({"slow_probability": 1.5}, "between 0 and 1"),
    ],
)
def test_what_no_compute_time_can_be(changes, message):
    with pytest.raises(InputError, match=message):
        ComputeTime(**({"mean_s": 1.0} | changes))
