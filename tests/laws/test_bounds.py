"""No step is faster than its compute or than the wire allows, and a network that costs nothing changes nothing."""

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from second.budget import tries
from second.strategies import any_links
from wirebound.model import METHODS, Cluster
from wirebound.simulate.step import simulate_step

from .jobs import ABOVE, FREE, jobs


@tries(180)
@given(jobs(), st.integers(1, 3))
def test_never_faster_than_compute_or_than_the_wire(job, accumulation):
    workload, cluster, method = job
    step = simulate_step(workload, cluster, method, accumulation=accumulation)
    assert step.iteration_s >= step.compute_s
    # a period in steady state has room for all that the network does in a step
    assert step.iteration_s * ABOVE >= step.communication_s
    inside = workload.size / method.compression if cluster.accelerators_per_node > 1 else 0.0
    inside *= 2 * (1 - 1 / cluster.accelerators_per_node)
    if method.collective == "flat-ring" and method.architecture == "all-reduce":
        inside = 0.0  # its hops inside the nodes run beside those between them
    cards = cluster.inter.effective_bandwidth * cluster.nics_per_node
    wire_s = step.node_wire_bytes / cards + inside / cluster.intra.effective_bandwidth
    assert step.communication_s * ABOVE >= wire_s
    assert 0 <= step.link_utilization <= cluster.inter.utilization * ABOVE
    assert 0 < step.scaling_factor <= 1


@tries(180)
@given(jobs(schedules=("bsp", "wfbp", "horovod", "ddp", "mg-wfbp")))
def test_first_come_first_served_ends_where_max_plus_says(job):
    """finish = max over i of (ready_i + Σ_{j≥i} cost_j), whatever the rule that made the messages."""
    workload, cluster, method = job
    messages = simulate_step(workload, cluster, method).messages
    if not messages:
        return
    costs = [m.end_s - m.start_s for m in messages]
    finish = max(m.ready_s + sum(costs[i:]) for i, m in enumerate(messages))
    assert messages[-1].end_s == pytest.approx(finish, rel=1e-9)
    step = simulate_step(workload, cluster, method)
    expected = workload.forward_s + max(workload.backward_s, finish) + workload.optimizer_s
    assert step.iteration_s == pytest.approx(expected, rel=1e-9)


@tries(180)
@given(jobs())
def test_every_gradient_is_sent_whole_and_not_before_it_is_ready(job):
    workload, cluster, method = job
    messages = simulate_step(workload, cluster, method).messages
    if cluster.workers == 1:
        assert messages == ()
        return
    assert sum(m.size for m in messages) == pytest.approx(workload.size, rel=1e-9)
    assert {tensor for m in messages for tensor in m.tensors} == set(range(len(workload.tensors)))
    for before, m in zip((None, *messages), messages, strict=False):
        assert m.start_s >= m.ready_s >= max(workload.ready_s[t] for t in m.tensors) / ABOVE
        assert before is None or m.start_s >= before.end_s  # one transfer at a time


@tries(120)
@given(jobs(), any_links)
def test_one_worker_costs_nothing(job, link):
    workload, _, method = job
    step = simulate_step(workload, Cluster(1, link), method)
    assert step.iteration_s == step.compute_s
    assert (step.communication_s, step.wire_bytes_per_worker, step.link_utilization) == (0, 0, 0)


@tries(180)
@given(jobs(), st.integers(1, 64), st.integers(1, 8))
def test_a_network_that_costs_nothing_gives_a_scaling_factor_of_one(job, nodes, per_node):
    workload, _, method = job
    cluster = Cluster(nodes, FREE, per_node, FREE)
    step = simulate_step(workload, cluster, method, include_vector_add=False)
    assert step.scaling_factor == pytest.approx(1, rel=1e-12)
    assert step.exposed_s == pytest.approx(0, abs=1e-12 * step.iteration_s)


@tries(120)
@given(jobs(partition_bytes=math.inf))
def test_with_a_single_gradient_every_schedule_is_the_same(job):
    workload, cluster, method = job
    single = dataclasses.replace(workload, tensors=workload.tensors[:1], optimizer_s=workload.optimizer_s + 0.1)
    schedules = sorted({m.schedule for m in METHODS.values()})
    steps = [simulate_step(single, cluster, dataclasses.replace(method, schedule=name)) for name in schedules]
    assert [step.iteration_s for step in steps] == pytest.approx([steps[0].iteration_s] * len(steps), rel=1e-12)
    assert len({step.wire_bytes_per_worker for step in steps}) == 1


@tries(120)
@given(jobs(), st.integers(2, 8))
def test_accumulation_hides_no_more_and_costs_no_more(job, accumulation):
    """Only the last backward pass communicates, so what is exposed stays, and its share falls."""
    workload, cluster, method = job
    once = simulate_step(workload, cluster, method)
    often = simulate_step(workload, cluster, method, accumulation=accumulation)
    assert often.exposed_s == pytest.approx(once.exposed_s, rel=1e-9, abs=1e-9 * often.iteration_s)
    assert often.scaling_factor * ABOVE >= once.scaling_factor
