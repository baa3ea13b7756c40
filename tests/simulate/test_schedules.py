"""Fusion rules: hand-made cases, PyTorch's own bucketing, and MG-WFBP against trying every grouping."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wirebound.errors import InputError
from wirebound.model import Method, method_named
from wirebound.model.library import builtin_workload
from wirebound.simulate.messages import SCHEDULES, planned_messages
from wirebound.simulate.schedules import ddp_ends, horovod_ends, mg_wfbp_ends, partition_sizes

from .jobs import made, workloads

MIB = 2**20


def groups(ends):
    return [list(range(first, end)) for first, end in itertools.pairwise((0, *ends))]


def finish(ready, sizes, ends, startup, per_byte):
    """The max-plus closed form: max over messages of (ready_i + Σ_{j≥i} cost_j)."""
    members = groups(ends)
    costs = [startup + per_byte * sum(sizes[i] for i in group) for group in members]
    return max(ready[group[-1]] + sum(costs[i:]) for i, group in enumerate(members))


def test_horovod_emits_when_time_or_bytes_are_reached():
    assert horovod_ends([2, 2, 1, 0, 9], [1, 1, 1, 1, 1], 5, 100) == [3, 5]  # at exactly 5
    assert horovod_ends([0, 0, 0, 0], [40, 60, 99, 1], 5, 100) == [2, 4]  # at exactly 100
    assert horovod_ends([0, 0, 0], [40, 60, 7], 5, 100) == [2, 3]  # the rest at the end
    assert horovod_ends([1], [1], 5, 100) == [1]


def test_horovod_counts_the_window_anew_from_each_emit():
    # a full buffer at tensor 1 empties the clock too: 4 + 4 seconds later the window has not passed since
    assert horovod_ends([4, 0, 4, 1], [1, 100, 1, 1], 5, 100) == [2, 4]


def test_horovod_does_not_carry_over_what_a_window_was_exceeded_by():
    # 8 s pass before tensor 0 is sent; only 3 of the next 5 s have passed at tensor 1, though 11 s have in all
    assert horovod_ends([8, 3, 1], [1, 1, 1], 5, 100) == [1, 3]


def test_ddp_closes_a_bucket_that_is_exactly_full():
    assert ddp_ends([4, 4, 4, 4], 4, 8) == [1, 3, 4]


def test_ddp_buckets_of_resnet18():
    workload = builtin_workload("resnet18")
    messages = planned_messages(workload, method_named("ddp"))
    assert [message.size for message in messages] == [2_052_000, 28_852_224, 15_853_824]


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.integers(1, 3000), min_size=1, max_size=30),
    st.integers(4, 12_000),
    st.integers(4, 12_000),
)
def test_ddp_buckets_are_those_of_pytorch(elements, first, limit):
    torch = pytest.importorskip("torch")
    distributed = pytest.importorskip("torch.distributed")
    tensors = [torch.empty(count) for count in elements]
    buckets, _ = distributed._compute_bucket_assignment_by_size(tensors, [first, limit])
    assert groups(ddp_ends([4 * count for count in elements], first, limit)) == buckets


MERGED = {"ready": [4, 8, 13, 17], "sizes": [2, 8, 2, 1]}


@pytest.mark.parametrize(("startup", "expected_ends", "expected_finish"), [(5, [2, 4], 31), (4, [1, 3, 4], 32)])
def test_mg_wfbp_example_by_hand(startup, expected_ends, expected_finish):
    ends = mg_wfbp_ends(MERGED["ready"], MERGED["sizes"], startup, 1.0, 0)
    assert ends == expected_ends
    assert finish(MERGED["ready"], MERGED["sizes"], ends, startup, 1.0) == expected_finish


def test_mg_wfbp_merges_tensors_below_a_size_whatever_the_wait():
    assert mg_wfbp_ends([1, 100], [5, 5], 0, 0.0, 0) == [1, 2]
    assert mg_wfbp_ends([1, 100], [5, 5], 0, 0.0, 6) == [2]
    # the tensor's own size counts: with 10 bytes gathered a tensor of 5 still waits
    assert mg_wfbp_ends([1, 50, 100], [5, 5, 5], 0, 0.0, 6) == [3]


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(1, 9)), min_size=1, max_size=8),
    st.integers(0, 10),
    st.integers(0, 3),
)
def test_mg_wfbp_is_never_better_than_the_best_of_all_groupings(rows, startup, per_byte):
    ready = list(itertools.accumulate(gap for gap, _ in rows))
    sizes = [size for _, size in rows]
    count = len(sizes)
    best = min(
        finish(ready, sizes, [*cuts, count], startup, per_byte)
        for k in range(count)
        for cuts in itertools.combinations(range(1, count), k)
    )
    ends = mg_wfbp_ends(ready, sizes, startup, per_byte, 0)
    assert finish(ready, sizes, ends, startup, per_byte) >= best
    if startup == 0:  # nothing to save: sending each as soon as possible is best, and merging costs nothing here
        assert finish(ready, sizes, ends, startup, per_byte) == best


def test_mg_wfbp_is_greedy_not_optimal():
    ready, sizes = MERGED["ready"], MERGED["sizes"]
    ends = mg_wfbp_ends(ready, sizes, 4, 1.0, 0)
    better = [2, 4]
    assert finish(ready, sizes, better, 4, 1.0) < finish(ready, sizes, ends, 4, 1.0)


def test_mg_wfbp_without_a_network_says_what_is_missing():
    with pytest.raises(InputError, match="--gpus, --bandwidth"):
        planned_messages(made([1.0], [1]), method_named("mg-wfbp"))


def test_partitions():
    assert partition_sizes(10, 4) == [4, 4, 2]
    assert partition_sizes(8, 4) == [4, 4]
    assert partition_sizes(3, 4) == [3]
    assert partition_sizes(3, math.inf) == [3]


def test_pieces_name_the_tensors_that_they_carry():
    workload = made([1.0, 1.0, 1.0], [3, 3, 6])
    method = Method("cut", "all-reduce", "bsp", partition_bytes=4)
    messages = planned_messages(workload, method)
    assert [(m.size, m.ready_s, m.tensors) for m in messages] == [
        (4, 3.0, (0, 1)),
        (4, 3.0, (1, 2)),
        (4, 3.0, (2,)),
    ]


def test_a_piece_that_ends_with_a_tensor_does_not_name_the_next():
    messages = planned_messages(made([1.0, 1.0], [4, 4]), Method("cut", "all-reduce", "bsp", partition_bytes=4))
    assert [message.tensors for message in messages] == [(0,), (1,)]


@given(workloads, st.sampled_from(sorted(SCHEDULES)), st.integers(10**6, 10**9))
def test_messages_carry_every_byte_once(workload, schedule, partition):
    architecture = "parameter-server" if schedule == "tictac" else "all-reduce"
    method = Method("any", architecture, schedule, partition_bytes=partition)
    messages = planned_messages(workload, method, lambda size: 1e-4 + 1e-9 * size)
    assert sum(message.size for message in messages) == pytest.approx(workload.size, rel=1e-12)
    assert all(message.size <= partition for message in messages)
    assert sorted({index for message in messages for index in message.tensors}) == list(range(len(workload.tensors)))
    ready = workload.ready_s
    assert all(message.ready_s >= ready[message.tensors[-1]] for message in messages)
    assert [message.ready_s for message in messages] == sorted(message.ready_s for message in messages)


def test_unknown_schedule_suggests_the_closest():
    with pytest.raises(InputError, match="'wfpb': did you mean 'wfbp'"):
        planned_messages(made([1.0], [1]), Method("m", "all-reduce", "wfpb"))


def test_pieces_whose_sum_is_rounded_carry_no_neighbour():
    sizes, limit = [1_000_000] * 3, 11846.001974333662
    position = 0.0
    for piece in partition_sizes(sizes[0], limit):
        position += piece
    assert position > sizes[0]
    messages = planned_messages(made([1.0] * 3, sizes), method_named("bytescheduler-a2a", partition_bytes=limit))
    assert {m.tensors for m in messages} == {(0,), (1,), (2,)}
    assert all(m.ready_s == m.tensors[0] + 1 for m in messages)
