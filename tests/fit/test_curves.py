"""The choice of a curve: truths of each kind, under noise that the fit does not assume, and ties that stay affine."""

import numpy as np
import pytest

from wirebound.errors import InputError
from wirebound.fit.curves import ENOUGH_SIZES, choose_curve

SIZES = 2.0 ** np.arange(10, 28)
TRUTHS = {
    "affine": 5e-5 + 1e-10 * SIZES,
    "power": 2e-5 + 4e-9 * SIZES**0.75,
    "two-segment": 1e-4 + 2e-9 * np.minimum(SIZES, 2**20) + 1e-10 * np.maximum(SIZES - 2**20, 0),
}


@pytest.mark.parametrize("name", list(TRUTHS))
def test_the_curve_that_made_the_times_is_found(name):
    rng = np.random.default_rng(3)
    chosen = []
    for _ in range(5):
        times = TRUTHS[name] * rng.gamma(2500, 1 / 2500, len(SIZES))  # 2 % noise, not the fit's own model
        choice = choose_curve(SIZES, times)
        chosen.append(choice.best)
        assert choice.fit.held_out_error < 0.05
    assert chosen.count(name) >= 4, chosen


def test_exact_times_give_the_parameters():
    choice = choose_curve(SIZES, TRUTHS["two-segment"])
    assert choice.best == "two-segment"
    found = choice.fit.parameters
    assert found["knee_bytes"] == pytest.approx(2**20, rel=1e-3)
    assert found["beta_below_s_per_byte"] == pytest.approx(2e-9, rel=1e-3)
    assert found["beta_above_s_per_byte"] == pytest.approx(1e-10, rel=1e-3)
    assert choice.fit.time_s(2.0**30) == pytest.approx(1e-4 + 2e-9 * 2**20 + 1e-10 * (2**30 - 2**20), rel=1e-3)


@pytest.mark.parametrize(("alpha", "beta"), [(1e-4, 1e-9), (3e-5, 1e-8), (1e-6, 1e-11)])
def test_rounding_chooses_no_other_curve(alpha, beta):
    assert choose_curve(SIZES, alpha + beta * SIZES).best == "affine"


def test_a_straight_line_needs_no_other_curve():
    choice = choose_curve(SIZES, TRUTHS["affine"])
    assert choice.best == "affine"
    assert choice.candidates[0].name == "affine"
    assert choice.fit.parameters["alpha_s"] == pytest.approx(5e-5, rel=1e-6)
    assert choice.fit.parameters["beta_s_per_byte"] == pytest.approx(1e-10, rel=1e-6)


def test_held_out_error_is_that_of_sizes_left_out():
    """With one size per group it is leave-one-out, computed here for the affine curve by weighted least squares."""
    sizes = SIZES[::2][:ENOUGH_SIZES]
    times = (5e-5 + 1e-10 * sizes) * (1 + 1e-3 * np.cos(np.arange(len(sizes))))
    errors = []
    for index in range(len(sizes)):
        kept = np.arange(len(sizes)) != index
        design = np.column_stack([np.ones_like(sizes), sizes])[kept] / times[kept, None]
        alpha, beta = np.linalg.lstsq(design, np.ones(kept.sum()), rcond=None)[0]
        errors.append(abs(np.log((alpha + beta * sizes[index]) / times[index])))
    assert choose_curve(sizes, times).candidates[0].held_out_error == pytest.approx(np.mean(errors), rel=0.02)


def test_too_few_sizes_choose_nothing():
    assert choose_curve(SIZES[: ENOUGH_SIZES - 1], TRUTHS["affine"][: ENOUGH_SIZES - 1]) is None


def test_sizes_must_rise():
    with pytest.raises(InputError, match="must rise"):
        choose_curve(SIZES[::-1], TRUTHS["affine"])
