"""Conformal factors: order statistics where every error is a draw of its own, and coverage where groups are alike."""

import math

import numpy as np
import pytest

from wirebound.errors import InputError
from wirebound.fit.prediction_interval import conformal_factor


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95])
def test_single_errors_give_the_order_statistic_of_split_conformal_prediction(level):
    errors = np.random.default_rng(0).normal(size=40)
    factor = conformal_factor(errors.tolist(), range(40), level)
    expected = np.sort(np.abs(errors))[math.ceil(41 * level) - 1]  # Vovk et al. 2005
    assert factor.factor == pytest.approx(math.exp(expected))
    assert factor.promised


def test_too_few_groups_promise_nothing_beyond_them():
    errors, groups = [0.1, -0.2, 0.3, 0.05], list("abcd")
    assert conformal_factor(errors, groups, 0.8).promised  # 4 of 5
    beyond = conformal_factor(errors, groups, 0.9)
    assert (beyond.promised, beyond.factor) == (False, pytest.approx(math.exp(0.3)))
    # The same errors, all of one group, promise a half at most.
    assert conformal_factor(errors, "aaaa", 0.5).promised
    assert not conformal_factor(errors, "aaaa", 0.6).promised


@pytest.mark.parametrize("level", [0.6, 0.8, 0.9])
def test_a_new_group_is_covered_though_errors_within_a_group_are_alike(level):
    """1500 trials: 12 groups of 5 runs whose errors share a part; one run of a thirteenth group is predicted."""
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(1500):
        shared = rng.standard_t(5, 13)
        errors = 0.05 * (shared[:12, None] + 0.3 * rng.normal(size=(12, 5)))
        factor = conformal_factor(errors.ravel().tolist(), np.repeat(np.arange(12), 5).tolist(), level)
        held += factor.holds(1.0, math.exp(-0.05 * (shared[12] + 0.3 * rng.normal())))
    # Never below the level but for chance, and above it by one group's weight at most.
    assert level - 0.025 < held / 1500 < level + 1 / 13 + 0.025


def test_an_interval_holds_its_own_bound():
    factor = conformal_factor([math.log(1.1)] * 3, "abc", 0.7)
    assert factor.holds(1.1, 1.0)
    assert factor.holds(1.0, 1.1)
    assert not factor.holds(1.0, 1.12)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (([0.1], "ab", 0.9), "1 errors but 2 groups"),
        (([], "", 0.9), "an interval needs errors"),
        (([math.nan], "a", 0.9), "an interval needs errors"),
        (([0.1], "a", 1.0), "level 1.0 must be between"),
    ],
)
def test_mistakes_are_named(arguments, part):
    with pytest.raises(InputError, match=part):
        conformal_factor(*arguments)
