"""Closed forms of collectives against the messages that they stand for, with every number of workers up to 17."""

import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

from wirebound.model import Link
from wirebound.simulate import gather, hierarchical
from wirebound.simulate.byteps import byteps_all_reduce
from wirebound.simulate.collectives import ALL_REDUCES, ring_all_reduce
from wirebound.simulate.gossip import gossip as gossip_s

from . import collectives as played
from .budget import tries
from .wires import Ranks

sizes, alphas, bandwidths = st.floats(1, 1e9), st.floats(0, 1e-2), st.floats(1e6, 1e11)
COUNTS = range(2, 18)


def play(process, workers, size, alpha, bandwidth, *more):
    """(seconds, bytes that the busiest port sent) of one collective."""
    env = simpy.Environment()
    ranks = Ranks(env, workers, Link(bandwidth, alpha))
    env.process(process(ranks, size, *more))
    env.run()
    return env.now, ranks.busiest_sent


def free(share):
    return 0.0


@pytest.mark.parametrize("workers", COUNTS)
@pytest.mark.parametrize("name", ["ring", "halving-doubling", "recursive-doubling", "tree"])
@tries(3)
@given(size=sizes, alpha=alphas, bandwidth=bandwidths)
def test_all_reduces(name, workers, size, alpha, bandwidth):
    seconds, sent = play(played.ALL_REDUCES[name], workers, size, alpha, bandwidth, free)
    assert ALL_REDUCES[name].seconds(size, workers, alpha, bandwidth) == pytest.approx(seconds, rel=1e-9)
    assert ALL_REDUCES[name].sent_bytes(size, workers) == pytest.approx(sent, rel=1e-9)


GATHERS = {
    "ring": (gather.ring_all_gather, gather.all_gather_sent_bytes, played.ring_gather),
    "bruck": (gather.all_gather, gather.all_gather_sent_bytes, played.bruck_gather),
    "broadcast": (gather.tree_broadcast, None, played.binomial_broadcast),
    "gtopk": (gather.gtopk_tree, gather.gtopk_tree_sent_bytes, played.gtopk_tree),
}


@pytest.mark.parametrize("workers", COUNTS)
@pytest.mark.parametrize("name", GATHERS)
@tries(3)
@given(size=sizes, alpha=alphas, bandwidth=bandwidths)
def test_gathers_and_trees(name, workers, size, alpha, bandwidth):
    seconds_of, sent_of, process = GATHERS[name]
    seconds, sent = play(process, workers, size, alpha, bandwidth)
    assert seconds_of(size, workers, alpha, bandwidth) == pytest.approx(seconds, rel=1e-9)
    if sent_of is not None:
        assert sent_of(size, workers) == pytest.approx(sent, rel=1e-9)


@pytest.mark.parametrize("stages", [[2], [7], [2, 2], [3, 2], [2, 5], [2, 2, 2], [3, 1, 4], [2, 2, 3]], ids=str)
@tries(5)
@given(size=sizes, alpha=alphas, bandwidth=bandwidths)
def test_blueconnect(stages, size, alpha, bandwidth):
    workers = 1
    for members in stages:
        workers *= members
    seconds, _ = play(played.blueconnect(stages), workers, size, alpha, bandwidth, free)
    links = [alpha] * len(stages), [bandwidth] * len(stages)
    assert hierarchical.blueconnect_all_reduce(size, stages, *links) == pytest.approx(seconds, rel=1e-9)
    if len(stages) == 2:
        torus = hierarchical.torus_all_reduce(size, *stages, alpha, bandwidth, alpha, bandwidth)
        assert torus == pytest.approx(seconds, rel=1e-9)


@tries(40)
@given(size=sizes, alpha=alphas, bandwidth=bandwidths, degree=st.integers(1, 6), more=st.integers(1, 5))
def test_gossip(size, alpha, bandwidth, degree, more):
    seconds, _ = play(played.gossip, degree + more, size, alpha, bandwidth, degree)
    assert gossip_s(size, degree, alpha, bandwidth) == pytest.approx(seconds, rel=1e-9)


@pytest.mark.parametrize("workers", COUNTS)
def test_byteps_is_between_an_all_reduce_and_servers_with_full_overlap(workers):
    """No extra server: the bytes of a ring. As many as workers: S, pushed and pulled at once. Two workers: always S."""
    size, bandwidth = 1e9, 1e8
    seconds = [byteps_all_reduce(size, workers, 0.0, bandwidth, k) for k in range(workers + 1)]
    assert seconds[0] == pytest.approx(ring_all_reduce(size, workers, 0.0, bandwidth), rel=1e-12)
    assert seconds[-1] == pytest.approx(size / bandwidth, rel=1e-12)
    assert seconds == sorted(seconds, reverse=True)
    if workers == 2:
        assert seconds == pytest.approx([10.0] * 3, rel=1e-12)
    for k, value in enumerate(seconds):
        assert play(played.byteps(k), workers, size, 0.0, bandwidth, free)[0] == pytest.approx(value, rel=1e-9)
