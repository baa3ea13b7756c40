"""The inverse solve, by hand where there is a closed form, and by what it promises everywhere else."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wirebound.errors import InputError
from wirebound.model import Cluster, Link, Method, method_named
from wirebound.model.library import builtin_workload
from wirebound.simulate.need import LATENCY_LIMIT_S, SEARCH_LIMIT, solve_need
from wirebound.simulate.step import simulate_step

from .jobs import made, workloads

TEN = Cluster(64, Link(1.25e9))


def test_bandwidth_by_hand():
    # one message after a 3 s step: 8 bytes over two workers take 8/B; 3/(3 + 8/B) = 0.75 at B = 8 B/s
    answer = solve_need(
        made([1.0], [8], 2.0), Cluster(2, Link(1.0)), method_named("bsp-a2a"), target=0.75, solve="bandwidth"
    )
    assert answer.unit == "Gbps"
    assert answer.value == pytest.approx(8 * 8e-9, rel=1e-9)
    assert answer.scaling_factor == pytest.approx(0.75, rel=1e-9)
    assert answer.reachable


def test_compression_by_hand():
    # at 2 B/s and a latency of 0.25 s twice, 8/(2c) + 0.5 = 1 at c = 8
    answer = solve_need(
        made([1.0], [8], 2.0), Cluster(2, Link(2.0, 0.25)), method_named("bsp-a2a"), target=0.75, solve="compression"
    )
    assert answer.value == pytest.approx(8, rel=1e-9)


def test_gpus_by_hand():
    # ring without latency: 2(N−1)/N · 4/8 = 1 − 1/N must not exceed 3/0.8 − 3 = 0.75: N = 4
    answer = solve_need(made([1.0], [4], 2.0), Cluster(9, Link(8.0)), method_named("bsp-a2a"), target=0.8, solve="gpus")
    assert (answer.value, answer.unit, answer.at_search_limit) == (4, "GPUs", False)
    # 3/(3 + 1) = 0.75 is reached by any number
    answer = solve_need(
        made([1.0], [4], 2.0), Cluster(9, Link(8.0)), method_named("bsp-a2a"), target=0.75, solve="gpus"
    )
    assert (answer.value, answer.at_search_limit) == (SEARCH_LIMIT, True)


def test_the_most_gpus_are_found_beyond_numbers_that_fail():
    # halving and doubling: 1 − 1/N s where N is a power of two, at least 1.5 s where it is not (3, 5, 6, …);
    # 0.75 s are allowed, so 3 fails, 4 reaches, and 8 does not
    method = Method("m", "all-reduce", "bsp", collective="halving-doubling")
    answer = solve_need(made([1.0], [4], 2.0), Cluster(9, Link(8.0)), method, target=0.8, solve="gpus")
    assert (answer.value, answer.at_search_limit) == (4, False)


def test_bandwidth_with_accumulation_by_hand():
    # 16 passes of 3 s, then 8 bytes: 48/(48 + 8/B) = 0.75 at B = 0.5 B/s
    answer = solve_need(
        *(made([1.0], [8], 2.0), Cluster(2, Link(1.0)), method_named("bsp-a2a")),
        **{"target": 0.75, "solve": "bandwidth", "accumulation": 16},
    )
    assert answer.value == pytest.approx(0.5 * 8e-9, rel=1e-9)


def test_batch_by_hand():
    # compute 3 s a sample, 8 s of communication: 3b/(3b + 8) ≥ 0.9 from b = 24
    answer = solve_need(
        made([1.0], [8], 2.0), Cluster(2, Link(1.0)), method_named("bsp-a2a"), target=0.9, solve="batch"
    )
    assert (answer.value, answer.unit) == (24, "samples")


def test_latency_by_hand():
    # one message after a 3 s step, over two workers: 2·α + 8/16 may take 3/0.75 − 3 = 1 s: α = 0.25 s
    job = (made([1.0], [8], 2.0), Cluster(2, Link(16.0, latency_s=9.0)), method_named("bsp-a2a"))
    answer = solve_need(*job, target=0.75, solve="latency")
    assert (answer.unit, answer.reachable, answer.at_search_limit) == ("us", True, False)
    assert answer.value == pytest.approx(0.25e6, rel=1e-9)
    # two passes of 3 s allow 2 s
    assert solve_need(*job, target=0.75, solve="latency", accumulation=2).value == pytest.approx(0.75e6, rel=1e-9)
    # 0.5 s of bytes alone leave 3/3.5 = 0.857
    answer = solve_need(*job, target=0.9, solve="latency")
    assert (answer.value, answer.reachable, answer.limited_by) == (None, False, "bandwidth")
    assert answer.scaling_factor == pytest.approx(3 / 3.5)


def test_the_largest_latency_is_zero_where_nothing_is_left_for_it():
    # the bytes alone use up all that the target allows
    job = (made([1.0], [8], 2.0), Cluster(2, Link(8.0)), method_named("bsp-a2a"))
    answer = solve_need(*job, target=0.75, solve="latency")
    assert (answer.value, answer.reachable) == (0, True)


def test_one_node_stands_any_latency():
    job = (builtin_workload("vgg16"), Cluster(1, Link(1e9), 8), method_named("ddp"))
    answer = solve_need(*job, target=0.9, solve="latency")
    assert (answer.value, answer.at_search_limit) == (LATENCY_LIMIT_S / 1e-6, True)


def test_half_precision_needs_half_of_the_bandwidth():
    # without latency and additions only bytes ÷ bandwidth counts, so that halves of both give the same step
    job = (Cluster(64, Link(1.0)), method_named("wfbp-a2a"))
    options = {"target": 0.9, "solve": "bandwidth", "include_vector_add": False}
    single = solve_need(builtin_workload("resnet101"), *job, **options)
    for dtype, share in (("fp16", 1 / 2), ("bf16", 1 / 2), ("fp8", 1 / 4), ("fp64", 2)):
        answer = solve_need(builtin_workload("resnet101").with_gradient_dtype(dtype), *job, **options)
        assert answer.value == pytest.approx(share * single.value, rel=1e-9)


@pytest.mark.parametrize(("name", "ratio"), [("resnet50", 2.75), ("resnet101", 2.85), ("vgg16", 7.93)])
def test_compression_that_the_published_model_needs_at_10_gbps(name, ratio):
    answer = solve_need(builtin_workload(name), TEN, method_named("horovod"), target=0.95, solve="compression")
    assert answer.value == pytest.approx(ratio, abs=0.005)
    assert answer.scaling_factor >= 0.95


def test_what_no_compression_can_reach_names_the_limit():
    answer = solve_need(builtin_workload("resnet50"), TEN, method_named("wfbp-a2a"), target=0.95, solve="compression")
    assert (answer.value, answer.reachable, answer.limited_by) == (None, False, "vector-add")
    assert answer.scaling_factor < 0.95
    workload = made([1.0], [8], 2.0)
    slow = Cluster(2, Link(1.0, latency_s=5.0))
    answer = solve_need(workload, slow, method_named("bsp-a2a"), target=0.5, solve="bandwidth")
    assert (answer.value, answer.limited_by) == (None, "latency")
    inside = Cluster(2, Link(1.0), 2, Link(1.0))
    answer = solve_need(workload, inside, method_named("bsp-a2a"), target=0.5, solve="bandwidth")
    assert (answer.value, answer.limited_by) == (None, "intra-node bandwidth")
    # inside the node 2 · 5 s of latency and 8/100 s of bytes
    late = Cluster(2, Link(1.0), 2, Link(100.0, latency_s=5.0))
    answer = solve_need(workload, late, method_named("bsp-a2a"), target=0.5, solve="bandwidth")
    assert (answer.value, answer.limited_by) == (None, "latency")
    answer = solve_need(workload, inside, method_named("bsp-a2a"), target=0.5, solve="gpus")
    assert (answer.value, answer.limited_by) == (None, "intra-node bandwidth")
    answer = solve_need(
        made([0.0], [8], optimizer_s=1.0), Cluster(2, Link(1.0)), method_named("bsp-a2a"), target=0.5, solve="batch"
    )
    assert (answer.value, answer.limited_by) == (None, "bandwidth")


def test_gpus_come_in_whole_nodes():
    cluster = Cluster(1, Link(1.25e9), 8, Link(1e11))
    answer = solve_need(builtin_workload("vgg16"), cluster, method_named("horovod"), target=0.5, solve="gpus")
    assert answer.value % 8 == 0
    more = dataclasses.replace(cluster, nodes=answer.value // 8 + 1)
    assert simulate_step(builtin_workload("vgg16"), more, method_named("horovod")).scaling_factor < 0.5


def test_one_node_needs_no_network():
    workload = builtin_workload("resnet50")
    answer = solve_need(
        workload, Cluster(1, Link(1.0), 8, Link(1e11)), method_named("horovod"), target=0.9, solve="bandwidth"
    )
    assert (answer.value, answer.reachable) == (0, True)


def test_accumulation_lowers_what_is_needed():
    once = solve_need(builtin_workload("vgg16"), TEN, method_named("ddp"), target=0.9, solve="bandwidth")
    often = solve_need(
        builtin_workload("vgg16"), TEN, method_named("ddp"), target=0.9, solve="bandwidth", accumulation=8
    )
    assert often.value < once.value


@settings(max_examples=40, deadline=None)
@given(
    workloads,
    st.integers(2, 40),
    st.floats(1e6, 1e10),
    st.sampled_from(["bsp-a2a", "wfbp-a2a", "wfbp-ps", "ddp", "mg-wfbp", "bytescheduler-a2a"]),
    st.floats(0.2, 0.99),
)
def test_the_answer_reaches_the_target_and_slightly_less_does_not(workload, nodes, bandwidth, name, target):
    cluster, method = Cluster(nodes, Link(bandwidth, 1e-6)), method_named(name)

    def factor(bandwidth=bandwidth, compression=1.0, latency_s=1e-6):
        link = Cluster(nodes, Link(bandwidth, latency_s))
        return simulate_step(workload, link, dataclasses.replace(method, compression=compression)).scaling_factor

    answer = solve_need(workload, cluster, method, target=target, solve="bandwidth")
    if answer.reachable:
        assert factor(bandwidth=answer.value * 125e6) >= target
        assert factor(bandwidth=answer.value * 125e6 * (1 - 1e-6)) < target
    answer = solve_need(workload, cluster, method, target=target, solve="compression")
    if answer.reachable:
        assert factor(compression=answer.value) >= target
        assert answer.value == 1 or factor(compression=max(1.0, answer.value * (1 - 1e-6))) < target
    answer = solve_need(workload, cluster, method, target=target, solve="latency")
    if answer.reachable:
        # microseconds and back may round the answer past the target
        assert factor(latency_s=answer.value * 1e-6 * (1 - 1e-9)) >= target
        assert factor(latency_s=max(answer.value * 1e-6 * (1 + 1e-6), 1e-9)) < target
    else:
        assert factor(latency_s=0.0) < target


@pytest.mark.parametrize("target", [0, -1, 1.01, float("nan")])
def test_target_out_of_range(target):
    with pytest.raises(InputError, match="greater than 0 and at most 1"):
        solve_need(builtin_workload("vgg16"), TEN, method_named("ddp"), target=target, solve="batch")


def test_unknown_quantity_suggests_the_closest():
    with pytest.raises(InputError, match="'bandwith': did you mean 'bandwidth'"):
        solve_need(builtin_workload("vgg16"), TEN, method_named("ddp"), target=0.9, solve="bandwith")
