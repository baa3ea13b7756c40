"""A device that computes, encodes and decodes, one task at a time, beside the wire that it feeds.

Tasks are not interrupted. The encoding of a message runs as soon as its last gradient is computed; the decoding of a
message that has arrived runs when the task at hand is done, before the next gradient's. After backward the device only
decodes, or, where the next forward pass does not wait for everything, decodes between that pass's layers. So encoding
and decoding push later gradients back. With no coding time this is the plain step, to the last bit.

Times are in seconds since backward began.
"""

import heapq
from collections.abc import Sequence
from typing import NamedTuple


class FifoRun(NamedTuple):
    """What happened when: per tensor the end of its backward task, per message the rest, in the order of sending."""

    backward_end: list[float]
    ready: list[float]
    encoded: list[float]
    start: list[float]
    push_end: list[float]
    pull_start: list[float]
    end: list[float]
    decoded: list[float]


def run_fifo(
    gaps: Sequence[float],
    last: Sequence[int],
    encode: Sequence[float],
    push: Sequence[float],
    pull: Sequence[float],
    decode: Sequence[float],
) -> FifoRun:
    """Run one backward pass whose messages go first come, first served, through push and then pull.

    `gaps` are the backward seconds of each tensor; message m is complete with tensor last[m] (ascending) and takes
    encode[m] on the device, push[m] and pull[m] on the wire (the pull of a message beside the push of later ones),
    decode[m] on the device. A leaf function over floats: a two-stage flow shop between two visits to one machine.
    """
    count = len(last)
    backward_end, ready, encoded, start = [0.0] * len(gaps), [0.0] * count, [0.0] * count, [0.0] * count
    push_end, pull_start, end, decoded = [0.0] * count, [0.0] * count, [0.0] * count, [0.0] * count
    now = push_free = pull_free = 0.0
    sent = back = 0  # messages handed to the wire, and decoded
    for tensor in range(len(gaps)):
        while back < sent and end[back] <= now:
            now += decode[back]
            decoded[back] = now
            back += 1
        now += gaps[tensor]
        backward_end[tensor] = now
        while sent < count and last[sent] == tensor:
            ready[sent] = backward_end[tensor]
            now += encode[sent]
            encoded[sent] = now
            start[sent] = now if now > push_free else push_free
            push_free = start[sent] + push[sent]
            push_end[sent] = push_free
            pull_start[sent] = push_free if push_free > pull_free else pull_free
            pull_free = pull_start[sent] + pull[sent]
            end[sent] = pull_free
            sent += 1
    while back < count:
        now = (now if now > end[back] else end[back]) + decode[back]
        decoded[back] = now
        back += 1
    return FifoRun(backward_end, ready, encoded, start, push_end, pull_start, end, decoded)


class PriorityRun(NamedTuple):
    """As `FifoRun`, with the end of each tensor's next forward task, and the `order` in which messages were sent.

    The lists per message are in the order in which the messages were planned.
    """

    backward_end: list[float]
    forward_end: list[float]
    ready: list[float]
    encoded: list[float]
    start: list[float]
    push_end: list[float]
    pull_start: list[float]
    end: list[float]
    decoded: list[float]
    order: list[int]


class _PriorityWire:
    """The wire of `priority.priority_transfers`, told of one message after the other as the device encodes them."""

    def __init__(
        self,
        sizes: Sequence[float],
        urgency: Sequence[int],
        credit: float,
        push: Sequence[float],
        pull: Sequence[float],
    ) -> None:
        count = len(sizes)
        self.start, self.push_end, self.pull_start, self.end = ([0.0] * count for _ in range(4))
        self.order: list[int] = []
        self._sizes, self._urgency, self._credit, self._push, self._pull = sizes, urgency, credit, push, pull
        self._offered: list[tuple[float, int]] = []
        self._taken = 0
        self._waiting: list[tuple[int, int]] = []
        self._handed: list[tuple[float, float]] = []
        self._done = 0
        self._handed_bytes = 0.0
        self._push_free = self._pull_free = 0.0

    def offer(self, index: int, at: float) -> None:
        """Message `index` is encoded `at` that time, not before any that was offered earlier."""
        self._offered.append((at, index))

    def run(self, until: float, inclusive: bool) -> None:
        """Hand over what can be before `until`, or at it as well."""
        while True:
            arrival = self._offered[self._taken][0] if self._taken < len(self._offered) else float("inf")
            finish = self._handed[self._done][0] if self._done < len(self._handed) else float("inf")
            now = min(arrival, finish)
            if now > until or (now == until and not inclusive) or now == float("inf"):
                return
            self._handle(now)

    def _handle(self, now: float) -> None:
        while self._done < len(self._handed) and self._handed[self._done][0] <= now:
            self._handed_bytes -= self._handed[self._done][1]
            self._done += 1
        if self._done == len(self._handed):
            self._handed_bytes = 0.0  # no rounding is left over
        while self._taken < len(self._offered) and self._offered[self._taken][0] <= now:
            index = self._offered[self._taken][1]
            heapq.heappush(self._waiting, (-self._urgency[index], index))
            self._taken += 1
        while self._waiting and (
            self._done == len(self._handed) or self._handed_bytes + self._sizes[self._waiting[0][1]] <= self._credit
        ):
            index = heapq.heappop(self._waiting)[1]
            self.start[index] = max(self._push_free, now)
            self._push_free = self.push_end[index] = self.start[index] + self._push[index]
            self.pull_start[index] = max(self._push_free, self._pull_free)
            self._pull_free = self.end[index] = self.pull_start[index] + self._pull[index]
            self._handed.append((self._push_free, self._sizes[index]))
            self._handed_bytes += self._sizes[index]
            self.order.append(index)


def run_priority(
    gaps: Sequence[float],
    updates: Sequence[float],
    forwards: Sequence[float],
    first: Sequence[int],
    last: Sequence[int],
    sizes: Sequence[float],
    credit: float,
    encode: Sequence[float],
    push: Sequence[float],
    pull: Sequence[float],
    decode: Sequence[float],
) -> PriorityRun:
    """Run a backward pass and the next forward pass, the most urgent message first, `credit` bytes handed over at most.

    `updates` and `forwards` are the seconds of each tensor's update and, right after it, its forward task; the pass
    goes from the last tensor to the first, and an update waits until all messages that carry its tensor are decoded.
    Message m carries the tensors first[m] to last[m]. A push leaves the credit when it ends. At the end of that forward
    pass nothing is left on the wire or to decode, so every step begins in the same state: its length is the
    steady-state period.
    """
    tensors, count = len(gaps), len(last)
    wire = _PriorityWire(sizes, last, credit, push, pull)
    backward_end, forward_end = [0.0] * tensors, [0.0] * tensors
    ready, encoded, decoded = [0.0] * count, [0.0] * count, [0.0] * count
    missing = [0] * tensors
    for message in range(count):
        for tensor in range(first[message], last[message] + 1):
            missing[tensor] += 1
    now = 0.0
    offered = back = task = 0  # messages encoded, messages decoded, tasks of both passes done
    while task < 2 * tensors:
        if task < tensors:
            wire.run(now, now + gaps[task] > now)  # with no gap, more may be ready at this very instant
        elif task == tensors:
            wire.run(float("inf"), True)
        arrived = back < len(wire.order) and wire.end[wire.order[back]] <= now
        if arrived:
            message = wire.order[back]
            now += decode[message]
            decoded[message] = now
            for tensor in range(first[message], last[message] + 1):
                missing[tensor] -= 1
            back += 1
        elif task < tensors:
            now += gaps[task]
            backward_end[task] = now
            while offered < count and last[offered] == task:
                ready[offered] = backward_end[task]
                now += encode[offered]
                encoded[offered] = now
                wire.offer(offered, now)
                offered += 1
            task += 1
        elif missing[tensor := 2 * tensors - 1 - task] == 0:
            now = now + updates[tensor] + forwards[tensor]
            forward_end[tensor] = now
            task += 1
        else:
            now = wire.end[wire.order[back]]
    return PriorityRun(
        backward_end,
        forward_end,
        ready,
        encoded,
        wire.start,
        wire.push_end,
        wire.pull_start,
        wire.end,
        decoded,
        wire.order,
    )
