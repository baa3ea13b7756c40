"""Names of all-reduces, a library's choice, where one overtakes another, and what that does to a step."""

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirebound.errors import InputError
from wirebound.model import Cluster, Link, Method, method_named
from wirebound.simulate.all_reduces import LIBRARIES, all_reduce_named, candidates
from wirebound.simulate.architecture_comparison import (
    ARCHITECTURES,
    architecture_grid,
    compare_architectures,
    winners,
)
from wirebound.simulate.collectives import ALL_REDUCES
from wirebound.simulate.cost import chosen_collective, exchange_cost, message_cost, sent_bytes
from wirebound.simulate.crossover import (
    halving_doubling_beats_recursive_doubling,
    ring_beats_halving_doubling,
    ring_beats_pipelined_tree,
)
from wirebound.simulate.need import solve_need
from wirebound.simulate.step import simulate_step

from .jobs import links, made, workloads


def method(collective, **changes):
    return Method("m", "all-reduce", "wfbp", collective=collective, **changes)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rign", "did you mean 'ring'"),
        ("auto:ncll", "unknown library of collective 'auto' 'ncll': did you mean 'nccl'"),
        ("ring:3", "ring takes no parameters: leave ':3' out"),
        ("flat-ring:2", "flat-ring takes no parameters"),
        ("byteps:-1", "'-1' is not a whole number from 0"),
        ("byteps:two", "'two' is not a whole number from 0 to 1,000,000,000: write byteps:4"),
        ("in-network:512", "'512' is not slots x bytes: write in-network:512x256@20us"),
        ("in-network:0x256", "'0' is not a whole number from 1"),
        ("in-network:512x256@20", "time '20' has no unit"),
        ("in-network:512x256@", "'' is not a time"),
        ("blueconnect:4x", "'' is not a whole number from 1"),
        ("blueconnect:0x4", "'0' is not a whole number from 1"),
    ],
)
def test_mistakes_are_told_in_one_line(name, message):
    with pytest.raises(InputError, match=message) as caught:
        message_cost(made([0.0], [100]), Cluster(2, Link(1.0)), method(name))
    assert "\n" not in str(caught.value)


def test_stages_must_fit_the_nodes():
    cost = message_cost(made([0.0], [100]), Cluster(6, Link(1.0)), method("blueconnect:4x2"))
    with pytest.raises(InputError, match="'blueconnect:4x2' is for 8 nodes, not for 6"):
        cost(100.0)


@pytest.mark.parametrize(("cards", "accelerators"), [(3, 8), (9, 8), (0, 8)])
def test_cards_must_share_the_accelerators_out(cards, accelerators):
    with pytest.raises(InputError, match=f"network cards per node = {cards} must"):
        Cluster(2, Link(1.0), accelerators, nics_per_node=cards)


def test_parameters_reach_the_equations():
    servers = [all_reduce_named(f"byteps:{k}").seconds(80.0, 4, 0.0, 1.0) for k in (0, 1, 4, 9)]
    assert servers == pytest.approx([120, 2 * 12 * 80 / 18, 80, 80])
    assert all_reduce_named("byteps").seconds(80.0, 4, 0.0, 1.0) == pytest.approx(80)
    # 4 slots of 10 bytes for 2 s each: 20 B/s; without a time, twice the latency
    assert all_reduce_named("in-network:4x10@2s").seconds(80.0, 4, 0.5, 100.0) == pytest.approx(1 + 4)
    assert all_reduce_named("in-network:4x10").seconds(80.0, 4, 0.5, 100.0) == pytest.approx(1 + 2)
    assert all_reduce_named("in-network").seconds(80.0, 4, 0.0, 100.0) == pytest.approx(0.8)
    assert all_reduce_named("in-network:@1ms").seconds(512 * 256e3, 4, 0.0, math.inf) == pytest.approx(1)


@pytest.mark.parametrize("library", LIBRARIES)
@given(workers=st.integers(1, 300), size=st.floats(0, 1e9), latency=st.floats(0, 1e-2), bandwidth=st.floats(1e6, 1e11))
def test_a_library_takes_the_fastest_that_it_offers(library, workers, size, latency, bandwidth):
    name = f"auto:{library}" if library else "auto"
    workload, cluster = made([0.0], [100]), Cluster(workers, Link(bandwidth, latency))
    times = {
        one: message_cost(workload, cluster, method(one))(size) for one in candidates(name)
    }  # every candidate on its own
    assert message_cost(workload, cluster, method(name))(size) == min(times.values())
    chosen = chosen_collective(workload, cluster, method(name))(size)
    assert chosen in LIBRARIES[library]
    assert times[chosen] == min(times.values())


def test_measured_additions_take_part_in_the_choice():
    """Two workers: the same bytes, but a ring adds half a vector and recursive doubling a whole one."""
    workload = made([0.0], [800], vector_add=[(1, 1e-3), (801, 9e-3)])
    cluster = Cluster(2, Link(10.0, 1e-9))
    auto = method("auto:mpi")
    assert chosen_collective(workload, cluster, auto)(0.001) == "recursive-doubling"
    assert chosen_collective(workload, cluster, auto)(800.0) == "ring"


def test_a_step_counts_the_bytes_of_each_choice():
    # A short message and a long one over 8 nodes: recursive doubling sends 3·S, halving and doubling 7/4·S
    workload = made([0.1, 0.1], [10, 1_000_000])
    cluster = Cluster(8, Link(1e6, 1e-3))
    auto = method("auto:mpi")
    chosen = chosen_collective(workload, cluster, auto)
    assert [chosen(10), chosen(1_000_000)] == ["recursive-doubling", "halving-doubling"]
    step = simulate_step(workload, cluster, auto)
    assert step.node_wire_bytes == pytest.approx(3 * 10 + 7 / 4 * 1_000_000)
    assert sent_bytes(workload, cluster, auto)[1] == pytest.approx(7 / 4 * 1_000_010)
    # bytes without compression decide what a message is, those on the wire which is faster
    step = simulate_step(workload, cluster, dataclasses.replace(auto, compression=1e6))
    assert step.node_wire_bytes == pytest.approx(3 * 1.00001)


def test_servers_do_not_ask_for_a_collective():
    workload, cluster = made([0.0], [100]), Cluster(4, Link(10.0, 0.5))
    servers = Method("m", "parameter-server", "bsp", collective="auto")
    assert message_cost(workload, cluster, servers)(100.0) == message_cost(workload, cluster, method_named("bsp-ps"))(
        100.0
    )
    assert sent_bytes(workload, cluster, servers, [60, 40]) == (100, 100)
    flat = dataclasses.replace(servers, collective="flat-ring")
    assert message_cost(workload, cluster, flat)(100.0) == message_cost(workload, cluster, servers)(100.0)


def test_a_flat_ring_adds_as_the_what_if_model_does():
    workload = made([0.0], [800], vector_add=[(1, 1e-3), (801, 9e-3)])
    cluster = Cluster(2, Link(10.0, 0.5), 4, Link(100.0, 0.25))
    expected = 14 * (0.5 + 100 / 10) + 7 * (1e-3 + 99e-5)
    assert message_cost(workload, cluster, method("flat-ring"))(800.0) == pytest.approx(expected, rel=1e-12)
    assert sent_bytes(workload, cluster, method("flat-ring")) == (1400, 1400)
    assert sent_bytes(workload, Cluster(1, Link(10.0), 4), method("flat-ring")) == (1200, 0)


@given(workloads, links, st.integers(1, 40))
def test_where_nodes_hold_one_accelerator_all_rings_are_the_same(workload, link, nodes):
    ring, flat = (simulate_step(workload, Cluster(nodes, link), method(name)) for name in ("ring", "flat-ring"))
    assert flat.iteration_s == pytest.approx(ring.iteration_s, rel=1e-12)
    assert flat.node_wire_bytes == pytest.approx(ring.node_wire_bytes, rel=1e-12)


def test_more_cards_share_the_traffic():
    workload = made([0.0], [800])
    one, four = (Cluster(4, Link(10.0), 8, Link(100.0), cards) for cards in (1, 4))
    for name in ("ring", "byteps:2", "in-network", "tree"):
        inside = 2 * 7 / 8 * 800 / 100
        times = [message_cost(workload, cluster, method(name))(800.0) - inside for cluster in (one, four)]
        assert times[1] == pytest.approx(times[0] / 4)
        steps = [simulate_step(workload, cluster, method(name)) for cluster in (one, four)]
        assert steps[0].node_wire_bytes == steps[1].node_wire_bytes
        carried = steps[1].node_wire_bytes / (4 * 10.0 * steps[1].iteration_s)
        assert steps[1].link_utilization == pytest.approx(carried)


@pytest.mark.parametrize("name", ["ring", "auto", "flat-ring", "in-network:64x256@50us"])
@pytest.mark.parametrize("cards", [1, 8])
def test_the_bandwidth_that_is_needed_is_the_smallest_that_reaches(name, cards):
    workload = made([0.01] * 6, [4_000_000] * 6, forward_s=0.03)
    cluster = Cluster(16, Link(1.0, 1e-6), 8, Link(1e11), cards)
    answer = solve_need(workload, cluster, method(name), target=0.5, solve="bandwidth")
    assert answer.value is not None

    def reached(bandwidth):
        inter = dataclasses.replace(cluster.inter, bandwidth=bandwidth * 125e6)
        return simulate_step(workload, dataclasses.replace(cluster, inter=inter), method(name)).scaling_factor

    assert reached(answer.value) >= 0.5 > reached(answer.value * 0.999)


def test_too_few_slots_stand_in_the_way():
    workload = made([0.01], [4_000_000], forward_s=0.03)
    cluster = Cluster(16, Link(1.0, 1e-6))
    answer = solve_need(workload, cluster, method("in-network:1x256@1ms"), target=0.9, solve="bandwidth")
    assert (answer.reachable, answer.limited_by) == (False, "slots of the switch")


CROSSOVERS = {
    ("halving-doubling", "ring"): ring_beats_halving_doubling,
    ("pipelined-tree", "ring"): ring_beats_pipelined_tree,
    ("recursive-doubling", "halving-doubling"): halving_doubling_beats_recursive_doubling,
}


@pytest.mark.parametrize("pair", CROSSOVERS)
@given(workers=st.integers(2, 3000), latency=st.floats(1e-7, 1e-2), bandwidth=st.floats(1e6, 1e11))
def test_crossovers_are_where_bisection_finds_them(pair, workers, latency, bandwidth):
    short, long = (ALL_REDUCES[name].seconds for name in pair)
    found = CROSSOVERS[pair](workers, latency, bandwidth)

    def long_is_faster(size):
        difference = short(size, workers, latency, bandwidth) - long(size, workers, latency, bandwidth)
        return difference > 1e-12 * short(size, workers, latency, bandwidth)

    unit = latency * bandwidth
    low, high = 1e-9 * unit, 1e12 * unit
    if not long_is_faster(high):
        assert found == math.inf
    elif long_is_faster(low):
        assert found == 0
    else:
        while high / low > 1 + 1e-9:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if long_is_faster(middle) else (middle, high)
        assert found == pytest.approx(high, rel=1e-5)


def test_without_latency_bytes_alone_decide():
    assert ring_beats_halving_doubling(6, 0.0, 1e9) == 0
    assert ring_beats_halving_doubling(8, 0.0, 1e9) == math.inf
    assert ring_beats_pipelined_tree(64, 0.0, 1e9) == 0
    assert ring_beats_pipelined_tree(2, 0.0, 1e9) == math.inf
    assert halving_doubling_beats_recursive_doubling(64, 0.0, 1e9) == 0


def test_rows_of_a_comparison_are_the_costs_of_the_engine():
    cluster = Cluster(8, Link(1e9, 1e-5), 4, Link(1e11, 1e-6), 2)
    chosen = {**ARCHITECTURES, "library": method("auto"), "flat": method("flat-ring")}
    rows = compare_architectures(1e6, cluster, chosen)
    assert [row.architecture for row in rows] == list(chosen)
    workload = made([0.0], [1_000_000])
    for row in rows:
        one = chosen[row.architecture]
        assert row.seconds == message_cost(workload, cluster, one)(1e6)
        assert (row.worker_sent_bytes, row.node_sent_bytes) == sent_bytes(workload, cluster, one)
        assert (row.size, row.workers, row.latency_s, row.bandwidth) == (1e6, 32, 1e-5, 1e9)
    assert exchange_cost(cluster, chosen["flat"], "flat-ring")(1e6) == rows[-1].seconds


def test_latency_may_count_for_each_partner():
    cluster = Cluster(8, Link(math.inf, 1.0))
    servers = {f"{k} servers": Method("ps", "parameter-server", "bsp", servers=k) for k in (1, 8, 20)}
    chosen = {**ARCHITECTURES, **servers, "byteps 3": method("byteps:3"), "byteps 99": method("byteps:99")}
    once, each = (
        {row.architecture: row.seconds for row in compare_architectures(1e6, cluster, chosen, latency_per_partner=per)}
        for per in (False, True)
    )
    # 8 workers push to each server, or a worker to each of 20; BytePS exchanges with 7 workers and its servers
    expected = {"1 servers": 16, "8 servers": 16, "20 servers": 40, "parameter-server": 16}
    expected |= {"colocated-parameter-server": 14, "byteps 3": 20, "byteps 99": 30, "byteps": 30}
    assert {name: each[name] for name in expected} == expected
    assert all(once[name] == 2 for name in expected)
    assert all(each[name] == once[name] for name in set(chosen) - set(expected))
    alone = compare_architectures(1e6, Cluster(1, Link(1.0, 1.0)), chosen, latency_per_partner=True)
    assert {row.seconds for row in alone} == {0.0}


def test_a_grid_has_every_combination_and_a_winner_for_each():
    names = {name: ARCHITECTURES[name] for name in ("ring", "recursive-doubling", "pipelined-tree")}
    rows = architecture_grid([1e2, 1e5, 1e9], [2, 12, 64], [1e-5], [1e9, 1e10], names)
    assert len(rows) == 3 * 3 * 2 * 3
    best = winners(rows)
    assert len(best) == 3 * 3 * 2
    for row in best:
        rivals = [r for r in rows if (r.size, r.workers, r.bandwidth) == (row.size, row.workers, row.bandwidth)]
        assert row.seconds <= min(rival.seconds for rival in rivals) * (1 + 1e-8)
    won = {(row.size, row.workers): row.architecture for row in best if row.bandwidth == 1e9}
    assert won[1e2, 64] == "recursive-doubling"
    assert won[1e9, 64] == "ring"
    assert won[1e9, 64] != won[1e5, 64]
    # the border lies where the closed form has it
    border = ring_beats_pipelined_tree(64, 1e-5, 1e9)
    rivals = {name: names[name] for name in ("ring", "pipelined-tree")}
    sides = winners(architecture_grid([border * 0.999, border * 1.001], [64], [1e-5], [1e9], rivals))
    assert [row.architecture for row in sides] == ["pipelined-tree", "ring"]


def test_a_grid_refuses_nodes_that_are_not_full():
    with pytest.raises(InputError, match="workers = 10 must be a multiple of the 4 of a node"):
        architecture_grid([1.0], [8, 10], [0.0], [1e9], accelerators_per_node=4)
