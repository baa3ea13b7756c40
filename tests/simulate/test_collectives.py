"""Collectives against values worked out by hand and against algorithms that really pass pieces around."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirebound.errors import InputError
from wirebound.model import Cluster, Link, Method, method_named
from wirebound.simulate.collectives import (
    ALL_REDUCES,
    double_tree_additions,
    double_tree_all_reduce,
    halving_doubling_additions,
    halving_doubling_all_reduce,
    halving_doubling_sent_bytes,
    hierarchical_all_reduce,
    ring_additions,
    ring_all_reduce,
    ring_sent_bytes,
    vector_add,
)
from wirebound.simulate.cost import message_cost, sent_bytes
from wirebound.simulate.servers import colocated_parameter_server, parameter_server

from .jobs import made


def run_ring(workers, elements):
    """Pass pieces round a ring of real vectors: the sums, rounds, elements sent and additions of worker 0."""
    vectors = [[float(worker + 1)] * elements for worker in range(workers)]
    piece = elements // workers
    rounds = sent = additions = 0
    for phase in ("reduce", "gather"):
        for step in range(workers - 1):
            moving = []
            for worker in range(workers):
                index = (worker - step + (phase == "gather")) % workers
                moving.append((index, vectors[worker][index * piece : (index + 1) * piece]))
            for worker, (index, values) in enumerate(moving):
                target = vectors[(worker + 1) % workers]
                for offset, value in enumerate(values):
                    place = index * piece + offset
                    target[place] = target[place] + value if phase == "reduce" else value
            rounds += 1
            sent += piece
            additions += phase == "reduce"
    return vectors, rounds, sent, additions


@pytest.mark.parametrize("workers", [2, 3, 4, 7])
def test_ring_counts_what_a_real_ring_does(workers):
    elements = workers * 6
    vectors, rounds, sent, additions = run_ring(workers, elements)
    assert all(value == workers * (workers + 1) / 2 for vector in vectors for value in vector)
    assert ring_all_reduce(elements, workers, 1.0, math.inf) == rounds
    assert ring_all_reduce(elements, workers, 0.0, 1.0) == pytest.approx(sent)
    assert ring_sent_bytes(elements, workers) == pytest.approx(sent)
    assert ring_additions(elements, workers) == [(additions, elements / workers)]


def run_halving_doubling(workers, elements):
    """Exchange halves of real vectors: the sums, and the messages and elements that the busiest worker sends."""
    vectors = [[float(worker + 1)] * elements for worker in range(workers)]
    sent, messages, added = [0] * workers, [0] * workers, [[] for _ in range(workers)]
    power = 2 ** (workers.bit_length() - 1)
    for extra in range(power, workers):
        vectors[extra - power] = [a + b for a, b in zip(vectors[extra - power], vectors[extra], strict=True)]
        sent[extra] += elements
        messages[extra] += 1
        added[extra - power].append(elements)
    bounds = [(0, elements)] * power
    distance = power // 2
    while distance:
        halves = []
        for worker in range(power):
            low, high = bounds[worker]
            middle = (low + high) // 2
            halves.append((low, middle) if worker & distance == 0 else (middle, high))
        before = [list(vector) for vector in vectors]
        for worker in range(power):
            partner = worker ^ distance
            low, high = halves[worker]
            for place in range(low, high):
                vectors[worker][place] = before[worker][place] + before[partner][place]
            sent[partner] += high - low
            messages[partner] += 1
            added[worker].append(high - low)
        bounds = halves
        distance //= 2
    distance = 1
    while distance < power:
        before, old = [list(vector) for vector in vectors], list(bounds)
        for worker in range(power):
            partner = worker ^ distance
            low, high = old[partner]
            vectors[worker][low:high] = before[partner][low:high]
            sent[partner] += high - low
            messages[partner] += 1
            bounds[worker] = (min(low, old[worker][0]), max(high, old[worker][1]))
        distance *= 2
    for extra in range(power, workers):
        vectors[extra] = list(vectors[extra - power])
        sent[extra - power] += elements
        messages[extra - power] += 1
    busiest = max(range(workers), key=lambda worker: sent[worker])
    return vectors, sent[busiest], added[0]


@pytest.mark.parametrize("workers", [2, 3, 4, 6, 8, 11])
def test_halving_doubling_counts_what_real_exchanges_do(workers):
    elements = 64
    vectors, sent, added = run_halving_doubling(workers, elements)
    assert all(value == workers * (workers + 1) / 2 for vector in vectors for value in vector)
    assert halving_doubling_sent_bytes(elements, workers) == pytest.approx(sent)
    counted = [piece for count, piece in halving_doubling_additions(elements, workers) for _ in range(count)]
    assert sorted(counted) == sorted(added)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        # 2·3 messages of 1 s, and 2·3/4 of 100 bytes at 10 B/s
        (ring_all_reduce(100, 4, 1.0, 10.0), 6 + 15),
        (halving_doubling_all_reduce(100, 4, 1.0, 10.0), 4 + 15),
        # six workers: four of them as above, and the whole vector there and back
        (halving_doubling_all_reduce(100, 6, 1.0, 10.0), 4 + 15 + 2 + 20),
        (double_tree_all_reduce(100, 8, 1.0, 10.0), 6 + 17.5),
        (double_tree_all_reduce(100, 2, 0.0, 10.0), 10),
        # four accelerators at 100 B/s around eight nodes' ring at 10 B/s that carries all 100 bytes
        (hierarchical_all_reduce(100, 4, 0.1, 100.0, ring_all_reduce(100, 8, 1.0, 10.0)), 0.6 + 1.5 + 14 + 17.5),
        # five workers, two servers: their links carry 250 bytes each way
        (parameter_server(100, 5, 2, 1.0, 10.0, 0.0), 2 + 50),
        (parameter_server(100, 5, 2, 1.0, 10.0, 1.0), 2 + 25),
        (parameter_server(100, 5, 10, 1.0, 10.0, 0.5), 2 + 15),
        (colocated_parameter_server(100, 5, 1.0, 10.0), 2 + 16),
    ],
)
def test_values_by_hand(seconds, expected):
    assert seconds == pytest.approx(expected, rel=1e-12)


def test_one_worker_costs_nothing():
    for algorithm in ALL_REDUCES.values():
        assert algorithm.seconds(100, 1, 1.0, 10.0) == 0
        assert algorithm.sent_bytes(100, 1) == 0
        assert sum(count for count, _ in algorithm.additions(100, 1)) == 0


def test_tree_adds_from_one_child_in_a_pair_and_from_two_in_a_crowd():
    assert double_tree_additions(100, 2) == [(1, 50)]
    assert double_tree_additions(100, 9) == [(2, 50)]


@given(
    st.lists(st.tuples(st.floats(1, 1e9), st.floats(0, 1)), min_size=1, max_size=8, unique_by=lambda row: row[0]),
    st.floats(0, 2e9),
)
def test_vector_add_is_linear_inside_and_flat_outside(table, size):
    import numpy as np

    table = sorted(table)
    sizes, seconds = zip(*table, strict=True)
    assert vector_add(size, sizes, seconds) == pytest.approx(np.interp(size, sizes, seconds), rel=1e-9, abs=1e-12)


def test_a_flat_ring_is_a_hierarchy_of_single_workers():
    workload = made([0.0], [1000], vector_add=[(1, 1e-3), (1000, 2e-3)])
    flat = message_cost(workload, Cluster(8, Link(10.0, 0.5)), method_named("bsp-a2a"))
    # 14 messages, 2·7/8 of the bytes, and seven additions of 125 bytes between the two measured sizes
    assert flat(1000.0) == pytest.approx(7 + 175 + 7 * (1e-3 + 124 / 999 * 1e-3), rel=1e-12)


def test_accelerators_of_a_node_share_its_link_and_add_their_shards():
    workload = made([0.0], [800], vector_add=[(1, 1e-3), (801, 9e-3)])
    cluster = Cluster(4, Link(10.0, 0.5, 0.5), 8, Link(100.0, 0.25))
    method = method_named("bsp-a2a", compression=2.0)
    inside = 14 * 0.25 + 2 * 7 / 8 * 400 / 100
    between = 6 * 0.5 + 2 * 3 / 4 * 400 / (10 * 0.5)
    additions = 7 * (1e-3 + 99e-5) + 3 * (1e-3 + 24e-5)  # of 100 bytes, then of 25: compression does not shorten them
    assert message_cost(workload, cluster, method)(800.0) == pytest.approx(inside + between + additions, rel=1e-12)
    without = message_cost(workload, cluster, method, include_vector_add=False)
    assert without(800.0) == pytest.approx(inside + between, rel=1e-12)


def test_before_they_push_the_accelerators_of_a_node_add_their_shards():
    workload = made([0.0], [800], vector_add=[(1, 1e-3), (801, 9e-3)])
    cluster = Cluster(4, Link(10.0, 0.5), 8, Link(100.0, 0.25))
    inside = 14 * 0.25 + 2 * 7 / 8 * 800 / 100
    additions = 7 * (1e-3 + 99e-5)  # of 100 bytes each; what servers add is theirs
    cost = message_cost(workload, cluster, method_named("bsp-ps"))
    assert cost(800.0) == pytest.approx(inside + 2 * 0.5 + 2 * 800 / 10 + additions, rel=1e-12)
    flat = message_cost(workload, Cluster(4, Link(10.0, 0.5)), method_named("bsp-ps"))
    assert flat(800.0) == pytest.approx(2 * 0.5 + 2 * 800 / 10, rel=1e-12)


def test_on_one_node_servers_and_all_reduce_are_the_same():
    workload = made([0.0], [800], vector_add=[(1, 1e-3), (801, 9e-3)])
    node = Cluster(1, Link(10.0, 0.5), 8, Link(100.0, 0.25))
    cost = message_cost(workload, node, method_named("bsp-ps"))
    assert cost(800.0) == message_cost(workload, node, method_named("bsp-a2a"))(800.0)
    assert cost(800.0) == pytest.approx(3.5 + 14 + 7 * (1e-3 + 99e-5), rel=1e-12)


def test_a_tree_sends_what_a_ring_sends():
    # 2·2/3 of the bytes with three workers, where halving and doubling would send twice all of them
    cluster = Cluster(3, Link(10.0))
    assert sent_bytes(made([0.0], [600]), cluster, Method("m", "all-reduce", "bsp", collective="tree")) == (800, 800)


def test_bytes_sent():
    workload = made([0.0], [800])
    cluster = Cluster(4, Link(10.0), 8, Link(100.0))
    # inside 2·7/8, between 2·3/4 of the node's bytes, an eighth of them each
    assert sent_bytes(workload, cluster, method_named("bsp-a2a")) == (1400 + 150, 1200)
    assert sent_bytes(workload, cluster, method_named("bsp-ps")) == (1400 + 100, 800)
    assert sent_bytes(workload, cluster, method_named("bsp-ps", colocated=True)) == (1400 + 150, 1200)
    assert sent_bytes(workload, Cluster(1, Link(10.0), 8), method_named("bsp-ps")) == (1400, 0)
    flat = Cluster(4, Link(10.0))
    assert sent_bytes(workload, flat, method_named("bsp-a2a", compression=2.0)) == (600, 600)
    assert sent_bytes(workload, flat, method_named("bsp-ps", compression=2.0)) == (400, 400)


def test_servers_default_to_one_per_node():
    workload, cluster = made([0.0], [100]), Cluster(5, Link(10.0))
    assert message_cost(workload, cluster, method_named("bsp-ps"))(100.0) == pytest.approx(20)
    assert message_cost(workload, cluster, method_named("bsp-ps", servers=1))(100.0) == pytest.approx(100)
    assert message_cost(workload, cluster, method_named("bsp-ps", colocated=True))(100.0) == pytest.approx(16)


def test_one_node_uses_no_server():
    cost = message_cost(made([0.0], [100]), Cluster(1, Link(10.0), 4, Link(100.0)), method_named("bsp-ps"))
    assert cost(100.0) == pytest.approx(2 * 3 / 4 * 100 / 100)


def test_unknown_collective_suggests_the_closest():
    method = Method("m", "all-reduce", "bsp", collective="rign")
    with pytest.raises(InputError, match="'rign': did you mean 'ring'"):
        message_cost(made([0.0], [100]), Cluster(2, Link(1.0)), method)
