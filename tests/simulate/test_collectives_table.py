"""Every cost of a collective against its equation in exact fractions, and against its limits."""

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirebound.model import Cluster, Link, Method
from wirebound.simulate.all_reduces import COLLECTIVES, FLAT_RING, all_reduce_named, prime_factors
from wirebound.simulate.byteps import byteps_all_reduce, byteps_sent_bytes
from wirebound.simulate.collectives import (
    ALL_REDUCES,
    double_tree_all_reduce,
    halving_doubling_all_reduce,
    hierarchical_all_reduce,
    recursive_doubling_all_reduce,
    ring_all_reduce,
)
from wirebound.simulate.cost import exchange_cost, exchange_sent_bytes
from wirebound.simulate.gather import (
    all_gather,
    gtopk_tree,
    halving_reduce_scatter,
    ring_all_gather,
    ring_reduce_scatter,
    scattered_broadcast,
    tree_broadcast,
)
from wirebound.simulate.gossip import gossip, gossip_sent_bytes
from wirebound.simulate.hierarchical import blueconnect_all_reduce, flat_ring_all_reduce, torus_all_reduce
from wirebound.simulate.in_network import in_network_all_reduce, slots_needed
from wirebound.simulate.servers import colocated_parameter_server, parameter_server
from wirebound.simulate.trees import double_tree_busiest_sent_bytes, pipelined_double_tree_all_reduce

SIZE, LATENCY, BANDWIDTH = 3_000_017, 2.0**-14, 2.0**30
S, A, B = Fraction(SIZE), Fraction(LATENCY), Fraction(BANDWIDTH)
FLAT_NAMES = [name for name in COLLECTIVES if name not in ("auto", FLAT_RING)]


def up(workers):
    """⌈log2 P⌉, in whole numbers."""
    return (workers - 1).bit_length()


def down(workers):
    """⌊log2 P⌋ and that power of two, in whole numbers."""
    return workers.bit_length() - 1, 2 ** (workers.bit_length() - 1)


def expected_halving_doubling(p):
    rounds, power = down(p)
    extra = 0 if power == p else 2 * A + 2 * S / B
    return 2 * rounds * A + 2 * Fraction(power - 1, power) * S / B + extra


def expected_recursive_doubling(p):
    rounds, power = down(p)
    return (rounds + (0 if power == p else 2)) * (A + S / B)


#: The table's rows over P workers: the function, and its equation in fractions.
ROWS = {
    "ring": (ring_all_reduce, lambda p: 2 * (p - 1) * A + 2 * Fraction(p - 1, p) * S / B),
    "halving-doubling": (halving_doubling_all_reduce, expected_halving_doubling),
    "recursive-doubling": (recursive_doubling_all_reduce, expected_recursive_doubling),
    "tree": (double_tree_all_reduce, lambda p: 2 * up(p) * A + 2 * Fraction(p - 1, p) * S / B),
    "all-gather": (all_gather, lambda p: up(p) * A + (p - 1) * S / B),
    "ring all-gather": (ring_all_gather, lambda p: (p - 1) * A + (p - 1) * S / B),
    "ring reduce-scatter": (ring_reduce_scatter, lambda p: (p - 1) * A + Fraction(p - 1, p) * S / B),
    "tree broadcast": (tree_broadcast, lambda p: up(p) * (A + S / B)),
    "scattered broadcast": (scattered_broadcast, lambda p: (up(p) + p - 1) * A + 2 * Fraction(p - 1, p) * S / B),
    "gtopk": (gtopk_tree, lambda p: 2 * up(p) * (A + S / B)),
}


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("workers", [1, 2, 3, 4, 5, 7, 8, 12, 64, 1000])
def test_rows_of_the_table(row, workers):
    seconds, expected = ROWS[row]
    assert seconds(SIZE, workers, LATENCY, BANDWIDTH) == pytest.approx(float(expected(workers)), rel=1e-14)


@pytest.mark.parametrize("workers", [1, 2, 4, 8, 64])
def test_halving_scatters_in_as_many_rounds_as_there_are_halves(workers):
    expected = up(workers) * A + Fraction(workers - 1, workers) * S / B
    assert halving_reduce_scatter(SIZE, workers, LATENCY, BANDWIDTH) == pytest.approx(float(expected), rel=1e-14)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 6), (5, 1), (4, 8), (8, 3)])
def test_torus_and_shared_card(rows, columns):
    a1, b1 = Fraction(1, 2**18), Fraction(2**36)
    inside = 2 * (rows - 1) * a1 + 2 * Fraction(rows - 1, rows) * S / b1
    messages = 2 * (columns - 1) * A
    torus = inside + messages + 2 * Fraction(columns - 1, rows * columns) * S / B
    shared = inside + messages + 2 * Fraction(columns - 1, columns) * S / B
    found = torus_all_reduce(SIZE, rows, columns, float(a1), float(b1), LATENCY, BANDWIDTH)
    assert found == pytest.approx(float(torus), rel=1e-14)
    between = ring_all_reduce(SIZE, columns, LATENCY, BANDWIDTH)
    found = hierarchical_all_reduce(SIZE, rows, float(a1), float(b1), between)
    assert found == pytest.approx(float(shared), rel=1e-14)
    # The cluster chooses between the two by its number of cards, and anything between them costs in between.
    inter, intra = Link(BANDWIDTH, LATENCY), Link(float(b1), float(a1))
    method = Method("m", "all-reduce", "bsp")
    by_cards = [
        exchange_cost(Cluster(columns, inter, rows, intra, cards), method, "ring")(SIZE)
        for cards in range(1, rows + 1)
        if rows % cards == 0
    ]
    assert by_cards[0] == pytest.approx(float(shared), rel=1e-14)
    assert by_cards[-1] == pytest.approx(float(torus), rel=1e-14)
    assert by_cards == sorted(by_cards, reverse=True)


@given(st.lists(st.tuples(st.integers(1, 9), st.floats(0, 1e-3), st.floats(1e6, 1e11)), min_size=1, max_size=5))
def test_blueconnect(stages):
    factors, latencies, bandwidths = map(list, zip(*stages, strict=True))
    expected, reached = Fraction(0), 1
    for factor, latency, bandwidth in stages:
        reached *= factor
        expected += 2 * (factor - 1) * Fraction(latency)
        expected += 2 * Fraction(factor - 1, reached) * S / Fraction(bandwidth)
    found = blueconnect_all_reduce(SIZE, factors, latencies, bandwidths)
    assert found == pytest.approx(float(expected), rel=1e-12)
    if len(stages) == 1:
        assert found == pytest.approx(ring_all_reduce(SIZE, factors[0], latencies[0], bandwidths[0]), rel=1e-12)
    if len(stages) == 2:
        torus = torus_all_reduce(SIZE, *factors, latencies[0], bandwidths[0], latencies[1], bandwidths[1])
        assert found == pytest.approx(torus, rel=1e-12)


@given(st.integers(1, 200), st.floats(0, 1e-3), st.floats(1e6, 1e11))
def test_blueconnect_over_like_links_sends_what_a_ring_sends_in_no_more_messages(workers, latency, bandwidth):
    factors = prime_factors(workers)
    assert math.prod(factors) == workers
    assert all(factor > 1 and all(factor % divisor for divisor in range(2, factor)) for factor in factors)
    found = all_reduce_named("blueconnect").seconds(SIZE, workers, latency, bandwidth)
    messages = sum(2 * (factor - 1) for factor in factors)
    carried = 2 * (workers - 1) / workers * SIZE / bandwidth
    assert found == pytest.approx(messages * latency + carried, rel=1e-12)
    if workers & (workers - 1) == 0:  # pairs all the way: halving and doubling
        halving = halving_doubling_all_reduce(SIZE, workers, latency, bandwidth)
        assert found == pytest.approx(halving, rel=1e-12)


@pytest.mark.parametrize("workers", [2, 3, 4, 5, 16, 61])
def test_byteps(workers):
    n = workers
    times = []
    for k in range(n + 1):
        expected = 2 * n * (n - 1) * S / ((n * n + k * n - 2 * k) * B)
        times.append(byteps_all_reduce(SIZE, n, 0.0, BANDWIDTH, k))
        assert times[-1] == pytest.approx(float(expected), rel=1e-14)
        assert byteps_all_reduce(SIZE, n, LATENCY, BANDWIDTH, k) == pytest.approx(float(expected + 2 * A), rel=1e-14)
        assert byteps_sent_bytes(SIZE, n, k) == pytest.approx(float(expected * B), rel=1e-14)
    assert times[0] == pytest.approx(ring_all_reduce(SIZE, n, 0.0, BANDWIDTH), rel=1e-14)
    assert times[0] == pytest.approx(colocated_parameter_server(SIZE, n, 0.0, BANDWIDTH), rel=1e-14)
    assert times[n] == pytest.approx(parameter_server(SIZE, n, n, 0.0, BANDWIDTH, 1.0), rel=1e-14)
    assert times[n] == pytest.approx(SIZE / BANDWIDTH, rel=1e-14)
    if n == 2:
        assert times == pytest.approx([times[0]] * 3, rel=1e-14)
    else:
        assert all(more < fewer for fewer, more in itertools.pairwise(times))
    assert byteps_all_reduce(SIZE, n, 0.0, BANDWIDTH, n + 5) == times[n]


@pytest.mark.parametrize("servers", [0, 1, 3])
def test_byteps_with_one_worker_is_free(servers):
    assert byteps_all_reduce(SIZE, 1, LATENCY, BANDWIDTH, servers) == 0
    assert byteps_sent_bytes(SIZE, 1, servers) == 0


@pytest.mark.parametrize("workers", [4, 7, 16])
def test_byteps_share_is_the_best_split_between_its_two_kinds_of_servers(workers):
    """Search the share x of each extra server; the workers' machines keep the rest (Jiang et al. 2020, section 4)."""
    for extra in range(1, workers + 1):

        def link_time(share, extra=extra):
            own = (1 - extra * share) / workers  # what each worker's machine adds up for all
            worker = (workers - 1) * own + extra * share + (workers - 1) * own  # its push, and the others' pull
            return max(worker if own >= 0 else math.inf, workers * share)

        best = min(link_time(index / 20_000 / extra) for index in range(20_001))
        assert byteps_all_reduce(1.0, workers, 0.0, 1.0, extra) == pytest.approx(best, rel=1e-3)


@pytest.mark.parametrize("workers", [2, 9, 4096])
@pytest.mark.parametrize(("slots", "slot_bytes", "round_trip"), [(512, 256, 2.0**-10), (128, 128, 2.0**-20), (1, 1, 0)])
def test_in_network_aggregation(workers, slots, slot_bytes, round_trip):
    window = Fraction(slots * slot_bytes)
    rate = min(B, window / Fraction(round_trip)) if round_trip else B
    found = in_network_all_reduce(SIZE, workers, LATENCY, BANDWIDTH, slots, slot_bytes, round_trip)
    assert found == pytest.approx(float(2 * A + S / rate), rel=1e-14)


def test_in_network_aggregation_knows_no_number_of_workers_and_enough_slots_free_the_link():
    few, many = (in_network_all_reduce(SIZE, p, LATENCY, BANDWIDTH, 512, 256, 1e-4) for p in (2, 10_000))
    assert few == many
    needed = slots_needed(BANDWIDTH, 256, 1e-4)
    assert needed == pytest.approx(BANDWIDTH * 1e-4 / 256)
    assert in_network_all_reduce(SIZE, 2, 0.0, BANDWIDTH, needed * 1.001, 256, 1e-4) == SIZE / BANDWIDTH
    assert in_network_all_reduce(SIZE, 2, 0.0, BANDWIDTH, needed / 2, 256, 1e-4) == pytest.approx(2 * SIZE / BANDWIDTH)


def packets_through_a_switch(packets, slots, round_trip, packet_s):
    """A worker's packets of `packet_s` seconds each, no more than `slots` of them under way: when the last is back."""
    back = []
    link_free = 0.0
    for index in range(packets):
        start = max(link_free, back[index - slots] if index >= slots else 0.0)
        link_free = start + packet_s
        back.append(start + max(round_trip, packet_s))
    return back[-1]


@pytest.mark.parametrize("slots", [1, 4, 16, 64])
def test_slots_limit_the_rate_as_packets_do(slots):
    packets, slot_bytes, bandwidth, round_trip = 4096, 256, 2.0**28, 2.0**-16
    found = packets_through_a_switch(packets, slots, round_trip, slot_bytes / bandwidth)
    expected = in_network_all_reduce(packets * slot_bytes, 8, 0.0, bandwidth, slots, slot_bytes, round_trip)
    assert expected <= found <= expected + 2 * round_trip


@pytest.mark.parametrize("degree", [0, 1, 2, 7])
def test_gossip(degree):
    assert gossip(SIZE, degree, LATENCY, BANDWIDTH) == pytest.approx(float(degree * A + degree * S / B), rel=1e-14)
    assert gossip_sent_bytes(SIZE, degree) == degree * SIZE


@pytest.mark.parametrize(("nodes", "per_node", "cards"), [(1, 1, 1), (1, 4, 2), (3, 1, 1), (2, 8, 1), (4, 4, 4)])
def test_flat_ring(nodes, per_node, cards):
    workers = nodes * per_node
    hops = [Fraction(0)]
    if per_node > 1:
        hops.append(A / 4 + S / workers / (B * 8))
    if nodes > 1:
        hops.append(A + S / workers / cards / B)
    found = flat_ring_all_reduce(SIZE, nodes, per_node, cards, LATENCY / 4, BANDWIDTH * 8, LATENCY, BANDWIDTH)
    assert found == pytest.approx(float(2 * (workers - 1) * max(hops)), rel=1e-14)


def test_a_flat_ring_of_two_servers_sends_almost_twice_what_two_nodes_need():
    """Finding 3 on the what-if model: a ring of 16 on 2 servers against a ring of 2."""
    method = Method("m", "all-reduce", "bsp")
    servers = Cluster(2, Link(BANDWIDTH), 8)
    assert exchange_cost(servers, method, FLAT_RING)(SIZE) / exchange_cost(servers, method, "ring")(SIZE) == 15 / 8
    assert exchange_sent_bytes(SIZE, servers, method, FLAT_RING)[1] == 15 / 8 * SIZE
    alone = Cluster(16, Link(BANDWIDTH))
    assert exchange_cost(servers, method, FLAT_RING)(SIZE) == exchange_cost(alone, method, "ring")(SIZE)


@pytest.mark.parametrize("name", FLAT_NAMES)
def test_one_worker_costs_nothing(name):
    algorithm = all_reduce_named(name)
    assert algorithm.seconds(SIZE, 1, LATENCY, BANDWIDTH) == 0
    assert algorithm.sent_bytes(SIZE, 1) == 0
    assert sum(count for count, _ in algorithm.additions(SIZE, 1)) == 0


@pytest.mark.parametrize("name", [*ALL_REDUCES, "blueconnect", "byteps:0"])
@given(workers=st.integers(2, 300))
def test_no_all_reduce_between_workers_beats_the_lower_bound(name, workers):
    bound = 2 * (workers - 1) / workers * SIZE
    algorithm = all_reduce_named(name)
    assert algorithm.seconds(SIZE, workers, 0.0, BANDWIDTH) >= bound / BANDWIDTH * (1 - 1e-12)
    assert algorithm.sent_bytes(SIZE, workers) >= bound * (1 - 1e-12)
    if name != "byteps:0":  # whose machines talk to all others at once, as servers do
        assert algorithm.seconds(0.0, workers, LATENCY, BANDWIDTH) >= math.log2(workers) * LATENCY * (1 - 1e-12)


@pytest.mark.parametrize("name", FLAT_NAMES)
@given(workers=st.integers(2, 300), size=st.floats(1, 1e9))
def test_without_latency_the_busiest_link_sets_the_time(name, workers, size):
    """Only halving and doubling of odd numbers takes turns: there and back are rounds of their own."""
    algorithm = all_reduce_named(name)
    seconds = algorithm.seconds(size, workers, 0.0, BANDWIDTH)
    sent_s = algorithm.sent_bytes(size, workers) / BANDWIDTH
    turns = size / BANDWIDTH if "doubling" in name and workers & (workers - 1) else 0.0
    assert seconds == pytest.approx(sent_s + turns, rel=1e-12)


@pytest.mark.parametrize("name", ["ring", "tree", "pipelined-tree", "blueconnect", "byteps:0"])
def test_many_workers_send_everything_twice(name):
    assert all_reduce_named(name).sent_bytes(SIZE, 2**20) == pytest.approx(2 * SIZE, rel=2e-6)


@pytest.mark.parametrize("seconds", [double_tree_all_reduce, pipelined_double_tree_all_reduce])
def test_a_double_tree_of_two_moves_the_vector_once(seconds):
    assert seconds(SIZE, 2, LATENCY, BANDWIDTH) == pytest.approx(float(2 * A + S / B), rel=1e-14)
    assert double_tree_busiest_sent_bytes(SIZE, 2) == SIZE


@given(st.integers(2, 5000), st.floats(0, 1e9), st.floats(0, 1e-2), st.floats(1e5, 1e11))
def test_the_pipelined_tree_takes_its_best_number_of_pieces(workers, size, latency, bandwidth):
    """Search the equation over whole numbers of pieces: never better, and close for many pieces."""
    depth, sends = up(workers), min(workers, 4)

    def in_pieces(pieces):
        return (2 * depth - sends + sends * pieces) * (latency + size / (2 * pieces * bandwidth))

    found = pipelined_double_tree_all_reduce(size, workers, latency, bandwidth)
    best = min(in_pieces(pieces) for pieces in [1, 2, 3, 4, *(round(2 ** (e / 4)) for e in range(9, 120))])
    assert found <= best * (1 + 1e-12) + 1e-300
    assert found >= best * 0.9 - 1e-12
    assert found >= double_tree_all_reduce(size, workers, latency, bandwidth) * (1 - 1e-12) - 1e-300
