"""A better network never hurts where the list of messages is fixed and each is sent in its turn."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from second.budget import tries
from wirebound.simulate.step import simulate_step

from .jobs import ABOVE, FIXED, changed_links, jobs, proportional_clusters

factors = st.floats(1, 50)


def never_slower(job, better):
    assert simulate_step(*better).iteration_s <= simulate_step(*job).iteration_s * ABOVE


@tries(150)
@given(jobs(schedules=FIXED), factors)
def test_more_bandwidth_never_hurts(job, factor):
    workload, cluster, method = job
    never_slower(job, (workload, changed_links(cluster, bandwidth=lambda b: b * factor), method))


@tries(150)
@given(jobs(schedules=FIXED), st.floats(0, 1))
def test_less_latency_never_hurts(job, share):
    workload, cluster, method = job
    never_slower(job, (workload, changed_links(cluster, latency_s=lambda s: s * share), method))


@tries(150)
@given(jobs(schedules=FIXED), st.floats(0, 1))
def test_higher_utilization_never_hurts(job, step_up):
    workload, cluster, method = job
    better = changed_links(cluster, utilization=lambda u: u + (1 - u) * step_up)
    never_slower(job, (workload, better, method))


@tries(150)
@given(jobs(schedules=FIXED), factors)
def test_a_higher_ratio_never_hurts(job, factor):
    workload, cluster, method = job
    better = dataclasses.replace(method, compression=method.compression * factor)
    never_slower(job, (workload, cluster, better))


@tries(150)
@given(jobs(schedules=FIXED, collective="ring", servers=0), st.integers(1, 20))
def test_another_node_never_makes_a_step_faster(job, more):
    """On a ring, and with as many servers as nodes: twice as many workers halve no one's own gradients."""
    workload, cluster, method = job
    bigger = dataclasses.replace(cluster, nodes=cluster.nodes + more)
    before = simulate_step(workload, cluster, method, include_vector_add=False).iteration_s
    after = simulate_step(workload, bigger, method, include_vector_add=False).iteration_s
    assert before <= after * ABOVE


@tries(150)
@given(jobs(schedules=("bsp", "wfbp", "ddp")), st.integers(0, 11), st.floats(1e-6, 0.5))
def test_a_later_gradient_never_makes_a_step_faster(job, index, delay):
    workload, cluster, method = job
    index %= len(workload.tensors)
    later = dataclasses.replace(workload.tensors[index], gap_s=workload.tensors[index].gap_s + delay)
    tensors = (*workload.tensors[:index], later, *workload.tensors[index + 1 :])
    never_slower((dataclasses.replace(workload, tensors=tensors), cluster, method), job)


@tries(180)
@given(jobs(clusters=proportional_clusters, schedules=FIXED, partition_bytes=float("inf")))
def test_where_cost_is_proportional_the_finer_the_better(job):
    """Without latency and additions merging gains nothing: WFBP ≤ any fusion ≤ BSP."""
    workload, cluster, method = job
    wfbp, fused, bsp = (
        simulate_step(workload, cluster, dataclasses.replace(method, schedule=name), include_vector_add=False)
        for name in ("wfbp", method.schedule, "bsp")
    )
    assert wfbp.iteration_s <= fused.iteration_s * ABOVE
    assert fused.iteration_s <= bsp.iteration_s * ABOVE


@tries(180)
@given(jobs())
def test_with_equal_pieces_priority_is_never_slower_than_first_come_first_served(job):
    """No order changes when a network that never idles is done, and the next forward pass need not wait for all."""
    workload, cluster, method = job
    fifo, priority = (dataclasses.replace(method, schedule=name) for name in ("wfbp", "priority"))
    never_slower((workload, cluster, fifo), (workload, cluster, priority))
