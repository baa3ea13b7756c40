"""Consistency protocols on arbitrary draws: a second implementation in max-plus algebra, and laws."""

from itertools import cycle, islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wirebound.model.compute_time import ComputeTime
from wirebound.simulate.consistency import trace
from wirebound.simulate.consistency_events import updates
from wirebound.simulate.consistency_protocols import consistency_named

from .protocols import EVERY, listens


def ends_of(spec, draws, exchange_s, steps):
    """End of each step, workers × steps, of the event simulation; `draws` in the same shape, repeated beyond."""
    workers = len(draws)
    rule = consistency_named(spec).rule(workers)
    ends = np.full((workers, steps), np.nan)
    for update in updates([cycle(row) for row in draws], exchange_s, rule):
        if update.clock < steps:
            ends[update.worker, update.clock] = update.end_s
            if not np.isnan(ends).any():
                return ends
    raise AssertionError("unreachable: updates never end")


# --- a second implementation: end of step k of all workers at once, in max-plus algebra ---


def max_plus_ends(spec, draws, exchange_s):
    name, _, parameter = spec.partition(":")
    draws = np.asarray(draws, dtype=float)
    workers, steps = draws.shape
    if name == "gossip":
        graph = "ring" if not parameter else int(parameter) if parameter.isdecimal() else parameter
        heard = listens(graph, workers) | np.eye(workers, dtype=bool)
    ends = np.zeros((workers, steps))
    start = np.zeros(workers)
    for k in range(steps):
        ends[:, k] = start + draws[:, k]
        if name != "local-sgd" or (k + 1) % int(parameter) == 0:
            ends[:, k] += exchange_s
        start = ends[:, k].copy()
        if name == "bsp" or (name == "local-sgd" and (k + 1) % int(parameter) == 0):
            start[:] = ends[:, k].max()
        elif name == "ssp" and k >= int(parameter):
            start = np.maximum(start, ends[:, k - int(parameter)].max())
        elif name == "gossip":
            start = np.where(heard, ends[:, k], -np.inf).max(axis=1)
    return ends


draws = st.integers(1, 9).flatmap(
    lambda workers: st.integers(1, 25).flatmap(
        lambda steps: st.lists(
            st.lists(st.floats(1e-3, 10) | st.sampled_from([1.0, 2.0]), min_size=steps, max_size=steps),
            min_size=workers,
            max_size=workers,
        )
    )
)


@settings(deadline=None, max_examples=200)
@given(draws, st.floats(0, 3), st.sampled_from(EVERY) | st.integers(0, 12).map("ssp:{}".format))
def test_events_and_max_plus_algebra_agree_exactly(times, exchange_s, spec):
    steps = len(times[0])
    assert (ends_of(spec, times, exchange_s, steps) == max_plus_ends(spec, times, exchange_s)).all()


# --- laws on the same draws ---


@settings(deadline=None, max_examples=60)
@given(draws, st.floats(0, 3), st.integers(0, 8))
def test_a_looser_bound_never_delays_any_step(times, exchange_s, bound):
    steps = len(times[0])
    strict = ends_of(f"ssp:{bound}", times, exchange_s, steps)
    loose = ends_of(f"ssp:{bound + 1}", times, exchange_s, steps)
    free = ends_of("asp", times, exchange_s, steps)
    assert (loose <= strict).all()
    assert (free <= loose).all()
    assert (ends_of("ssp:1000", times, exchange_s, steps) == free).all()


@settings(deadline=None, max_examples=60)
@given(draws, st.floats(0, 3), st.integers(1, 5), st.integers(1, 4))
def test_rarer_averages_and_fewer_neighbours_never_delay_any_step(times, exchange_s, period, multiple):
    steps = len(times[0])
    often = ends_of(f"local-sgd:{period}", times, exchange_s, steps)
    assert (ends_of(f"local-sgd:{period * multiple}", times, exchange_s, steps) <= often).all()
    bsp = ends_of("bsp", times, exchange_s, steps)
    four = ends_of("gossip:4", times, exchange_s, steps)
    ring = ends_of("gossip:ring", times, exchange_s, steps)
    assert (ends_of("asp", times, exchange_s, steps) <= ring).all()
    assert (ring <= four).all()
    assert (four <= bsp).all()
    for same in ("ssp:0", "local-sgd:1", "gossip:complete"):
        assert (ends_of(same, times, exchange_s, steps) == bsp).all()


@settings(deadline=None, max_examples=60)
@given(draws, st.floats(0, 3), st.integers(0, 6))
def test_no_reader_is_more_than_the_bound_ahead(times, exchange_s, bound):
    workers = len(times)
    rule = consistency_named(f"ssp:{bound}").rule(workers)
    run = list(islice(updates([cycle(row) for row in times], exchange_s, rule), 40 * workers))
    done = [0] * workers
    order = sorted(  # at one instant what is applied comes before what begins
        [(u.end_s, 0, n, u) for n, u in enumerate(run)] + [(u.start_s, 1, n, u) for n, u in enumerate(run)]
    )
    for now, begins, _, update in order:
        if now > run[-1].end_s:
            break
        if not begins:
            done[update.worker] += 1
        else:
            assert update.clock - min(done) <= bound
    assert all(0 <= update.age <= bound for update in run)


@pytest.mark.parametrize("graph", ["ring", "torus", "exponential"])
def test_gossiping_workers_are_no_further_apart_in_clocks_than_in_the_graph(graph):
    workers = 12
    hops = np.zeros((workers, workers))
    reach = np.eye(workers)
    while not reach.all():
        hops += reach == 0
        reach = np.sign(reach @ (listens(graph, workers) + np.eye(workers)))
    done = np.zeros(workers)
    run = trace(workers, ComputeTime(1.0, "lognormal", 1.0, factors=(4.0,)), 0.1, consistency_named(f"gossip:{graph}"))
    furthest = 0.0
    for update in islice(run, 3_000):
        done[update.worker] += 1
        ahead = done[:, None] - done[None, :]
        # Beginning step k takes k steps of those one hop away; finishing it makes one more.
        assert (ahead <= hops + (hops > 0)).all()
        furthest = max(furthest, ahead.max())
    assert furthest > 1
    assert update.age == hops.max() - 1
