"""Consistency protocols: closed forms of speed, staleness and waiting, within stated statistical bounds."""

import dataclasses
import math
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from wirebound.errors import InputError
from wirebound.model.compute_time import ComputeTime
from wirebound.simulate.consistency import BATCHES, Distribution, simulate_consistency, trace
from wirebound.simulate.consistency_protocols import consistency_named

from .protocols import EVERY

EXPONENTIAL = ComputeTime(2.0, "exponential", 1.0)
#: Standard errors that a simulated mean may be off: one in 16,000, and the seeds are fixed.
SIGMAS = 4


def simulated(spec, workers, compute, exchange_s=0.0, **options):
    return simulate_consistency(workers, compute, exchange_s, consistency_named(spec), **options)


@pytest.mark.parametrize("spec", EVERY)
@pytest.mark.parametrize("workers", [1, 2, 5, 8])
def test_equal_workers_without_jitter_never_wait(spec, workers):
    found = simulated(spec, workers, ComputeTime(2.0), 0.5, steps=100)
    exchanges = 1 / 7 if spec == "local-sgd:7" else 1
    assert found.period_s == pytest.approx(2 + 0.5 * exchanges, rel=1e-12)
    assert found.steps_per_s == pytest.approx(workers / (2 + 0.5 * exchanges), rel=1e-12)
    assert found.period_error_s == pytest.approx(0, abs=1e-12)
    assert found.waiting == pytest.approx([0] * workers, abs=1e-12)
    assert found.steady


@pytest.mark.parametrize("workers", [1, 2, 8, 32])
def test_bsp_waits_for_the_last_of_exponentials_a_harmonic_number(workers):
    found = simulated("bsp", workers, EXPONENTIAL, 0.5, steps=2_000)
    expected = 2 * math.fsum(1 / i for i in range(1, workers + 1))
    error = 2 * math.sqrt(math.fsum(1 / i**2 for i in range(1, workers + 1)) / found.steps)
    assert found.period_s == pytest.approx(expected + 0.5, abs=SIGMAS * error)
    # The batches estimate that error from 19 degrees of freedom.
    assert found.period_error_s == pytest.approx(error, rel=0.75)
    assert found.mean_waiting == pytest.approx(1 - 2.5 / (expected + 0.5), abs=0.02)


def greatest(distribution, count):
    """Mean and standard deviation of the greatest of `count` draws of a positive distribution, by integration."""

    def above(x):
        return -math.expm1(count * distribution.logcdf(x))

    end = distribution.isf(1e-14)
    first = integrate.quad(above, 0, end, limit=500)[0]
    second = integrate.quad(lambda x: 2 * x * above(x), 0, end, limit=500)[0]
    return first, math.sqrt(second - first**2)


@pytest.mark.parametrize("period", [1, 4, 16, 64])
def test_local_sgd_waits_for_the_greatest_of_sums(period):
    workers, exchange_s = 16, 3.0
    found = simulated(f"local-sgd:{period}", workers, EXPONENTIAL, exchange_s, steps=2_560)
    mean, deviation = greatest(stats.gamma(period, scale=2), workers)
    rounds = found.steps / period
    expected = (mean + exchange_s) / period
    assert found.period_s == pytest.approx(expected, abs=SIGMAS * deviation / period / math.sqrt(rounds))
    assert found.age.mean == pytest.approx((period - 1) / 2)
    assert found.age.largest == period - 1


def test_waiting_of_local_sgd_fades_like_the_greatest_of_normals():
    workers, spread, period = 16, 0.3, 256
    found = simulated(f"local-sgd:{period}", workers, ComputeTime(1.0, "lognormal", spread), 0.0, steps=20 * period)
    normal, deviation = greatest(stats.norm(loc=10), workers)  # moved to be positive
    expected = 1 + spread * (normal - 10) / math.sqrt(period)
    # Twenty rounds; sums of 256 lognormals still are a little skewed, which this bound covers.
    error = spread * deviation / math.sqrt(period) / math.sqrt(20)
    assert found.period_s == pytest.approx(expected, abs=SIGMAS * error)


def test_one_straggler():
    workers, factor, exchange_s = 5, 3.0, 0.5
    compute = ComputeTime(2.0, factors=(factor,))
    slow, fast = 2 * factor + exchange_s, 2 + exchange_s
    bsp = simulated("bsp", workers, compute, exchange_s)
    assert bsp.period_s == pytest.approx(slow, rel=1e-12)
    assert bsp.waiting == pytest.approx([0] + 4 * [1 - fast / slow], abs=1e-12)

    asp = simulated("asp", workers, compute, exchange_s)
    assert asp.steps_per_s == pytest.approx(4 / fast + 1 / slow, rel=2e-3)
    assert asp.group_steps_per_s == pytest.approx([1 / slow] + 4 * [1 / fast], rel=2e-3)
    assert asp.waiting == (0,) * 5
    assert asp.staleness.mean == pytest.approx(workers - 1, rel=2e-3)

    for bound in (1, 4, 50):
        ssp = simulated(f"ssp:{bound}", workers, compute, exchange_s)
        assert ssp.period_s == pytest.approx(slow, rel=2e-3)
        assert ssp.group_steps_per_s == pytest.approx([1 / slow] * 5, rel=2e-3)
        assert ssp.waiting == pytest.approx([0] + 4 * [1 - fast / slow], abs=2e-3)
        assert ssp.age.largest == bound
        assert ssp.steady

    local = simulated("local-sgd:10", workers, compute, exchange_s)
    assert local.period_s == pytest.approx(2 * factor + exchange_s / 10, rel=1e-12)


def test_stragglers_that_change_average_out():
    compute = ComputeTime(1.0, slow_probability=0.05, slow_factor=5.0)
    workers = 16
    bsp = simulated("bsp", workers, compute)
    someone = 1 - 0.95**workers
    error = 4 * math.sqrt(someone * (1 - someone) / bsp.steps)
    assert bsp.period_s == pytest.approx(1 + 4 * someone, abs=SIGMAS * error)
    mean = compute.mean_of(0)
    periods = [simulated(f"local-sgd:{period}", workers, compute).period_s for period in (1, 4, 16, 64)]
    assert periods[0] == bsp.period_s
    assert periods == sorted(periods, reverse=True)
    assert mean < periods[-1] < mean + (bsp.period_s - mean) / 3
    assert bsp.period_s > simulated("ssp:4", workers, compute).period_s > simulated("asp", workers, compute).period_s


def test_asp_is_a_sum_of_renewal_processes():
    factors = (3.0, 1.0, 0.5, 2.0)
    found = simulated("asp", 4, dataclasses.replace(EXPONENTIAL, factors=factors), 0.5, steps=2_000)
    cycles = [2 * factor + 0.5 for factor in factors]
    expected = sum(1 / one for one in cycles)
    duration = found.steps * 4 / expected
    # Var N(t) → σ²t/μ³ for each
    error = math.sqrt(sum((2 * f) ** 2 / c**3 for f, c in zip(factors, cycles, strict=True)) / duration)
    assert found.steps_per_s == pytest.approx(expected, abs=SIGMAS * error)
    assert found.steps_per_s_error == pytest.approx(error, rel=0.75)


@pytest.mark.parametrize("workers", [1, 2, 7, 16])
def test_asp_updates_miss_all_others_once(workers):
    assert simulated("asp", workers, EXPONENTIAL, 0.5).staleness.mean == pytest.approx(workers - 1, rel=2e-3)
    deterministic = simulated("asp", workers, ComputeTime(1.0)).staleness
    assert (deterministic.mean, deterministic.largest) == (workers - 1, workers - 1)


def test_the_straggler_of_asp_has_the_stalest_updates():
    sums, counts = [0] * 4, [0] * 4
    for update in islice(
        trace(4, ComputeTime(1.0, "lognormal", 0.2, factors=(4.0,)), 0.0, consistency_named("asp")), 20_000
    ):
        sums[update.worker] += update.staleness
        counts[update.worker] += 1
    # The others' rate over its own: 3/1 · 4, and (2 + 1/4)/1.
    means = [total / count for total, count in zip(sums, counts, strict=True)]
    assert means == pytest.approx([12, 2.25, 2.25, 2.25], rel=0.02)


@pytest.mark.parametrize(
    ("spec", "ages", "staleness"), [("bsp", {0}, {0}), ("gossip", {3}, {0}), ("local-sgd:3", {0, 1, 2}, {0})]
)
def test_ages_without_a_shared_model(spec, ages, staleness):
    found = simulated(spec, 8, EXPONENTIAL, steps=60)
    assert {age for age, _ in found.age.counts} == ages
    assert {count for count, _ in found.staleness.counts} == staleness
    assert found.age.total == found.steps * 8


def test_ssp_lies_between_bsp_and_asp_in_speed_and_staleness():
    bounds = [simulated(f"ssp:{bound}", 8, EXPONENTIAL, 0.2, steps=1_000) for bound in (0, 1, 2, 4, 16)]
    speeds = [simulated("bsp", 8, EXPONENTIAL, 0.2, steps=1_000), *bounds, simulated("asp", 8, EXPONENTIAL, 0.2)]
    assert [s.steps_per_s for s in speeds] == sorted(s.steps_per_s for s in speeds)
    assert [s.staleness.mean for s in bounds] == sorted(s.staleness.mean for s in bounds)
    assert [s.age.largest for s in bounds] == [0, 1, 2, 4, 16]


# --- a server that updates queue for ---


def test_throughput_saturates_at_the_server():
    for workers, expected in ((1, 1 / 1.5), (3, 3 / 1.5), (6, 4.0), (24, 4.0)):
        found = simulated("asp", workers, ComputeTime(1.0), 0.5, server_s=0.25)
        assert found.steps_per_s == pytest.approx(expected, rel=1e-9)
        assert found.mean_waiting == pytest.approx(1 - 1.5 * expected / workers, abs=1e-9)


def test_two_workers_and_a_server_in_closed_form():
    # M/D/1//2: after each departure the other is waiting with probability 1 − e^(−λD), else the server idles 1/(2λ).
    rate, service = 1 / 2.0, 1.5
    found = simulated("asp", 2, EXPONENTIAL, service, server_s=service, steps=20_000)
    assert found.period_s / 2 == pytest.approx(service + math.exp(-rate * service) / (2 * rate), rel=0.01)


@pytest.mark.parametrize("spec", ["asp", "ssp:2"])
def test_updates_are_served_in_the_order_in_which_they_were_computed(spec):
    workers, exchange_s, server_s = 6, 0.4, 0.3
    run = list(islice(trace(workers, EXPONENTIAL, exchange_s, consistency_named(spec), server_s=server_s), 3_000))
    times = [list(islice(EXPONENTIAL.draws(worker, 0), 3_000)) for worker in range(workers)]
    computed = [update.start_s + times[update.worker][update.clock] for update in run]
    assert computed == sorted(computed)
    free = 0.0
    ended = [0.0] * workers
    for update, ready in zip(run, computed, strict=True):
        free = max(ready + exchange_s, free + server_s)
        assert update.end_s == free
        busy = times[update.worker][update.clock] + exchange_s
        assert update.waited_s == pytest.approx(update.end_s - ended[update.worker] - busy, abs=1e-9)
        ended[update.worker] = update.end_s


# --- groups, statistics, mistakes ---


@pytest.mark.parametrize("spec", ["bsp", "local-sgd:1"])
def test_bsp_does_not_care_for_groups(spec):
    alone = simulated(spec, 12, EXPONENTIAL, 0.3, steps=200)
    groups = simulated(spec, 12, EXPONENTIAL, 0.3, steps=200, group=4)
    assert groups.period_s == alone.period_s
    assert groups.steps_per_s == alone.steps_per_s
    assert len(groups.waiting) == 3


def test_a_group_computes_as_long_as_its_slowest_member():
    found = simulated("asp", 8, ComputeTime(1.0, factors=(1, 1, 1, 1, 1, 3)), group=4)
    assert found.group_steps_per_s == pytest.approx([1, 1 / 3], rel=2e-3)
    assert found.steps_per_s == pytest.approx(4 + 4 / 3, rel=2e-3)
    assert found.staleness.mean == pytest.approx(1, rel=2e-3)


def test_the_interval_holds_the_true_period_about_as_often_as_it_says():
    truth = 2 * (1 + 1 / 2 + 1 / 3 + 1 / 4)
    runs = 200
    held = 0
    for seed in range(runs):
        low, high = simulated("bsp", 4, EXPONENTIAL, steps=200, warm_up=0, seed=seed).period_interval_s
        held += low <= truth <= high
    assert stats.binom(runs, 0.95).cdf(held) > 1e-3
    assert held < runs


def test_warm_up_hides_the_transient_of_a_bound():
    # Workers run freely until the fast one is 60 ahead: 60/(1 − 1/1.25) = 300 of its steps.
    compute = ComputeTime(1.0, factors=(1.25,))
    found = simulated("ssp:60", 4, compute, steps=200)
    assert found.warm_up >= 300
    assert found.steady
    assert found.period_s == pytest.approx(1.25, rel=0.01)
    hurried = simulated("ssp:60", 4, compute, steps=200, warm_up=0)
    assert not hurried.steady
    assert hurried.period_s < 1.1


def test_steps_are_rounded_up_to_whole_batches_of_whole_periods():
    assert simulated("bsp", 2, ComputeTime(1.0), steps=1).steps == BATCHES
    found = simulated("local-sgd:7", 2, ComputeTime(1.0), steps=150, warm_up=1)
    assert (found.steps, found.warm_up) == (280, 7)


def test_the_seed_decides():
    first, again, other = (simulated("asp", 3, EXPONENTIAL, steps=40, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first.period_s != other.period_s


@given(st.lists(st.integers(0, 30), min_size=1, max_size=50), st.floats(0.001, 1))
def test_quantiles_are_those_of_the_sorted_numbers(numbers, share):
    found = Distribution(tuple((n, numbers.count(n)) for n in sorted(set(numbers))))
    assert found.mean == pytest.approx(np.mean(numbers))
    assert found.quantile(share) == np.quantile(numbers, share, method="inverted_cdf")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, "workers = 0"),
        ({"exchange_s": -1.0}, "exchange -1.0 s"),
        ({"exchange_s": math.nan}, "exchange nan s"),
        ({"group": 3}, "8 workers are not a multiple of 3"),
        ({"steps": 0}, "steps 0"),
        ({"warm_up": -1}, "-1 not negative"),
        ({"server_s": 0.1}, "bsp has no server"),
        ({"spec": "local-sgd:1000000"}, "more than 10,000,000"),
        ({"compute": ComputeTime(1.0, factors=(1.0,) * 9)}, "9 factors of compute time are too many"),
    ],
)
def test_what_cannot_be_simulated(options, message):
    arguments = {"spec": "bsp", "workers": 8, "compute": ComputeTime(1.0)} | options
    with pytest.raises(InputError, match=message):
        simulated(**arguments)
