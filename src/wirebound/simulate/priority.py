"""Transfers in the order in which the next forward pass needs them (ByteScheduler, Peng et al. 2019)."""

from collections.abc import Sequence

from wirebound.model import Message, Workload
from wirebound.simulate.cost import Cost
from wirebound.simulate.messages import PlannedMessage
from wirebound.simulate.priority_kernel import forward_end_s, priority_order


def priority_transfers(planned: Sequence[PlannedMessage], cost: Cost, credit_bytes: float) -> list[Message]:
    """Send partitions most urgent first, one at a time, at most `credit_bytes` of them handed over but unfinished.

    The tensor that became ready last is the one that the next forward pass needs first, so the higher index is the
    more urgent. A partition that was handed to the transport can no longer be overtaken; the transport works first
    come, first served. One partition is always let in when the transport is idle, however large. What happens at the
    same instant (a transfer ends, a gradient becomes ready) counts before the next partition is chosen.

    Returns the messages in the order in which they were sent, times in seconds since backward began.
    """
    order = priority_order(
        [message.ready_s for message in planned],
        [message.tensors[-1] for message in planned],
        [message.size for message in planned],
        [cost(message.size) for message in planned],
        credit_bytes,
    )
    return [
        Message(planned[index].size, planned[index].ready_s, start_s, end_s, planned[index].tensors)
        for index, start_s, end_s in order
    ]


def next_backward_s(workload: Workload, messages: Sequence[Message]) -> float:
    """Seconds from the start of one backward pass to the end of the next forward pass, which waits layer by layer.

    A layer computes once the layer before it has and its own gradients have arrived. The optimizer works per tensor,
    right before the layer uses it, its time shared out by bytes. No layer of this forward pass is left waiting, so the
    network is idle when it ends: every step begins in the same state, and this is the steady-state period.
    """
    return next_forward_ends_s(workload, messages)[0]


def next_forward_ends_s(workload: Workload, messages: Sequence[Message]) -> list[float]:
    """Return when each tensor's layer has computed in the next forward pass, seconds since this backward pass began."""
    arrived = [0.0] * len(workload.tensors)
    for message in messages:
        for tensor in message.tensors:
            arrived[tensor] = max(arrived[tensor], message.end_s)
    forward_end_s(arrived, workload.sizes, workload.forward_gaps_s, workload.optimizer_s, workload.backward_s)
    return arrived
