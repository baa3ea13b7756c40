"""Steps with coding on the device and stages of servers, in both implementations."""

import dataclasses

import pytest
from hypothesis import assume, given

from wirebound.model import METHODS, Cluster, Link
from wirebound.simulate.step import simulate_step

from .budget import tries
from .compare import assert_staged_engines_agree
from .strategies import staged_cases, workload


@tries(150)
@given(staged_cases())
def test_on_random_jobs(case):
    assume(case[2].has_stages)
    assert_staged_engines_agree(*case)


def test_pieces_of_a_message_wait_for_its_last_gradient():
    """BSP sends nothing before backward is over, into however many pieces its message is cut, pipelined or not."""
    job, cluster = workload([(1.0, 8), (1.0, 8)], 0.0, 0.0), Cluster(2, Link(8.0))
    pieces = dataclasses.replace(METHODS["bsp-ps"], partition_bytes=4.0, pipelined=True)
    messages = simulate_step(job, cluster, pieces).messages
    assert [(m.ready_s, m.start_s) for m in messages] == [(2.0, 2.0), (2.0, 2.5), (2.0, 3.0), (2.0, 3.5)]


def test_a_trace_of_incast_changes_no_more_than_a_trace():
    """Push and pull overlap in their transfer, never in their latencies, with incast as without."""
    job, cluster = workload([(1.0, 8)], 0.0, 0.0), Cluster(2, Link(8.0, latency_s=0.5))
    overlapped = dataclasses.replace(METHODS["bsp-ps"], push_pull_overlap=1.0)
    incast = dataclasses.replace(overlapped, incast=1e-12)
    assert simulate_step(job, cluster, overlapped).iteration_s == 3.0
    assert simulate_step(job, cluster, incast).iteration_s == pytest.approx(3.0)
