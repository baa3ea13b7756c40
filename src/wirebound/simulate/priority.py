"""Transfers in the order in which the next forward pass needs them (ByteScheduler, Peng et al. 2019)."""

import heapq
from collections import deque
from collections.abc import Sequence

from wirebound.model import Message, Workload
from wirebound.simulate.cost import Cost
from wirebound.simulate.messages import PlannedMessage


def priority_transfers(planned: Sequence[PlannedMessage], cost: Cost, credit_bytes: float) -> list[Message]:
    """Send partitions most urgent first, one at a time, at most `credit_bytes` of them handed over but unfinished.

    The tensor that became ready last is the one that the next forward pass needs first, so the higher index is the
    more urgent. A partition that was handed to the transport can no longer be overtaken; the transport works first
    come, first served. One partition is always let in when the transport is idle, however large. What happens at the
    same instant (a transfer ends, a gradient becomes ready) counts before the next partition is chosen.

    Returns the messages in the order in which they were sent, times in seconds since backward began.
    """
    arrivals = deque(enumerate(planned))
    waiting: list[tuple[int, int]] = []  # (−tensor, index): the most urgent first, then in the order of its pieces
    handed: deque[tuple[float, float]] = deque()  # (end, bytes) of what the transport has not finished
    handed_bytes = 0.0
    free_s = 0.0
    sent = []
    while arrivals or waiting:
        now = min(arrivals[0][1].ready_s if arrivals else float("inf"), handed[0][0] if handed else float("inf"))
        while handed and handed[0][0] <= now:
            handed_bytes -= handed.popleft()[1]
        if not handed:
            handed_bytes = 0.0  # no rounding is left over
        while arrivals and arrivals[0][1].ready_s <= now:
            index, message = arrivals.popleft()
            heapq.heappush(waiting, (-message.tensors[-1], index))
        while waiting and (not handed or handed_bytes + planned[waiting[0][1]].size <= credit_bytes):
            size, ready_s, tensors = planned[heapq.heappop(waiting)[1]]
            start_s = max(free_s, now)
            free_s = start_s + cost(size)
            handed.append((free_s, size))
            handed_bytes += size
            sent.append(Message(size, ready_s, start_s, free_s, tensors))
    return sent


def next_backward_s(workload: Workload, messages: Sequence[Message]) -> float:
    """Seconds from the start of one backward pass to the end of the next forward pass, which waits layer by layer.

    A layer computes once the layer before it has and its own gradients have arrived. The optimizer works per tensor,
    right before the layer uses it, its time shared out by bytes. No layer of this forward pass is left waiting, so the
    network is idle when it ends: every step begins in the same state, and this is the steady-state period.
    """
    arrived = [0.0] * len(workload.tensors)
    for message in messages:
        for tensor in message.tensors:
            arrived[tensor] = max(arrived[tensor], message.end_s)
    forward_gaps, size = workload.forward_gaps_s, workload.size
    now = workload.backward_s
    for index in reversed(range(len(arrived))):
        update_s = workload.optimizer_s * workload.tensors[index].size / size
        now = max(now, arrived[index]) + update_s + forward_gaps[index]
    return now
