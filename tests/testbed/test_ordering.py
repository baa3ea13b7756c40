"""The share of pairs in the right order: counted by hand."""

import pytest

from wirebound.errors import InputError
from wirebound.testbed.ordering import pairs_in_order


def test_pairs_that_differ_by_more_than_a_tenth_are_counted():
    # 1.0 and 1.05 are as fast as each other; 2.0 is slower than both, and predicted so against the first one only.
    assert pairs_in_order([1.0, 1.4, 1.2], [1.0, 1.05, 2.0]) == (1, 2)
    assert pairs_in_order([1.0, 1.4, 1.2], [1.0, 1.05, 2.0], apart=0.01) == (2, 3)


def test_the_right_order_and_the_opposite_one():
    times = [1.0, 2.0, 3.0, 4.0]
    assert pairs_in_order(times, [10 * time for time in times]) == (6, 6)
    assert pairs_in_order(times, times[::-1]) == (0, 6)
    assert pairs_in_order([1.0, 1.0], [1.0, 2.0]) == (0, 1)
    assert pairs_in_order([], []) == (0, 0)


@pytest.mark.parametrize(("predicted", "measured"), [([1.0], [1.0, 2.0]), ([0.0, 1.0], [1.0, 2.0])])
def test_what_cannot_be_compared_is_refused(predicted: list[float], measured: list[float]):
    with pytest.raises(InputError):
        pairs_in_order(predicted, measured)
