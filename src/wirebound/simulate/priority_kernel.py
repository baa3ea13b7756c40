"""The order of transfers by priority, and the wait of the next forward pass: leaf functions over sequences."""

import heapq
from collections.abc import MutableSequence, Sequence


def priority_order(
    ready: Sequence[float], urgency: Sequence[int], sizes: Sequence[float], seconds: Sequence[float], credit: float
) -> list[tuple[int, float, float]]:
    """Return (index, start s, end s) of every partition in the order in which it is sent.

    Partitions are numbered in the order in which they become `ready`; of those that wait, the one of the highest
    `urgency` goes first, then the one of the lowest index. One takes `seconds` on the wire. At most `credit` bytes of
    them are handed over but unfinished, and what was handed over goes first come, first served; one is always let in
    when the transport is idle. What happens at the same instant counts before the next partition is chosen.
    """
    count = len(ready)
    waiting = [0 for _ in range(0)]  # a heap of index − urgency·count; the comprehension gives a compiler its type
    sent: list[tuple[int, float, float]] = []
    arrived = 0
    finished = 0  # how many of `sent` the transport is done with
    handed_bytes = 0.0
    free_s = 0.0
    while len(sent) < count:
        now = ready[arrived] if arrived < count else float("inf")
        if finished < len(sent) and sent[finished][2] < now:
            now = sent[finished][2]
        while finished < len(sent) and sent[finished][2] <= now:
            handed_bytes -= sizes[sent[finished][0]]
            finished += 1
        if finished == len(sent):
            handed_bytes = 0.0  # no rounding is left over
        while arrived < count and ready[arrived] <= now:
            heapq.heappush(waiting, arrived - urgency[arrived] * count)
            arrived += 1
        while len(waiting) > 0:
            index = waiting[0] % count
            if finished < len(sent) and handed_bytes + sizes[index] > credit:
                break
            heapq.heappop(waiting)
            start_s = max(free_s, now)
            free_s = start_s + seconds[index]
            handed_bytes += sizes[index]
            sent.append((index, start_s, free_s))
    return sent


def forward_end_s(
    arrived: MutableSequence[float],
    sizes: Sequence[float],
    forward_gaps: Sequence[float],
    optimizer_s: float,
    begin_s: float,
) -> float:
    """Return when a forward pass ends that begins at `begin_s` and waits, layer by layer, for the gradients' arrival.

    Gradients are in backward order, so the last one's layer comes first. The optimizer's seconds are shared out by
    bytes and spent on each tensor right before its layer, which takes `forward_gaps` seconds. In `arrived` the end of
    each layer takes the place of its gradient's arrival.
    """
    size = 0.0
    for index in range(len(sizes)):
        size += sizes[index]
    now = begin_s
    for index in range(len(sizes) - 1, -1, -1):
        now = max(now, arrived[index]) + optimizer_s * sizes[index] / size + forward_gaps[index]
        arrived[index] = now
    return now
