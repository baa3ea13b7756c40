"""Unions of intervals against a rasterized line of microseconds."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wirebound.profile.traces.intervals import BusyTime, overlap, total, union, within

from .tracefiles import rasterized

LENGTH = 200
INTERVALS = st.lists(st.tuples(st.integers(0, LENGTH), st.integers(0, LENGTH)).map(sorted).map(tuple), max_size=30)


@given(INTERVALS)
def test_a_union_covers_what_its_intervals_cover(intervals):
    joined = union(intervals)
    assert total(joined) == rasterized(intervals, LENGTH).sum()
    assert all(a[1] < b[0] for a, b in itertools.pairwise(joined))
    assert np.array_equal(rasterized(joined, LENGTH), rasterized(intervals, LENGTH))


@given(INTERVALS, INTERVALS)
def test_overlap_is_what_both_cover(first, second):
    both = rasterized(first, LENGTH) & rasterized(second, LENGTH)
    assert overlap(union(first), union(second)) == overlap(union(second), union(first)) == both.sum()


@given(INTERVALS, st.integers(0, LENGTH), st.integers(0, LENGTH))
def test_within_a_window(intervals, start, end):
    assert within(union(intervals), start, end) == rasterized(intervals, LENGTH)[start:end].sum()


@given(INTERVALS, st.integers(1, 5))
def test_joining_early_changes_nothing(intervals, join_at):
    busy = BusyTime(join_at=join_at)
    for start, end in intervals:
        busy.add(start, end)
    assert busy.union() == union(intervals)


def test_little_memory_for_many_intervals():
    busy = BusyTime(join_at=100)
    for start in range(10_000):
        busy.add(start, start + 1)
    assert busy.union() == [(0, 10_000)]
    assert len(busy._starts) < 100
