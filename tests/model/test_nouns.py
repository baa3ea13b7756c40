"""The nouns: what they derive, and what they refuse."""

import math

import pytest

from wirebound.errors import InputError, unknown_name
from wirebound.model import METHODS, Cluster, Link, Method, Tensor, Workload, method_named
from wirebound.model.method import METHOD_NAMES, ORDERED_METHODS


def workload(**changes):
    tensors = (Tensor("fc", 800, 0.25, 0.5), Tensor("conv", 200, 0.75, 1.5))
    return Workload(
        **{"name": "two", "batch_size": 8, "tensors": tensors, "forward_s": 2.0, "optimizer_s": 0.5} | changes
    )


def test_a_workload_adds_its_times_and_bytes():
    two = workload()
    assert two.size == 1000
    assert two.ready_s == (0.25, 1.0)
    assert (two.backward_s, two.compute_s) == (1.0, 3.5)


def test_forward_is_measured_or_shared_out_like_backward():
    assert workload().forward_gaps_s == (0.5, 1.5)
    without = (Tensor("fc", 800, 0.25), Tensor("conv", 200, 0.75))
    assert workload(tensors=without).forward_gaps_s == (0.5, 1.5)
    idle = (Tensor("fc", 800, 0.0), Tensor("conv", 200, 0.0))
    assert workload(tensors=idle).forward_gaps_s == (1.0, 1.0)


def test_forward_is_all_accounted_for_whatever_was_measured_of_it():
    def gaps(*forwards):
        tensors = tuple(Tensor(f"t{i}", 1, 1.0 + i, forward) for i, forward in enumerate(forwards))
        return workload(tensors=tensors, forward_s=6.0).forward_gaps_s

    assert gaps(1.0, 2.0, 0.0) == pytest.approx((2.0, 4.0, 0.0))  # half of it was measured: doubled
    assert gaps(6.0, 3.0, 3.0) == (3.0, 1.5, 1.5)  # twice of it
    assert gaps(0.0, 0.0, 0.0) == pytest.approx((1.0, 2.0, 3.0))  # nothing: like backward, 1 : 2 : 3
    assert gaps(1.0, None, 0.0) == pytest.approx((1.0, 2.0, 3.0))
    idle = tuple(Tensor(f"t{i}", 1, 0.0, 0.0) for i in range(4))
    assert workload(tensors=idle, forward_s=6.0).forward_gaps_s == (1.5, 1.5, 1.5, 1.5)


def test_batch_scales_compute_but_not_the_optimizer():
    double = workload().with_batch(16)
    assert (double.forward_s, double.backward_s, double.optimizer_s) == (4.0, 2.0, 0.5)
    assert double.forward_gaps_s == (1.0, 3.0)
    assert double.size == 1000


def test_gradient_type_scales_bytes():
    half = workload().with_gradient_dtype("fp16")
    assert [tensor.size for tensor in half.tensors] == [400, 100]
    assert half.with_gradient_dtype("fp32").tensors == workload().tensors
    with pytest.raises(InputError, match="unknown gradient type 'fp12'"):
        workload().with_gradient_dtype("fp12")


def test_compute_time_can_be_set():
    double = workload().with_compute_s(7.0)
    assert (double.forward_s, double.backward_s, double.optimizer_s) == (4.0, 2.0, 1.0)
    assert [tensor.forward_s for tensor in double.tensors] == [1.0, 3.0]


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: workload(tensors=()), "no gradient tensors"),
        (lambda: workload(batch_size=0), "batch size 0"),
        (lambda: workload(forward_s=-1.0), "forward_s = -1.0"),
        (lambda: workload(optimizer_s=math.nan), "optimizer_s = nan"),
        (lambda: workload(tensors=(Tensor("fc", 0, 1.0),)), r"tensor 0 \(fc\) has 0 bytes"),
        (lambda: workload(tensors=(Tensor("fc", 1, math.inf),)), r"tensor 0 \(fc\) has the time inf"),
        (lambda: Link(0.0), "bandwidth 0.0"),
        (lambda: Link(math.nan), "bandwidth nan"),
        (lambda: Link(1.0, -1.0), "latency -1.0"),
        (lambda: Link(1.0, 0.0, 1.5), "utilization 1.5"),
        (lambda: Cluster(0, Link(1.0)), "nodes = 0"),
        (lambda: Cluster(1, Link(1.0), 0), "accelerators per node = 0"),
        (lambda: Method("m", "all-reduce", "bsp", compression=0.5), "compression ratio 0.5"),
        (lambda: Method("m", "all-reduce", "bsp", compression=math.inf), "compression ratio inf"),
        (lambda: Method("m", "all-reduce", "bsp", servers=-1), "servers = -1"),
        (lambda: Method("m", "all-reduce", "bsp", push_pull_overlap=2.0), "overlap 2.0"),
        (lambda: Method("m", "all-reduce", "bsp", bucket_cap_bytes=0.0), "bucket cap 0.0"),
        (lambda: Method("m", "all-reduce", "bsp", merge_below_bytes=-1.0), "merge threshold -1.0"),
        (lambda: method_named("wfbp_a2a"), "did you mean 'wfbp-a2a'"),
    ],
)
def test_refused(make, complaint):
    with pytest.raises(InputError, match=complaint):
        make()


def test_a_shape_must_fit_its_bytes():
    with pytest.raises(InputError, match=r"tensor 0 \(fc\) has 800 bytes, but its shape \(3, 3\) of fp32 has 36"):
        workload(tensors=(Tensor("fc", 800, 0.25, shape=(3, 3)),))
    half = workload(tensors=(Tensor("fc", 800, 0.25, shape=(20, 10)),)).with_gradient_dtype("fp16")
    assert (half.tensors[0].size, half.tensors[0].shape, half.element_bytes) == (400, (20, 10), 2)


def test_methods_beside_the_nine_order_transfers_of_servers():
    assert list(ORDERED_METHODS) == ["p3", "tictac"]
    assert (*METHODS, *ORDERED_METHODS) == METHOD_NAMES
    assert all(method_named(name).has_stages for name in ORDERED_METHODS)
    assert not any(method_named(name).has_stages for name in METHODS)


def test_methods_are_the_nine_of_the_command_line():
    assert list(METHODS) == [
        "bsp-ps",
        "bsp-a2a",
        "wfbp-ps",
        "wfbp-a2a",
        "mg-wfbp",
        "bytescheduler-ps",
        "bytescheduler-a2a",
        "ddp",
        "horovod",
    ]
    assert method_named("ddp", bucket_cap_bytes=5.0).bucket_cap_bytes == 5.0


def test_a_cluster_counts_its_workers():
    assert Cluster(3, Link(1.0), 4).workers == 12
    assert Link(10.0, utilization=0.5).effective_bandwidth == 5.0


def test_unknown_name_lists_all_and_suggests_only_what_is_close():
    assert str(unknown_name("fruit", "aple", ["apple", "pear"])) == (
        "unknown fruit 'aple': did you mean 'apple'? Known are apple, pear"
    )
    assert str(unknown_name("fruit", "xyz", ["apple", "pear"])) == "unknown fruit 'xyz': Known are apple, pear"
