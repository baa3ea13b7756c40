"""Steps with compressors and server stages: the plain step where nothing differs, by hand where something does."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirebound.errors import InputError
from wirebound.model import METHODS, Cluster, Codec, Compressor, Link, Method, method_named
from wirebound.model.library import builtin_workload
from wirebound.model.method import ORDERED_METHODS
from wirebound.simulate.coding import Coding, tensor_parts
from wirebound.simulate.compressors import compressor_named
from wirebound.simulate.messages import planned_messages
from wirebound.simulate.step import simulate_step

from .jobs import UNIT_CLUSTER, clusters, made, workloads

#: A method's plain fields of a step, which its staged twin must give to the last bit.
FIELDS = (
    *("iteration_s", "compute_s", "exposed_s", "wire_bytes_per_worker", "node_wire_bytes", "link_utilization"),
    "messages",
)
CODED = ("fp16", "signsgd", "topk:0.01", "gtopk:0.01", "qsgd:4", "powersgd:2", "terngrad-shared", "randomk:0.1")


@given(workloads, clusters, st.sampled_from(sorted(METHODS)), st.integers(1, 3))
def test_a_free_code_that_changes_nothing_is_the_plain_step_to_the_last_bit(workload, cluster, name, accumulation):
    """Every tensor is below the threshold: the device simulation runs, and has nothing to encode."""
    method = method_named(name)
    coded = method_named(name, compressor=compressor_named("topk:0.01"), compress_from_bytes=1e12)
    plain = simulate_step(workload, cluster, method, accumulation=accumulation)
    staged = simulate_step(workload, cluster, coded, accumulation=accumulation)
    assert [getattr(plain, field) for field in FIELDS] == [getattr(staged, field) for field in FIELDS]
    assert staged.nominal_ratio == 1
    assert staged.wire_ratio == pytest.approx(1)


@given(
    st.lists(st.tuples(st.floats(0, 0.05), st.integers(1, 10**7)), min_size=1, max_size=10),
    clusters,
    st.sampled_from(sorted(set(METHODS) - {"mg-wfbp", "bytescheduler-ps", "bytescheduler-a2a"})),
)
def test_free_half_precision_is_the_ratio_two_to_the_last_bit(rows, cluster, name):
    workload = made([gap for gap, _ in rows], [4 * size for _, size in rows], forward_s=0.1)
    half = simulate_step(workload, cluster, method_named(name, compressor=compressor_named("fp16")))
    ratio = simulate_step(workload, cluster, method_named(name, compression=2.0))
    assert (half.iteration_s, half.messages) == (ratio.iteration_s, ratio.messages)
    assert half.node_wire_bytes == pytest.approx(ratio.node_wire_bytes)
    assert half.nominal_ratio == (2 if cluster.workers > 1 else 1)


def effective(spec, cluster, **changes):
    """Nominal and wire ratio of a large vector, whose headers do not count."""
    workload = made([1.0], [400_000_000])
    step = simulate_step(workload, cluster, method_named("bsp-a2a", compressor=compressor_named(spec), **changes))
    return step.nominal_ratio, step.wire_ratio


def test_what_a_ratio_is_worth():
    """A gathered code of ratio c is worth 2c/P on a flat ring of P (section on compressors of the model)."""
    flat, nodes = Cluster(64, Link(1.25e9)), Cluster(8, Link(1.25e9), 8)
    assert effective("ef-signsgd", flat) == (pytest.approx(32, rel=1e-6), pytest.approx(1.0, rel=1e-6))
    assert effective("signsgd", flat)[1] == pytest.approx(2 * 32 / 64)
    assert effective("topk:0.001", flat) == (pytest.approx(500), pytest.approx(2 * 500 / 64))
    assert round(effective("topk:0.001", flat)[1]) == 16
    assert effective("ef-signsgd", nodes)[1] == pytest.approx(8, rel=1e-6)
    assert effective("ef-signsgd", nodes, collective="flat-ring")[1] == pytest.approx(1.0, rel=1e-6)
    assert effective("gtopk:0.001", flat)[1] == pytest.approx(500 * 2 * 63 / 64 / 6)
    assert effective("fp16", nodes) == (2, pytest.approx(2))


def one_message_s(spec, cluster, size=8000, codec=None, shape=None, **changes):
    workload = made([0.0], [size])
    if shape:
        tensors = tuple(dataclasses.replace(tensor, shape=shape) for tensor in workload.tensors)
        workload = dataclasses.replace(workload, tensors=tensors)
    compressor = None if spec is None else compressor_named(spec, codec)
    name = changes.pop("method", "bsp-a2a")
    step = simulate_step(workload, cluster, method_named(name, compressor=compressor, **changes))
    return step.exposed_s


def test_seconds_on_the_wire_by_hand():
    cluster = Cluster(4, Link(10.0, 1.0))
    assert one_message_s("signsgd", cluster) == pytest.approx(3 * (1 + 250 / 10))
    assert one_message_s("signsgd", cluster, collective="tree") == pytest.approx(2 * 1 + 3 * 250 / 10)
    assert one_message_s("topk:0.01", cluster) == pytest.approx(3 * (1 + 160 / 10))
    assert one_message_s("gtopk:0.01", cluster) == pytest.approx(2 * 2 * (1 + 160 / 10))
    assert one_message_s("randomk:0.01", cluster) == pytest.approx(6 * 1 + 1.5 * 80 / 10)
    # factors 40×2 and 50×2 of four bytes, one all-reduce after the other
    assert one_message_s("powersgd:2", cluster, shape=(40, 50)) == pytest.approx(2 * 6 * 1 + 1.5 * 720 / 10)
    assert one_message_s("powersgd:2", cluster, shape=(2000,)) == one_message_s(None, cluster)
    # sums of four ternary values have nine values: four bits
    assert one_message_s("terngrad-shared", cluster) == pytest.approx(6 * 1 + 1.5 * 1004 / 10)


def test_a_node_reduces_densely_before_it_gathers():
    cluster = Cluster(4, Link(10.0, 1.0), 2, Link(100.0, 0.5))
    inside = 2 * 0.5 + 8000 / 100
    assert one_message_s("signsgd", cluster) == pytest.approx(inside + 3 * (1 + 250 / 10))
    assert one_message_s("signsgd", cluster, collective="flat-ring") == pytest.approx(7 * (1 + 250 / 10))
    codec = Codec(encode_s=1.0, encode_s_per_byte=0.01, decode_s=2.0, decode_s_per_byte=0.002)
    # each accelerator encodes half of it, and decodes its half of the payloads of four nodes
    coding = 1 + 0.01 * 4000 + 2 + 4 * 0.002 * 4000
    assert one_message_s("signsgd", cluster, codec=codec) == pytest.approx(inside + 3 * 26 + coding)
    coding = 1 + 0.01 * 8000 + 2 + 8 * 0.002 * 8000
    assert one_message_s("signsgd", cluster, codec=codec, collective="flat-ring") == pytest.approx(7 * 26 + coding)
    # what is summed is coded whole, and travels coded inside the node as well
    coded = 2 * 0.5 + 4000 / 100 + 6 * 1 + 1.5 * 4000 / 10 + 1 + 0.01 * 8000 + 2 + 0.002 * 8000
    assert one_message_s("fp16", cluster, codec=codec) == pytest.approx(coded)


def test_one_node_alone_does_not_code_what_nodes_gather():
    node = Cluster(1, Link(10.0, 1.0), 2, Link(100.0, 0.5))
    codec = Codec(encode_s=1.0)
    assert one_message_s("signsgd", node, codec=codec) == pytest.approx(2 * 0.5 + 8000 / 100)
    assert one_message_s("signsgd", node, codec=codec, collective="flat-ring") == pytest.approx(1 + 0.5 + 250 / 100)


def test_servers_send_the_sum_in_the_code_where_it_can_be_summed():
    cluster = Cluster(4, Link(10.0, 1.0))
    push, dense = 1 + 250 / 10, 1 + 8000 / 10
    assert one_message_s("signsgd", cluster, method="bsp-ps") == pytest.approx(2 * push)
    assert one_message_s("topk:0.01", cluster, method="bsp-ps") == pytest.approx(1 + 16 + dense)
    assert one_message_s("topk:0.01", cluster, method="bsp-ps", compressed_pull=True) == pytest.approx(2 * 17)
    assert one_message_s("topk:0.01", cluster, method="bsp-ps", servers=2) == pytest.approx(2 + 2 * (816))
    colocated = 0.75 * (160 + 8000) / 10
    assert one_message_s("topk:0.01", cluster, method="bsp-ps", colocated=True) == pytest.approx(2 + colocated)
    step = simulate_step(made([0.0], [8000]), cluster, method_named("bsp-ps", compressor=compressor_named("topk:0.01")))
    assert (step.wire_bytes_per_worker, step.wire_ratio) == (160, pytest.approx(16000 / 8160))
    with pytest.raises(InputError, match="merges in a tree between workers: use an all-reduce method"):
        one_message_s("gtopk:0.01", cluster, method="bsp-ps")


def test_servers_slow_down_where_all_send_at_once():
    cluster = Cluster(4, Link(10.0, 1.0))
    assert one_message_s(None, cluster, method="bsp-ps", incast=0.5) == pytest.approx(2 * (1 + 1600))
    assert one_message_s(None, cluster, method="bsp-ps", incast=0.5, servers=16) == pytest.approx(2 * (1 + 800))
    colocated = 2 * (1 + 0.75 * 8000 / 5)
    assert one_message_s(None, cluster, method="bsp-ps", incast=0.5, colocated=True) == pytest.approx(colocated)


@given(workloads, clusters, st.sampled_from(["bsp-ps", "wfbp-ps"]), st.integers(0, 20))
def test_pipelined_servers_take_between_one_and_two_ways(workload, cluster, name, servers):
    """Against the same servers with all of a message's pull, and none of it, hidden under its push."""

    def iteration_s(**changes):
        return simulate_step(workload, cluster, method_named(name, servers=servers, **changes)).iteration_s

    link = dataclasses.replace(cluster.inter, latency_s=0.0)
    cluster = dataclasses.replace(cluster, inter=link)
    assert iteration_s(push_pull_overlap=1.0) <= iteration_s(pipelined=True) * (1 + 1e-9)
    assert iteration_s(pipelined=True) <= iteration_s() * (1 + 1e-9)


def test_servers_on_the_workers_machines_gain_nothing_from_stages():
    workload, cluster = builtin_workload("resnet50"), Cluster(8, Link(1.25e9, 2e-5))
    serial = simulate_step(workload, cluster, method_named("wfbp-ps", colocated=True))
    stages = simulate_step(workload, cluster, method_named("wfbp-ps", colocated=True, pipelined=True))
    assert stages.iteration_s == pytest.approx(serial.iteration_s, rel=1e-12)


@pytest.mark.parametrize("name", ORDERED_METHODS)
def test_orders_hide_communication_under_the_next_forward_pass(name):
    workload, cluster = builtin_workload("resnet50"), Cluster(16, Link(1.25e9))
    wfbp = simulate_step(workload, cluster, method_named("wfbp-ps"))
    ordered = simulate_step(workload, cluster, method_named(name))
    assert workload.compute_s <= ordered.iteration_s * (1 + 1e-12)
    assert ordered.iteration_s < wfbp.iteration_s


def test_p3_cuts_fifty_thousand_parameters():
    step = simulate_step(made([1.0], [4 * 120_000]), Cluster(2, Link(1e6)), method_named("p3"))
    assert [message.size for message in step.messages] == [200_000, 200_000, 80_000]
    # pushes of 0.2, 0.2, 0.08 s one after the other, each pull under the next push
    assert [message.end_s for message in step.messages] == pytest.approx([1.4, 1.6, 1.68])
    assert step.communication_s == pytest.approx(0.68)


def test_tictac_waits_for_all_pushes():
    # pushes 1–3 and 3–7; then tensor 1 is pulled 7–11, its layer runs 11–13; tensor 0 11–13, its layer 13–18
    workload = made([1.0, 1.0], [2, 4], forward_s=7.0, forwards=[5.0, 2.0])
    step = simulate_step(workload, Cluster(2, Link(1.0)), method_named("tictac"))
    assert [
        (m.start_s, s.push_end_s, s.pull_start_s, m.end_s) for m, s in zip(step.messages, step.stages, strict=True)
    ] == [
        (1, 3, 11, 13),
        (3, 7, 7, 11),
    ]
    assert step.iteration_s == 18
    assert step.communication_s == 12


@given(workloads, clusters, st.sampled_from([*sorted(METHODS), *ORDERED_METHODS]), st.sampled_from(CODED))
def test_laws_of_coded_steps(workload, cluster, name, spec):
    method = method_named(name, compressor=compressor_named(spec, Codec(1e-5, 1e-11, 1e-5, 1e-11)))
    if spec.startswith("gtopk") and method.architecture == "parameter-server":
        return
    step = simulate_step(workload, cluster, method)
    free = simulate_step(workload, cluster, dataclasses.replace(method, compressor=compressor_named(spec)))
    assert step.iteration_s >= step.compute_s
    assert step.node_wire_bytes == free.node_wire_bytes
    if cluster.workers > 1:
        assert step.wire_ratio > 0
        assert step.iteration_s * (1 + 1e-12) >= step.compute_s + step.encode_s
        for message, stage in zip(step.messages, step.stages, strict=True):
            assert message.ready_s + stage.encode_s <= stage.encoded_s * (1 + 1e-12)
            assert stage.encoded_s <= message.start_s <= stage.push_end_s <= stage.pull_start_s <= message.end_s
            assert message.end_s + stage.decode_s <= stage.decoded_s * (1 + 1e-12)


def test_layers_may_have_compressors_of_their_own():
    workload = made([1.0, 1.0, 1.0], [4000, 4000, 40])
    topk, signs = compressor_named("topk:0.01"), compressor_named("ef-signsgd")
    method = method_named(
        "wfbp-a2a", compressor=topk, compressors_by_tensor=(("t1", signs),), compress_from_bytes=100.0
    )
    step = simulate_step(workload, UNIT_CLUSTER, method)
    assert [m.end_s - m.start_s for m in step.messages] == pytest.approx([80, 129, 40])
    assert step.nominal_ratio == pytest.approx(8040 / 249)
    left = dataclasses.replace(method, compressors_by_tensor=(("t1", None),))
    assert [m.end_s - m.start_s for m in simulate_step(workload, UNIT_CLUSTER, left).messages][1] == pytest.approx(4000)
    # in one message each travels in its own way
    fused = dataclasses.replace(method, schedule="bsp")
    assert simulate_step(workload, UNIT_CLUSTER, fused).messages[0].end_s == pytest.approx(3 + 80 + 129 + 40)
    with pytest.raises(InputError, match="has no tensor 't7' to compress"):
        simulate_step(workload, UNIT_CLUSTER, dataclasses.replace(method, compressors_by_tensor=(("t7", None),)))


def test_pieces_share_a_payload():
    workload = made([1.0, 1.0], [400, 100])
    method = Method("cut", "all-reduce", "bsp", partition_bytes=150, compressor=compressor_named("ef-signsgd"))
    planned = planned_messages(workload, method)
    assert tensor_parts(planned, workload.sizes) == [
        [(0, 150)],
        [(0, 150)],
        [(0, 100), (1, 50)],
        [(1, 50)],
    ]
    # payloads of ⌈100/8⌉ + 4 = 17 and ⌈25/8⌉ + 4 = 8 bytes
    coded = Coding(workload, UNIT_CLUSTER, method).messages(planned)
    assert [message.push_s for message in coded] == [6.375, 6.375, 4.25 + 4, 4]


def test_one_tensor_one_worker_and_a_network_that_costs_nothing():
    method = method_named("wfbp-a2a", compressor=compressor_named("topk:0.5", Codec(0.25, 0, 0.5, 0)))
    one = simulate_step(made([1.0], [1]), Cluster(1, Link(1.0)), method)
    assert (one.iteration_s, one.messages, one.stages) == (1, (), ())
    free = simulate_step(made([1.0], [1]), Cluster(2, Link(float("inf"))), method)
    assert free.iteration_s == 1.75
    assert free.communication_s == 0
    assert free.link_utilization == 0


def test_accumulation_encodes_once():
    method = method_named("wfbp-a2a", compressor=compressor_named("fp16", Codec(1.0, 0, 1.0, 0)))
    workload = made([2.0, 1.0], [8, 4], forward_s=4.0)
    once = simulate_step(workload, UNIT_CLUSTER, method)
    twice = simulate_step(workload, UNIT_CLUSTER, method, accumulation=2)
    # 0–2, encode –3, 1 s –4, encode –5; message 0 crosses 3–7, is decoded –8; message 1 crosses 7–9, is decoded –10
    assert once.iteration_s == 4 + 10
    assert (twice.iteration_s, twice.encode_s, twice.decode_s) == (14 + 7, 2, 2)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"compressor": Compressor("fp16"), "compression": 2.0}, "compressor and the compression ratio 2.0 exclude"),
        ({"compress_from_bytes": -1.0}, "compression threshold -1.0 B"),
        ({"incast": 1.0}, "incast 1.0 must be at least 0 and less than 1"),
        ({"pipelined": True, "push_pull_overlap": 0.5}, "leave one of them out"),
        ({"schedule": "tictac"}, "needs the architecture parameter-server"),
    ],
)
def test_refused_methods(changes, complaint):
    with pytest.raises(InputError, match=complaint):
        method_named("bsp-a2a", **changes)


def test_refused_codec():
    with pytest.raises(InputError, match="codec: encode_s = -1 must be finite and not negative"):
        Codec(encode_s=-1)
