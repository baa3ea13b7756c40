"""Priority scheduling: cases by hand, and an independent simulation that ticks through whole training runs."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from wirebound.model import Method
from wirebound.simulate.messages import planned_messages
from wirebound.simulate.priority import priority_transfers
from wirebound.simulate.step import simulate_step

from .jobs import UNIT_CLUSTER, made


def scheduler(partition, credit):
    return Method("p", "all-reduce", "priority", partition_bytes=partition, credit_bytes=credit)


def order(workload, partition, credit):
    planned = planned_messages(workload, scheduler(partition, credit))
    return [(m.tensors[0], m.start_s, m.end_s) for m in priority_transfers(planned, lambda size: size, credit)]


def test_the_most_urgent_partition_overtakes_what_waits():
    # tensor 0 is cut in three; tensor 1 is ready one second later and goes before the second and third piece
    workload = made([1.0, 1.0], [6, 2])
    assert order(workload, 2, 2) == [(0, 1, 3), (1, 3, 5), (0, 5, 7), (0, 7, 9)]


def test_what_was_handed_over_is_not_overtaken():
    workload = made([1.0, 1.0], [6, 2])
    assert order(workload, 2, 4) == [(0, 1, 3), (0, 3, 5), (1, 5, 7), (0, 7, 9)]
    assert order(workload, 2, 100) == [(0, 1, 3), (0, 3, 5), (0, 5, 7), (1, 7, 9)]


def test_a_partition_larger_than_the_credit_goes_when_the_network_is_idle():
    assert order(made([1.0, 0.0], [9, 1]), 100, 4) == [(1, 1, 2), (0, 2, 11)]


def test_communication_hides_under_the_next_forward_pass():
    # ready at 1 and 2; tensor 1 (the first layer) crosses 2–5, tensor 0 crosses 1–2 and needs no wait
    workload = made([1.0, 1.0], [1, 3], forward_s=6.0, forwards=[4.0, 2.0])
    step = simulate_step(workload, UNIT_CLUSTER, scheduler(100, 100))
    assert step.iteration_s == 5 + 2 + 4
    assert step.exposed_s == 3
    # first come, first served and waiting for everything would take 6 + 5: here the last layer's bytes are hidden
    swapped = made([1.0, 1.0], [3, 1], forward_s=6.0, forwards=[2.0, 4.0])
    step = simulate_step(swapped, UNIT_CLUSTER, scheduler(1, 1))
    # pieces of tensor 0 cross 1–2, then tensor 1 crosses 2–3, then the rest of tensor 0 until 5, under 4 s of forward
    assert [m.tensors for m in step.messages] == [(0,), (1,), (0,), (0,)]
    assert step.iteration_s == 3 + 4 + 2


def test_no_more_than_the_forward_pass_is_hidden_where_its_layers_were_not_measured():
    # four tensors of 1 s on the wire, backward 4 × 0 s, forward 1 s: a quarter for each layer, the first at 1 s
    workload = made([0.0] * 4, [1] * 4, forward_s=1.0, forwards=[0.0] * 4)
    step = simulate_step(workload, UNIT_CLUSTER, scheduler(1, 1))
    # the transport sends tensors 3, 2, 1, 0 until 4 s; the last layer computes from then on: 0.75 s are hidden
    assert step.iteration_s == 4.25


def test_the_optimizer_updates_each_tensor_before_its_layer():
    workload = made([1.0, 1.0], [1, 3], forward_s=6.0, optimizer_s=4.0, forwards=[4.0, 2.0])
    step = simulate_step(workload, UNIT_CLUSTER, scheduler(100, 100))
    assert step.iteration_s == 5 + (3 + 2) + (1 + 4)


def ticking(gaps, forwards, sizes, partition, credit, steps=4):
    """Train in ticks of one second on a wire of one byte a second; returns the seconds of each step.

    Written apart from the package: a transport queue that moves a byte a tick, a compute unit that works through
    backward (tensor 0 first) and forward (last tensor first) and waits where gradients have not arrived.
    """
    count = len(sizes)
    program = []
    for _ in range(steps):
        program += [("backward", i, gaps[i]) for i in range(count)]
        program += [("forward", i, forwards[i]) for i in reversed(range(count))]
    missing = [0] * count
    waiting, transport = [], []  # waiting: [tensor, piece, bytes]; transport: [tensor, bytes left, bytes]
    position, left, now, ends = 0, None, 0, []
    while position < len(program):
        while transport and transport[0][1] == 0:
            missing[transport.pop(0)[0]] -= 1
        while position < len(program):
            kind, tensor, duration = program[position]
            if left is None:
                if kind == "forward" and missing[tensor]:
                    break
                left = duration
            if left > 0:
                break
            if kind == "backward":
                pieces, rest = [], sizes[tensor]
                while rest > 0:
                    pieces.append(min(partition, rest))
                    rest -= pieces[-1]
                missing[tensor] = len(pieces)
                waiting += [[tensor, number, size] for number, size in enumerate(pieces)]
            elif tensor == 0:
                ends.append(now)
            position, left = position + 1, None
        waiting.sort(key=lambda item: (-item[0], item[1]))
        while waiting and (not transport or sum(item[2] for item in transport) + waiting[0][2] <= credit):
            tensor, _, size = waiting.pop(0)
            transport.append([tensor, size, size])
        if transport:
            transport[0][1] -= 1
        if left is not None:
            left -= 1
        now += 1
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(1, 12)), min_size=1, max_size=6),
    st.integers(1, 12),
    st.integers(1, 20),
)
def test_equals_an_independent_simulation_of_several_steps(rows, partition, credit):
    gaps, forwards, sizes = (list(column) for column in zip(*rows, strict=True))
    assume(any(gaps) or any(forwards))
    workload = made(
        [float(gap) for gap in gaps], sizes, float(sum(forwards)), forwards=[float(forward) for forward in forwards]
    )
    step = simulate_step(workload, UNIT_CLUSTER, scheduler(partition, credit))
    assert ticking(gaps, forwards, sizes, partition, credit) == [pytest.approx(step.iteration_s)] * 4
