"""The step against closed forms, a published model's arithmetic written again, and laws that no network can break."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirebound.errors import InputError
from wirebound.model import METHODS, Cluster, Link, Method, method_named
from wirebound.model.library import builtin_workload, read_published
from wirebound.simulate.cost import message_cost
from wirebound.simulate.messages import planned_messages
from wirebound.simulate.step import simulate_step

from .jobs import UNIT_CLUSTER, clusters, links, made, workloads

FIFO = sorted(name for name, method in METHODS.items() if method.schedule != "priority")
FIXED = sorted(set(FIFO) - {"mg-wfbp"})  # their messages do not depend on the network
ROUNDING = 1 + 1e-12


def test_one_step_by_hand():
    # gradients ready at 2 and 3 s, taking 5 and 1 s on the wire: busy from 2 to 8, backward is over at 3
    workload = made([2.0, 1.0], [5, 1], forward_s=4.0, optimizer_s=0.5)
    step = simulate_step(workload, UNIT_CLUSTER, method_named("wfbp-a2a"))
    assert [(m.ready_s, m.start_s, m.end_s) for m in step.messages] == [(2, 2, 7), (3, 7, 8)]
    assert (step.iteration_s, step.compute_s, step.communication_s, step.exposed_s) == (12.5, 7.5, 6, 5)
    assert step.scaling_factor == 0.6
    assert (step.wire_bytes_per_worker, step.node_wire_bytes) == (6, 6)
    assert step.link_utilization == pytest.approx(6 / 12.5)
    bsp = simulate_step(workload, UNIT_CLUSTER, method_named("bsp-a2a"))
    assert [(m.ready_s, m.start_s, m.end_s) for m in bsp.messages] == [(3, 3, 9)]


def test_utilization_of_a_slow_transport_is_counted_against_the_nominal_bandwidth():
    workload = made([1.0], [8])
    step = simulate_step(workload, Cluster(2, Link(4.0, utilization=0.5)), method_named("bsp-a2a"))
    assert step.iteration_s == 1 + 8 / 2
    assert step.link_utilization == 8 / (4 * 5)


@pytest.mark.parametrize("name", METHODS)
def test_one_worker_does_not_communicate(name):
    workload = builtin_workload("resnet50")
    step = simulate_step(workload, Cluster(1, Link(1e-3)), method_named(name))
    assert step.iteration_s == step.compute_s == pytest.approx(workload.compute_s)
    assert step.messages == ()
    assert step.wire_bytes_per_worker == step.link_utilization == 0
    assert step.scaling_factor == 1


@given(workloads, clusters, st.sampled_from(FIFO), st.floats(1, 100))
def test_fifo_ends_where_the_closed_form_says(workload, cluster, name, compression):
    method = method_named(name, compression=compression)
    step = simulate_step(workload, cluster, method)
    if cluster.workers == 1:
        return
    cost = message_cost(workload, cluster, method)
    planned = planned_messages(workload, method, cost)
    costs = [cost(message.size) for message in planned]
    end = max(message.ready_s + sum(costs[i:]) for i, message in enumerate(planned))
    assert step.messages[-1].end_s == pytest.approx(end, rel=1e-9)
    iteration = workload.forward_s + max(workload.backward_s, end) + workload.optimizer_s
    assert step.iteration_s == pytest.approx(iteration, rel=1e-9)


@given(workloads, clusters, st.sampled_from(sorted(METHODS)), st.floats(1, 100))
def test_a_step_is_never_faster_than_its_compute_or_its_wire(workload, cluster, name, compression):
    step = simulate_step(workload, cluster, method_named(name, compression=compression))
    assert step.iteration_s >= step.compute_s
    assert step.exposed_s == step.iteration_s - step.compute_s
    assert step.node_wire_bytes / cluster.inter.effective_bandwidth <= step.iteration_s * ROUNDING
    assert step.communication_s <= step.iteration_s * ROUNDING
    assert 0 <= step.link_utilization <= ROUNDING
    assert 0 < step.scaling_factor <= 1


@given(workloads, clusters, st.sampled_from(sorted(METHODS)))
def test_transfers_start_ready_and_never_overlap(workload, cluster, name):
    messages = simulate_step(workload, cluster, method_named(name)).messages
    free_s = 0.0
    for message in messages:
        assert message.start_s >= max(message.ready_s, free_s)
        free_s = message.end_s


@given(workloads, clusters, st.sampled_from(FIXED), st.floats(1, 100), st.floats(1, 50))
def test_more_network_never_hurts_fixed_messages(workload, cluster, name, compression, factor):
    method = method_named(name, compression=compression)

    def iteration_s(link=cluster.inter, method=method):
        return simulate_step(workload, dataclasses.replace(cluster, inter=link), method).iteration_s

    now, link = iteration_s() * ROUNDING, cluster.inter
    assert iteration_s(dataclasses.replace(link, bandwidth=link.bandwidth * factor)) <= now
    assert iteration_s(dataclasses.replace(link, latency_s=link.latency_s / factor)) <= now
    assert iteration_s(method=dataclasses.replace(method, compression=compression * factor)) <= now


@given(workloads, st.integers(2, 64), links, st.sampled_from(["a2a", "ps"]))
def test_where_cost_is_proportional_sending_early_never_hurts(workload, nodes, link, architecture):
    cluster = Cluster(nodes, dataclasses.replace(link, latency_s=0.0))
    bsp = simulate_step(workload, cluster, method_named(f"bsp-{architecture}"))
    wfbp = simulate_step(workload, cluster, method_named(f"wfbp-{architecture}"))
    assert wfbp.iteration_s <= bsp.iteration_s * ROUNDING


def test_where_messages_cost_latency_sending_early_can_hurt():
    """The per-message cost found in Zhang et al.'s tables: ResNet-50, 64 workers, 10 Gbps."""
    workload, cluster = builtin_workload("resnet50"), Cluster(64, Link(1.25e9))
    wfbp = simulate_step(workload, cluster, method_named("wfbp-a2a"))
    bsp = simulate_step(workload, cluster, method_named("bsp-a2a"))
    assert wfbp.exposed_s == pytest.approx(0.200, abs=0.001)
    assert bsp.exposed_s == pytest.approx(0.162, abs=0.001)
    without = simulate_step(workload, cluster, method_named("wfbp-a2a"), include_vector_add=False)
    assert without.exposed_s < bsp.exposed_s


def what_if(workload, workers, gbps, compression):
    """Scaling factor by the what-if model of Zhang et al. (2020), written from the paper's description."""
    add_bytes, add_s = zip(*workload.vector_add, strict=True)
    now = clock = held = 0.0
    end = 0.0
    for index, tensor in enumerate(workload.tensors):
        now += tensor.gap_s
        clock += tensor.gap_s
        held += tensor.size
        if clock >= 5e-3 or held >= 67_108_864 or index == len(workload.tensors) - 1:
            wire_s = 2 * (8 * held * (workers - 1) / workers / (gbps * 1e9)) / compression
            end = max(end, now) + wire_s + (workers - 1) * np.interp(held / workers, add_bytes, add_s)
            clock = held = 0.0
    return workload.compute_s / (workload.compute_s + end - now)


@pytest.mark.parametrize("name", ["resnet50", "resnet101", "vgg16"])
@pytest.mark.parametrize("workers", [2, 16, 64])
@pytest.mark.parametrize("gbps", [1, 10, 100])
@pytest.mark.parametrize("compression", [1, 5])
def test_what_if_arithmetic(name, workers, gbps, compression):
    workload = builtin_workload(name)
    method = method_named("horovod", compression=float(compression))
    step = simulate_step(workload, Cluster(workers, Link(gbps * 125e6)), method)
    assert step.scaling_factor == pytest.approx(what_if(workload, workers, gbps, compression), rel=1e-9)


def test_what_if_table_of_resnet50():
    """Six printed digits; where a message's wire time is a few microseconds the table is up to 1.6 us below."""
    workload = builtin_workload("resnet50")
    rows = read_published("zhang2020_whatif_resnet50.csv")
    assert len(rows) == 90
    for row in rows:
        method = method_named("horovod", compression=float(row["compression"]))
        step = simulate_step(workload, Cluster(int(row["gpus"]), Link(float(row["link_gbps"]) * 125e6)), method)
        assert step.scaling_factor == pytest.approx(float(row["scaling_percent"]) / 100, abs=1.5e-5), row


def test_accumulation_computes_often_and_communicates_once():
    workload = made([2.0, 1.0], [5, 1], forward_s=4.0, optimizer_s=0.5)
    once = simulate_step(workload, UNIT_CLUSTER, method_named("wfbp-a2a"))
    thrice = simulate_step(workload, UNIT_CLUSTER, method_named("wfbp-a2a"), accumulation=3)
    assert thrice.compute_s == once.compute_s + 2 * 7
    assert thrice.exposed_s == once.exposed_s
    assert thrice.messages == once.messages
    assert thrice.scaling_factor == 21.5 / 26.5
    with pytest.raises(InputError, match="accumulation 0 must be at least 1"):
        simulate_step(workload, UNIT_CLUSTER, method_named("wfbp-a2a"), accumulation=0)


def test_a_workload_without_backward_time_scales_perfectly_alone():
    assert simulate_step(made([0.0], [1]), Cluster(1, Link(1.0)), method_named("bsp-a2a")).scaling_factor == 1


def test_collectives_between_nodes_can_be_chosen():
    workload = made([1.0], [600])
    cluster = Cluster(3, Link(10.0, 1.0))
    ends = {
        name: simulate_step(workload, cluster, Method("m", "all-reduce", "bsp", collective=name)).iteration_s
        for name in ("ring", "halving-doubling", "tree")
    }
    assert ends == {
        "ring": pytest.approx(1 + 4 + 80),
        "halving-doubling": pytest.approx(1 + 2 + 60 + 2 + 120),
        "tree": pytest.approx(1 + 4 + 80),
    }
