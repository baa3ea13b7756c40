"""The package's engine against the second implementation, on random jobs."""

from hypothesis import given
from hypothesis import strategies as st

from wirebound.model import METHODS, Cluster, Link
from wirebound.model.library import builtin_workload

from .budget import tries
from .compare import assert_engines_agree
from .strategies import any_cases, exact_cases


@tries(200)
@given(any_cases())
def test_on_random_jobs(case):
    assert_engines_agree(*case)


@tries(150)
@given(exact_cases())
def test_where_ties_are_exact(case):
    assert_engines_agree(*case)


@tries(15)
@given(st.sampled_from(sorted(METHODS)), st.integers(10, 32), st.floats(1e8, 1e10))
def test_with_published_gaps_on_many_workers(name, workers, bandwidth):
    assert_engines_agree(builtin_workload("vgg16"), Cluster(workers, Link(bandwidth, 2e-5)), METHODS[name])
