"""The ready curve: medians and shares that can be worked out by hand."""

import numpy as np
import pytest

from wirebound.errors import InputError
from wirebound.fit.compute import ready_curve


def test_ready_curve_by_hand():
    samples = [[0.1, 0.2, 0.3], [0.5, 0.5, 0.5], [0.9, 1.0, 0.8]]
    curve = ready_curve(samples, [600, 300, 100], [0.2, 0.1, 0.4])
    assert curve.median == pytest.approx((0.2, 0.5, 0.9))
    assert curve.lower == pytest.approx((0.15, 0.5, 0.85))
    assert curve.upper == pytest.approx((0.25, 0.5, 0.95))
    assert curve.bytes_share == pytest.approx((0.6, 0.9, 1.0))
    assert curve.half_bytes_at == pytest.approx(0.2)
    assert curve.backward_s == pytest.approx(0.2)
    assert curve.backward_spread == pytest.approx((0.3 - 0.15) / 0.2)
    assert curve.ready_spread == pytest.approx(0.1)
    assert curve.ready_s() == pytest.approx((0.04, 0.1, 0.18))
    assert curve.ready_s(1.0) == pytest.approx(curve.median)


def test_a_common_slowdown_of_single_steps_leaves_no_trace():
    rng = np.random.default_rng(1)
    true = np.cumsum(rng.dirichlet(np.ones(20)))
    backward_s = 0.05 * rng.lognormal(0, 0.3, 40)
    ready_s = true[:, None] * backward_s
    curve = ready_curve((ready_s / backward_s).tolist(), [1] * 20, backward_s.tolist())
    assert curve.median == pytest.approx(true.tolist())
    assert curve.ready_spread < 1e-12
    assert curve.backward_spread > 0.1


@pytest.mark.parametrize(
    ("samples", "sizes", "backward", "part"),
    [
        ([], [], [0.1], "no samples"),
        ([[0.5]], [1], [], "no samples"),
        ([[0.5]], [1, 2], [0.1], "1 tensors"),
        ([[0.5, 0.6], [0.5]], [1, 2], [0.1, 0.1], "tensor 1 has 1"),
    ],
)
def test_wrong_shapes_are_named(samples, sizes, backward, part):
    with pytest.raises(InputError, match=part):
        ready_curve(samples, sizes, backward)
