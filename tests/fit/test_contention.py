"""Slowdown under communication: known factors are found, the simulated pass agrees with a ticking clock."""

import math

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given
from hypothesis import strategies as st

from wirebound.errors import InputError
from wirebound.fit.contention import contended_backward_s, fit_byte_contention, fit_contention


def pairs(slowdown, noise=0.0, count=40, seed=0):
    """Backward alone, under communication and the time it was active, of a device with a known slowdown."""
    rng = np.random.default_rng(seed)
    alone = rng.uniform(0.04, 0.08, count)
    slow_share = rng.uniform(0.2, 0.9, count)  # of the work that was done while communication was active
    active = alone * slow_share * (1 + slowdown)
    under = alone * (1 - slow_share) + active
    return (alone * np.exp(noise * rng.laplace(size=count))).tolist(), under.tolist(), active.tolist()


@pytest.mark.parametrize("slowdown", [0.0, 0.24, 0.47, 2.0])
def test_an_exact_slowdown_is_found(slowdown):
    alone, under, active = pairs(slowdown)
    fit = fit_contention(alone, under, active)
    assert fit.slowdown == pytest.approx(slowdown, rel=1e-4, abs=1e-5)
    assert fit.median_error < 1e-4
    for a, u, o in zip(alone, under, active, strict=True):
        assert fit.backward_s(a, o) == pytest.approx(u, rel=1e-4)


def test_an_exact_cost_per_byte_is_found():
    rng = np.random.default_rng(0)
    alone, sent = rng.uniform(0.04, 0.08, 30), rng.uniform(0, 1e6, 30)
    fit = fit_byte_contention(alone, alone + 4e-9 * sent, sent)
    assert fit.slope == pytest.approx(4e-9, rel=1e-4)
    noisy = fit_byte_contention(alone, (alone + 4e-9 * sent) * rng.lognormal(0, 0.01, 30), sent)
    assert noisy.slope_ci95[0] < 4e-9 < noisy.slope_ci95[1]
    assert noisy.flags == ()


def test_the_interval_holds_the_truth_in_most_cases_and_a_grid_search_agrees():
    held = 0
    for seed in range(40):
        alone, under, active = pairs(0.3, noise=0.03, seed=seed)
        fit = fit_contention(alone, under, active, resamples=300)
        held += fit.slope_ci95[0] <= 0.3 / 1.3 <= fit.slope_ci95[1]
    assert held >= 34
    a, u, o = (np.array(times) for times in (alone, under, active))

    def loss(share):
        residual = ((a + share * o) / u - 1) / 0.1
        return float(np.sum(np.sqrt(1 + residual**2) - 1))

    share = scipy.optimize.minimize_scalar(loss, bounds=(0, 1), method="bounded", options={"xatol": 1e-10}).x
    assert fit.slowdown == pytest.approx(share / (1 - share), rel=1e-4)


def test_one_wild_pair_pulls_little():
    alone, under, active = pairs(0.3)
    under[0] *= 5
    assert fit_contention(alone, under, active).slowdown == pytest.approx(0.3, rel=0.05)


def test_verdicts():
    assert "it describes backward" in fit_contention(*pairs(0.3, noise=0.01)).verdict
    assert "unresolved" in fit_contention(*pairs(0.0, noise=0.05)).flags
    alone, under, active = pairs(0.3)
    assert "no-better" in fit_contention(under, alone, [min(a, u) for a, u in zip(alone, active, strict=True)]).flags
    assert "large-residuals" in fit_contention(*pairs(0.3, noise=0.5)).flags


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"alone_s": [1.0]}, "1, 40 and 40 values"),
        ({"under_s": [math.inf] * 40}, "backward under communication of pair 0"),
        ({"alone_s": [0.0] * 40}, "backward alone of pair 0"),
        ({"active_s": [9.0] * 40}, "active time of pair 0"),
        ({"active_s": [0.0] * 40}, "never active"),
    ],
)
def test_what_cannot_be_fitted_is_named(change, part):
    good = dict(zip(("alone_s", "under_s", "active_s"), pairs(0.3), strict=True))
    with pytest.raises(InputError, match=part):
        fit_contention(**good | change)
    with pytest.raises(InputError, match="too few"):
        fit_contention([1.0] * 5, [1.0] * 5, [0.5] * 5)


def test_a_contended_pass_by_hand():
    # The first message is on the wire from 1 to 3 s: at half speed the second tensor's 2 s take until 4 s.
    assert contended_backward_s([1.0, 2.0], [0, 1], [2.0, 9.0], 1.0) == pytest.approx(4.0)
    # A wire that is never idle again slows all that is left.
    assert contended_backward_s([1.0, 2.0, 1.0], [0], [99.0], 0.5) == pytest.approx(1 + 3 * 1.5)
    assert contended_backward_s([1.0, 2.0], [1], [5.0], 3.0) == pytest.approx(3.0)


@given(
    gaps=st.lists(st.integers(0, 20), min_size=1, max_size=6),
    data=st.data(),
    slowdown=st.sampled_from([0.0, 0.25, 0.5, 1.0, 3.0]),
)
def test_a_contended_pass_agrees_with_a_clock_that_ticks(gaps, data, slowdown):
    last = sorted(data.draw(st.sets(st.integers(0, len(gaps) - 1))))
    costs = [data.draw(st.integers(0, 40)) for _ in last]
    rate, tick = 50, 0  # ticks a second
    left_on_wire = 0
    pending = list(zip(last, costs, strict=True))
    for tensor, gap in enumerate(gaps):
        work = gap * rate * 4
        while work > 0:
            work -= 4 / (1 + slowdown) if left_on_wire > 0 else 4
            left_on_wire = max(left_on_wire - 1, 0)
            tick += 1
        while pending and pending[0][0] == tensor:
            left_on_wire += pending.pop(0)[1] * rate
    expected = tick / rate
    assert contended_backward_s(gaps, last, costs, slowdown) == pytest.approx(expected, abs=len(gaps) * 2 / rate)
