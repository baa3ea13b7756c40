"""A round waits for its slowest client: closed forms against enumeration and by hand."""

import itertools
import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirebound.errors import InputError
from wirebound.simulate.federated import (
    break_even_uplink,
    client_round_s,
    elapsed_s,
    expected_slowest,
    speed_factors,
)

SECONDS = st.floats(0, 1e3)


def test_a_client_downloads_trains_and_uploads_one_after_another():
    # 1 MB down at 10 MB/s, 2 s of training, 0.5 MB up at 1 MB/s, twice 50 ms
    assert client_round_s(1e6, 5e5, 2.0, 1e7, 1e6, 0.05) == pytest.approx(0.1 + 0.1 + 2 + 0.5)


@given(st.lists(SECONDS, min_size=1, max_size=7), st.data())
def test_the_expected_slowest_is_the_mean_over_all_sets(times: list[float], data: st.DataObject):
    sampled = data.draw(st.integers(1, len(times)))
    every = [max(chosen) for chosen in itertools.combinations(times, sampled)]
    assert expected_slowest(times, sampled) == pytest.approx(statistics.fmean(every), abs=1e-9)


def test_one_of_n_uniform_times_has_the_known_maximum():
    # The largest of m drawn from 1 … n without replacement has mean m(n + 1)/(m + 1).
    assert expected_slowest(range(1, 41), 10) == pytest.approx(10 * 41 / 11)


def test_speeds_are_lognormal_with_median_one():
    factors = speed_factors(2001, 0.5, seed=3)
    logarithms = [math.log(factor) for factor in factors]
    assert statistics.median(factors) == pytest.approx(1)
    assert statistics.pstdev(logarithms) == pytest.approx(0.5, rel=0.01)
    assert sorted(factors) == sorted(speed_factors(2001, 0.5, seed=4))
    assert factors != speed_factors(2001, 0.5, seed=4)
    assert speed_factors(5, 0, seed=1) == [1.0] * 5


def test_rounds_add_up_their_slowest():
    assert elapsed_s([1.0, 5.0, 2.0], [[0, 2], [1], [0]]) == [2.0, 7.0, 8.0]


def test_at_the_break_even_both_take_equally_long():
    dense, coded = (50, 1e6, 0.2), (80, 5e4, 0.3)
    uplink = break_even_uplink(*dense, *coded)
    assert uplink is not None
    took = [rounds * (other + upload / uplink) for rounds, upload, other in (dense, coded)]
    assert took[0] == pytest.approx(took[1])
    slower = [rounds * (other + upload / (uplink / 2)) for rounds, upload, other in (dense, coded)]
    assert slower[1] < slower[0]


def test_there_is_no_break_even_where_one_is_always_faster():
    assert break_even_uplink(50, 1e6, 0.2, 50, 5e4, 0.2) is None
    assert break_even_uplink(50, 1e6, 0.2, 40, 5e4, 0.2) is None


@pytest.mark.parametrize(
    ("call", "culprit"),
    [
        (lambda: client_round_s(1, 1, 1, 0, 1, 0), "downlink"),
        (lambda: expected_slowest([1.0], 2), "sampled = 2"),
        (lambda: speed_factors(0, 1, 1), "clients = 0"),
        (lambda: speed_factors(3, -1, 1), "spread = -1"),
    ],
)
def test_mistakes_are_named_in_one_line(call, culprit: str):
    with pytest.raises(InputError, match=culprit) as caught:
        call()
    assert "\n" not in str(caught.value)
