"""Only ratios matter: a change of all sizes and bandwidths, or of all times, changes the units and nothing else."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from second.budget import tries
from wirebound.model import Cluster
from wirebound.simulate.step import simulate_step

from .jobs import changed_links, jobs, scaled, scaled_method

#: Powers of two, so that no threshold is crossed by rounding.
scales = st.sampled_from([2, 8, 64])


def same_but_for_units(job, other, time=1.0, size=1):
    first, second = simulate_step(*job), simulate_step(*other)
    assert second.iteration_s == pytest.approx(first.iteration_s * time, rel=1e-12)
    assert second.communication_s == pytest.approx(first.communication_s * time, rel=1e-12)
    assert second.wire_bytes_per_worker == pytest.approx(first.wire_bytes_per_worker * size, rel=1e-12)
    assert second.link_utilization == pytest.approx(first.link_utilization, rel=1e-12)
    assert [m.tensors for m in first.messages] == [m.tensors for m in second.messages]


@tries(180)
@given(jobs(), scales)
def test_other_units_of_size(job, k):
    workload, cluster, method = job
    faster = changed_links(cluster, bandwidth=lambda b: b * k)
    same_but_for_units(job, (scaled(workload, size=k), faster, scaled_method(method, size=k)), size=k)


@tries(180)
@given(jobs(), scales)
def test_other_units_of_time(job, k):
    workload, cluster, method = job
    slower = changed_links(cluster, bandwidth=lambda b: b / k, latency_s=lambda s: s * k)
    same_but_for_units(job, (scaled(workload, time=k), slower, scaled_method(method, time=k)), time=k)


@tries(120)
@given(jobs(), scales)
def test_a_ratio_is_as_good_as_so_much_more_bandwidth(job, k):
    """But for a switch, whose slots hold so many bytes of whatever is sent."""
    workload, cluster, method = job
    if method.collective.startswith("in-network"):
        method = dataclasses.replace(method, collective="ring")
    plain = dataclasses.replace(method, compression=1.0)
    compressed = dataclasses.replace(method, compression=float(k))
    faster = changed_links(cluster, bandwidth=lambda b: b * k)
    with_ratio, with_bandwidth = simulate_step(workload, cluster, compressed), simulate_step(workload, faster, plain)
    assert with_ratio.iteration_s == pytest.approx(with_bandwidth.iteration_s, rel=1e-9)
    assert with_ratio.wire_bytes_per_worker * k == pytest.approx(with_bandwidth.wire_bytes_per_worker, rel=1e-9)


@tries(120)
@given(jobs(colocated=True, collective="ring"), st.integers(2, 64))
def test_colocated_servers_and_a_ring_move_equal_volumes(job, nodes):
    """And take equal time but for latency: 2α against 2(n−1)α a message."""
    workload, cluster, method = job
    cluster = Cluster(nodes, dataclasses.replace(cluster.inter, latency_s=0.0))
    ring, servers = (
        simulate_step(workload, cluster, dataclasses.replace(method, architecture=name), include_vector_add=False)
        for name in ("all-reduce", "parameter-server")
    )
    assert servers.wire_bytes_per_worker == pytest.approx(ring.wire_bytes_per_worker, rel=1e-12)
    assert servers.iteration_s == pytest.approx(ring.iteration_s, rel=1e-9)
