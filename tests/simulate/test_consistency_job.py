"""Jobs under consistency protocols: what an exchange costs, by hand and from the step."""

import dataclasses

import pytest

from wirebound.errors import InputError
from wirebound.model import Cluster, Link, method_named
from wirebound.model.compute_time import ComputeTime
from wirebound.model.library import builtin_workload
from wirebound.simulate.compressors import compressor_named
from wirebound.simulate.consistency_job import exchange_of, simulate_job
from wirebound.simulate.consistency_protocols import consistency_named
from wirebound.simulate.step import simulate_step

from .jobs import made

HAND = made([1.0], [8], 2.0)


def test_bsp_of_a_job_is_the_step():
    workload, cluster, method = builtin_workload("resnet50"), Cluster(8, Link(1.25e9), 4), method_named("wfbp-a2a")
    step = simulate_step(workload, cluster, method)
    found = simulate_job(workload, cluster, method, consistency_named("bsp"), ComputeTime(1.0), steps=20)
    assert found.period_s == pytest.approx(step.iteration_s, rel=1e-9)
    local = simulate_job(workload, cluster, method, consistency_named("local-sgd:4"), ComputeTime(1.0), steps=20)
    assert local.period_s == pytest.approx(step.compute_s + step.exposed_s / 4, rel=1e-9)


def test_a_job_with_servers_by_hand():
    # 8 bytes, 4 workers, 1 B/s, 1 server: together 32 s one way; alone 8 s, and the server is busy for 8 s with each.
    cluster, method = Cluster(4, Link(1.0)), method_named("bsp-ps", servers=1)
    assert dataclasses.astuple(exchange_of(HAND, cluster, method, consistency_named("bsp"))) == (3, 64, 0)
    for spec in ("asp", "ssp:3"):
        assert dataclasses.astuple(exchange_of(HAND, cluster, method, consistency_named(spec))) == (3, 16, 8)
    two = method_named("bsp-ps", servers=2)
    assert dataclasses.astuple(exchange_of(HAND, cluster, two, consistency_named("asp"))) == (3, 16, 4)
    # compression divides both; a colocated server has no queue: 2·3/4·8 s
    halved = dataclasses.replace(method, compression=2.0)
    assert dataclasses.astuple(exchange_of(HAND, cluster, halved, consistency_named("asp"))) == (3, 8, 4)
    colocated = method_named("bsp-ps", colocated=True)
    assert dataclasses.astuple(exchange_of(HAND, cluster, colocated, consistency_named("asp"))) == (3, 12, 0)
    # 4 updates in 19 s would be more than one in 8 s
    found = simulate_job(HAND, cluster, method, consistency_named("asp"), ComputeTime(1.0))
    assert found.steps_per_s == pytest.approx(1 / 8)


def test_a_gossiping_job_by_hand():
    cluster, method = Cluster(8, Link(2.0, 0.25)), method_named("bsp-a2a")
    for spec, degree in (("gossip", 2), ("gossip:complete", 7), ("gossip:exponential", 3), ("gossip:torus", 3)):
        exchange = exchange_of(HAND, cluster, method, consistency_named(spec))
        assert dataclasses.astuple(exchange) == (3, degree * (0.25 + 8 / 2), 0)
    # two per node first add up and then spread the result: 2·(1/2)·8/4 s
    nodes = Cluster(8, Link(2.0, 0.25), 2, Link(4.0))
    exchange = exchange_of(HAND, nodes, method, consistency_named("gossip"))
    assert exchange.exchange_s == pytest.approx(2 * 4.25 + 2)
    alone = exchange_of(HAND, Cluster(1, Link(2.0)), method, consistency_named("gossip"))
    assert dataclasses.astuple(alone) == (3, 0, 0)


def test_asynchronous_protocols_need_servers():
    with pytest.raises(InputError, match="asp needs parameter servers, and method 'ddp' is an all-reduce"):
        exchange_of(HAND, Cluster(4, Link(1.0)), method_named("ddp"), consistency_named("asp"))


def test_what_a_server_and_a_gossiping_node_can_do_by_hand():
    """Half the bandwidth is reached, two cards, ratio 2: 4 bytes at 1 B/s; incast takes half of a server's link."""
    cluster = Cluster(4, Link(1.0, utilization=0.5), accelerators_per_node=2, nics_per_node=2)
    server = method_named("bsp-ps", servers=1, compression=2.0)
    assert exchange_of(HAND, cluster, server, consistency_named("asp")).server_s == pytest.approx(4)
    crowded = dataclasses.replace(server, incast=0.5)
    assert exchange_of(HAND, cluster, crowded, consistency_named("asp")).server_s == pytest.approx(8)
    gossip = method_named("bsp-a2a", compression=2.0)
    ring = exchange_of(HAND, cluster, gossip, consistency_named("gossip"), accumulation=3)
    assert ring.exchange_s == pytest.approx(2 * 4)
    assert ring.compute_s == pytest.approx(3 * (HAND.forward_s + HAND.backward_s) + HAND.optimizer_s)


@pytest.mark.parametrize("spec", ["asp", "ssp:2", "gossip"])
def test_compressors_are_refused_where_they_are_not_simulated(spec):
    method = method_named("bsp-ps" if spec != "gossip" else "bsp-a2a", compressor=compressor_named("topk:0.01"))
    with pytest.raises(InputError, match="not simulated with a compressor"):
        exchange_of(HAND, Cluster(4, Link(1.0)), method, consistency_named(spec))
