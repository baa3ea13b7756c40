"""Messages, pieces and the queue, against the engine's rules and by hand."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from wirebound.errors import InputError, WireboundError
from wirebound.model import Tensor, Workload
from wirebound.model.method import method_named
from wirebound.simulate.messages import planned_messages
from wirebound.simulate.priority_kernel import priority_order
from wirebound.techniques.arrivals import Arrivals
from wirebound.techniques.layout import Message, Piece, cut, digest, lay_out
from wirebound.techniques.priority import CreditQueue
from wirebound.techniques.server_worker import server_shares


def parameters(*lengths: int, dtype=torch.float32) -> dict[str, nn.Parameter]:
    return {f"p{number}": nn.Parameter(torch.zeros(length, dtype=dtype)) for number, length in enumerate(lengths)}


@given(st.lists(st.integers(1, 50), min_size=1, max_size=6), st.integers(1, 60), st.booleans())
def test_pieces_are_those_of_the_engine(lengths, limit, merged):
    found = parameters(*lengths)
    names = list(found)
    pieces = cut(lay_out(found, [names] if merged else [[name] for name in names]), 4.0 * limit)
    workload = Workload("w", 1, tuple(Tensor(name, 4 * n, 1.0) for name, n in zip(names, lengths, strict=True)), 1.0)
    method = method_named("bsp-a2a" if merged else "wfbp-a2a", partition_bytes=4.0 * limit)
    planned = planned_messages(workload, method)
    assert [piece.size for piece in pieces] == [message.size for message in planned]
    assert [piece.names for piece in pieces] == [tuple(names[i] for i in message.tensors) for message in planned]


def test_a_message_gives_back_what_was_put_in():
    shapes = {
        "a": nn.Parameter(torch.zeros(2, 3)),
        "b": nn.Parameter(torch.zeros(())),
        "c": nn.Parameter(torch.zeros(4)),
    }
    message = Message(shapes, flagged=True)
    a, b = torch.arange(6.0).view(3, 2).t(), torch.tensor(7.0)  # a is not contiguous
    message.put("a", a)
    message.put("b", b)
    message.put("c", None)
    assert not message.missing
    assert message.buffer.tolist() == [0, 2, 4, 1, 3, 5, 7, 0, 0, 0, 0, 1, 1, 0]
    assert torch.equal(message.gradient("a"), a)
    assert torch.equal(message.gradient("b"), b)
    assert message.gradient("c") is None
    assert message.size == 4 * 14


def test_groups_of_several_types_become_several_messages():
    found = parameters(3, 4) | {"d": nn.Parameter(torch.zeros(5, dtype=torch.float64))}
    messages = lay_out(found, [["p1", "d", "p0"]])
    assert [(message.names, message.size) for message in messages] == [(("p1", "p0"), 28), (("d",), 40)]


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([["p0"]], "parameter p1 is in no group"),
        ([["p0", "p1"], ["p0"]], "parameter p0 is in two groups"),
        ([["p0", "p1", "nobody"]], "'nobody'"),
    ],
)
def test_groups_must_name_every_parameter_once(groups, message):
    with pytest.raises(InputError, match=message):
        lay_out(parameters(3, 4), groups)


def test_sparse_gradients_and_tiny_partitions_are_mistakes():
    message = Message(parameters(3))
    with pytest.raises(InputError, match="sparse"):
        message.put("p0", torch.zeros(3).to_sparse())
    with pytest.raises(InputError, match="less than one value"):
        cut([message], 3)


def test_processes_with_other_messages_have_another_digest():
    found = parameters(3, 4)
    one, other = lay_out(found, [["p0", "p1"]]), lay_out(found, [["p1", "p0"]])
    assert digest(cut(one, math.inf)) == digest(cut(lay_out(found, [["p0", "p1"]]), math.inf))
    assert digest(cut(one, math.inf)) != digest(cut(other, math.inf))
    assert digest(cut(one, math.inf)) != digest(cut(one, 8))


def test_servers_share_the_bytes():
    assert server_shares([8, 4, 4, 2, 6], 2) == [0, 1, 1, 0, 1]
    assert server_shares([8, 4], 1) == [0, 0]


arrivals = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9)), min_size=1, max_size=12)


@given(arrivals, st.integers(1, 30), st.integers(1, 5))
def test_the_queue_sends_in_the_order_of_the_engine(pieces, credit, seconds_per_byte):
    """Drive the queue with the engine's transport, one piece at a time, and compare whole schedules."""
    pieces = sorted(pieces, key=lambda item: item[0])
    ready = [float(moment) for moment, _ in pieces]
    sizes = [4.0 * length for _, length in pieces]
    costs = [seconds_per_byte * size for size in sizes]
    expected = priority_order(ready, list(range(len(pieces))), sizes, costs, 4.0 * credit)

    waiting = CreditQueue(4 * credit)
    made = [Piece(number, None, torch.zeros(length), ()) for number, (_, length) in enumerate(pieces)]
    sent, under_way, now = [], [], 0.0
    coming = list(range(len(pieces)))
    while coming or under_way or len(sent) < len(pieces):
        moments = [ready[coming[0]]] if coming else []
        moments += [under_way[0][1]] if under_way else []
        now = min(moments)
        while under_way and under_way[0][1] <= now:
            waiting.give_back(under_way.pop(0)[0])
        while coming and ready[coming[0]] <= now:
            number = coming.pop(0)
            waiting.put(-number, made[number])  # what is ready last is needed first
        while waiting._may_go():
            piece = waiting.take()
            start = max(now, sent[-1][2] if sent else 0.0)
            sent.append((piece.number, start, start + costs[piece.number]))
            under_way.append((piece, sent[-1][2]))
    assert sent == [tuple(item) for item in expected]


def test_arrivals_end_with_the_last_piece_with_an_error_or_in_time():
    [message] = lay_out(parameters(3), [["p0"]])
    pieces = cut([message], 8)
    arrivals = Arrivals(pieces, 0.05)
    arrivals.arrived(pieces[0])
    with pytest.raises(WireboundError, match=r"average of p0 did not arrive within 0\.05 s"):
        arrivals.wait(message, 0)
    arrivals.arrived(pieces[1])
    arrivals.wait(message, 0)
    with pytest.raises(WireboundError, match="did not arrive"):
        arrivals.wait(message, 1)

    def broken():
        raise WireboundError("the cable is cut")

    arrivals.in_background("broken", broken).join()
    with pytest.raises(WireboundError, match="the cable is cut"):
        arrivals.wait(message, 0)


def test_a_closed_queue_gives_nothing():
    waiting = CreditQueue(10)
    waiting.close()
    assert waiting.take() is None
    with pytest.raises(InputError, match="credit"):
        CreditQueue(0)
