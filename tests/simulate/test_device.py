"""The device beside the wire: cases by hand, ticking simulations written apart, and the closed form of a flow shop."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wirebound.simulate.device import run_fifo, run_priority
from wirebound.simulate.tictac import run_tictac


def test_encoding_and_decoding_push_gradients_back():
    # gaps 2, 1, 3; each of three messages: encode 1, wire 2, decode 1
    run = run_fifo([2, 1, 3], [0, 1, 2], [1] * 3, [2] * 3, [0] * 3, [1] * 3)
    # 0–2 backward, –3 encode, –4 backward, –5 encode; message 0 crosses 3–5, is decoded –6; –9 backward, –10 encode
    assert run.backward_end == [2, 4, 9]
    assert run.encoded == [3, 5, 10]
    assert list(zip(run.start, run.end, strict=True)) == [(3, 5), (5, 7), (10, 12)]
    # message 1 arrives at 7, in the middle of the last gradient; the device is busy until 10, and decodes it then
    assert run.decoded == [6, 11, 13]


def test_the_pull_of_a_message_runs_beside_the_next_push():
    run = run_fifo([1, 0], [0, 1], [0, 0], [3, 3], [2, 4], [0, 0])
    assert list(zip(run.start, run.push_end, run.pull_start, run.end, strict=True)) == [(1, 4, 4, 6), (4, 7, 7, 11)]


def ticking(gaps, last, encode, push, pull, decode, *, forwards=None, sizes=None, credit=None, steps=1):
    """One device, a push link and a pull link, moved on second by second; first come, first served without `credit`.

    With `steps`, all lists are those of so many steps one after the other. Returns
    (end of backward or of the next forward pass, end of each decoding, start of each push).
    """
    count = len(last)
    program = []
    for step in range(steps):
        tensors = range(step * len(gaps) // steps, (step + 1) * len(gaps) // steps)
        program += [("backward", t, gaps[t]) for t in tensors]
        if forwards is not None:
            program += [("forward", t, forwards[t]) for t in reversed(tensors)]
    to_encode, pool, credit_used, to_pull, arrived = [], [], [], [], []
    pushing = pulling = task = None
    starts, decoded = [None] * count, [None] * count
    now = finished_backward = finished_program = 0
    while any(d is None for d in decoded) or program or task:
        while True:  # everything that happens at this instant
            moved = False
            if pushing and pushing[1] == 0:
                to_pull.append(pushing[0])
                pushing, moved = None, True
            if pulling and pulling[1] == 0:
                arrived.append(pulling[0])
                pulling, moved = None, True
            if pulling is None and to_pull:
                pulling, moved = [to_pull[0], pull[to_pull.pop(0)]], True
            if credit is None and pushing is None and pool:
                message = pool.pop(0)
                starts[message] = now
                pushing, moved = [message, push[message]], True
            if moved:
                continue
            if task and task[2] == 0:
                kind, what, _ = task
                task = None
                if kind == "backward":
                    finished_backward = now
                    to_encode += [m for m in range(count) if last[m] == what]
                elif kind == "encode":
                    pool.append(what)
                elif kind == "decode":
                    decoded[what] = now
                else:
                    finished_program = now
                continue
            if task is None:
                if to_encode:
                    task = ["encode", to_encode[0], encode[to_encode.pop(0)]]
                elif arrived:
                    task = ["decode", arrived[0], decode[arrived.pop(0)]]
                elif program and (
                    program[0][0] == "backward"
                    or all(decoded[m] is not None for m in range(count) if last[m] == program[0][1])
                ):
                    task = list(program.pop(0))
                if task:
                    continue
            if credit is not None:  # the most urgent, once everything of this instant is known
                if pushing is None and credit_used:
                    message = credit_used.pop(0)
                    starts[message] = now
                    pushing = [message, push[message]]
                    continue
                held = sum(sizes[m] for m in credit_used) + (sizes[pushing[0]] if pushing else 0)
                if pool:
                    best = max(pool, key=lambda m: (last[m], -m))
                    if (pushing is None and not credit_used) or held + sizes[best] <= credit:
                        pool.remove(best)
                        credit_used.append(best)
                        continue
            break
        now += 1
        for moving in (pushing, pulling):
            if moving:
                moving[1] -= 1
        if task:
            task[2] -= 1
        assert now < 10_000
    return (finished_program if forwards is not None else finished_backward), decoded, starts


def jobs(shortest_gap=0, shortest_push=0):
    seconds = st.integers(0, 5)
    return st.lists(
        st.tuples(
            st.integers(shortest_gap, 6),
            seconds,
            seconds,
            st.integers(shortest_push, 6),
            seconds,
            seconds,
            st.booleans(),
        ),
        min_size=1,
        max_size=7,
    )


def split(rows):
    """Gaps, forward times, and the last tensors and the times of messages that end where a row is marked."""
    ends = [i for i, row in enumerate(rows) if row[6] or i == len(rows) - 1]
    times = [[rows[i][column] for i in ends] for column in (2, 3, 4, 5)]
    return [row[0] for row in rows], [row[1] for row in rows], ends, times


@given(jobs())
def test_first_come_first_served_against_ticks(rows):
    gaps, _, last, times = split(rows)
    run = run_fifo(gaps, last, *times)
    backward, decoded, starts = ticking(gaps, last, *times)
    assert (run.backward_end[-1], run.decoded, run.start) == (backward, decoded, starts)


@settings(max_examples=200)
@given(jobs(shortest_gap=1, shortest_push=1), st.lists(st.integers(1, 4), min_size=7, max_size=7), st.integers(1, 12))
def test_priority_against_ticks(rows, sizes, credit):
    gaps, forwards, _, _ = split(rows)
    last = list(range(len(rows)))  # one message a tensor
    times = [[row[column] for row in rows] for column in (2, 3, 4, 5)]
    sizes = sizes[: len(rows)]
    run = run_priority(gaps, [0.0] * len(rows), forwards, last, last, sizes, credit, *times)
    finished, decoded, starts = ticking(gaps, last, *times, forwards=forwards, sizes=sizes, credit=credit)
    assert run.start == starts
    assert run.decoded == decoded
    assert run.forward_end[0] == finished


@settings(max_examples=50)
@given(jobs(shortest_gap=1, shortest_push=1), st.lists(st.integers(1, 4), min_size=7, max_size=7), st.integers(1, 12))
def test_every_step_takes_the_steady_state_period(rows, sizes, credit):
    gaps, forwards, _, _ = split(rows)
    last = list(range(len(rows)))
    times = [[row[column] for row in rows] for column in (2, 3, 4, 5)]
    sizes = sizes[: len(rows)]
    period = run_priority(gaps, [0.0] * len(rows), forwards, last, last, sizes, credit, *times).forward_end[0]
    for steps in (2, 3):
        many = [column * steps for column in times]
        finished, _, _ = ticking(
            gaps * steps,
            list(range(steps * len(rows))),
            *many,
            forwards=forwards * steps,
            sizes=sizes * steps,
            credit=credit,
            steps=steps,
        )
        assert finished == steps * period


@given(jobs())
def test_without_coding_it_is_a_flow_shop_of_two_machines(rows):
    """Max-plus: the end is the longest path ready_i + pushes i…j + pulls j…n over i ≤ j."""
    gaps, _, last, (_, push, pull, _) = split(rows)
    none = [0] * len(last)
    run = run_fifo(gaps, last, none, push, pull, none)
    ready = list(itertools.accumulate(gaps))
    longest = max(ready[last[i]] + sum(push[i : j + 1]) + sum(pull[j:]) for j in range(len(last)) for i in range(j + 1))
    assert run.end[-1] == longest


@given(jobs())
def test_push_and_pull_together_take_between_once_and_twice_one_way(rows):
    gaps, _, last, (_, push, _, _) = split(rows)
    none = [0] * len(last)
    once = run_fifo(gaps, last, none, push, none, none).end[-1]
    stages = run_fifo(gaps, last, none, push, push, none).end[-1]
    serial = run_fifo(gaps, last, none, [2 * s for s in push], none, none).end[-1]
    assert once <= stages <= serial <= once + sum(push)


@given(jobs())
def test_pulls_in_forward_order(rows):
    """The forward pass is a flow shop as well: pulls, then layers, from one start."""
    gaps, forwards, last, (_, push, pull, _) = split(rows)
    none = [0] * len(last)
    first = [0, *[end + 1 for end in last[:-1]]]
    run = run_tictac(gaps, [0] * len(gaps), forwards, first, last, none, push, pull, none)
    ready = list(itertools.accumulate(gaps))
    barrier = max([ready[-1], *(ready[last[i]] + sum(push[i:]) for i in range(len(last)))])
    work = [sum(forwards[a : b + 1]) for a, b in zip(first, last, strict=True)]
    longest = max(barrier + sum(pull[j:]) + sum(work[: j + 1]) for j in range(len(last)))
    assert run.forward_end[0] == max(longest, barrier + sum(forwards))


def tac_order(forwards, pulls):
    """TAC of Hashemi et al. (2019), algorithm 3: repeatedly take what min(P_B, M_A) < min(P_A, M_B) puts first.

    For a chain of layers, the first last in the lists: layer i depends on what is pulled for it and for all before it.
    """
    left, order = set(range(len(forwards))), []

    def unlocked(candidate):  # P: seconds of layers that wait for this alone
        waits = {i: {t for t in left if t >= i} for i in range(len(forwards))}
        return sum(forwards[i] for i, outstanding in waits.items() if outstanding == {candidate})

    while left:
        best = None
        for candidate in sorted(left):
            if best is None or min(unlocked(best), pulls[candidate]) < min(unlocked(candidate), pulls[best]):
                best = candidate
        order.append(best)
        left.remove(best)
    return order


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=6))
def test_by_timing_a_chain_is_pulled_in_the_order_of_dependency(layers):
    forwards, pulls = zip(*layers, strict=True)
    assert tac_order(forwards, pulls) == list(reversed(range(len(layers))))


def test_a_message_of_several_tensors_waits_for_the_last_and_serves_all():
    run = run_priority([1, 1], [0, 0], [5, 2], [0], [1], [8], 100, [1], [4], [0], [2])
    assert (run.encoded, run.end, run.decoded) == ([3], [7], [9])
    assert run.forward_end == [16, 11]


def test_no_network_and_no_coding_leave_the_passes_alone():
    run = run_priority([1.5, 1], [0, 0], [5, 2], [0, 1], [0, 1], [8, 8], 1, *[[0, 0]] * 4)
    assert run.forward_end[0] == pytest.approx(9.5)
