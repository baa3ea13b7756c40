"""The package's engine against the second implementation, on random jobs."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirebound.model import METHODS, Cluster, Link
from wirebound.model.library import builtin_workload
from wirebound.simulate.step import simulate_step

from .budget import tries
from .compare import assert_engines_agree
from .strategies import GRID, any_cases, exact_cases, workload


@tries(200)
@given(any_cases())
def test_on_random_jobs(case):
    assert_engines_agree(*case)


@tries(150)
@given(exact_cases())
def test_where_ties_are_exact(case):
    assert_engines_agree(*case)


@pytest.mark.parametrize("name", ["horovod", "ddp"])
@pytest.mark.parametrize("first", [1, 2, 3])
@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_limits_met_to_the_byte(name, first, limit):
    """Gradients of one unit, and limits of a few: every bucket fills exactly, on the wire from the very moment."""
    limits = {"first_bucket_bytes": first * 2.0**16, "bucket_cap_bytes": limit * 2.0**16}
    limits |= {"fusion_bytes": limit * 2.0**16, "fusion_window_s": first * 2 * GRID}
    job = workload([(GRID, 2**16)] * 12, 0.0, 0.0)
    assert_engines_agree(job, Cluster(2, Link(2.0**26)), dataclasses.replace(METHODS[name], **limits))


@tries(15)
@given(st.sampled_from(sorted(METHODS)), st.integers(10, 32), st.floats(1e8, 1e10))
def test_with_published_gaps_on_many_workers(name, workers, bandwidth):
    assert_engines_agree(builtin_workload("vgg16"), Cluster(workers, Link(bandwidth, 2e-5)), METHODS[name])


def test_pieces_of_a_fraction_of_a_byte_more_or_less():
    """1.1 MiB has no exact binary fraction of a byte: ten such pieces are ten, not ten and a crumb with its latency."""
    method = dataclasses.replace(METHODS["bsp-a2a"], partition_bytes=1.1 * 2**20)
    job = workload([(0.5, 11 * 2**20)], 0.0, 0.0)
    step = simulate_step(job, Cluster(2, Link(2.0**20, 1.0)), method)
    assert len(step.messages) == 10
    assert step.iteration_s == pytest.approx(0.5 + 10 * 2 + 11)
    # and pieces whose sum rounds past the end of the last gradient carry that gradient
    method = dataclasses.replace(METHODS["bsp-a2a"], partition_bytes=27.3)
    assert_engines_agree(workload([(0.0, 1038)], 0.0, 1.0), Cluster(2, Link(1e6)), method)
    # neither may a piece claim a part of the next message's gradient, which would make it more urgent than it is
    method = dataclasses.replace(METHODS["bytescheduler-a2a"], partition_bytes=27.3)
    assert_engines_agree(workload([(0.0, 1038), (0.0, 5)], 0.0, 1.0), Cluster(2, Link(1e6)), method)
