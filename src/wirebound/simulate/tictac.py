"""Pulls from parameter servers in the order of the next forward pass (TicTac, Hashemi et al. 2019).

There a step is a graph that begins with receiving all parameters and ends with sending all gradients. TIC ranks what is
received by dependency, TAC by how much computing it unlocks against how long it takes. In a chain of layers, which is
what a `Workload` is, both give the order of the forward pass.
"""

from collections.abc import Sequence

from wirebound.simulate.device import PriorityRun, run_fifo


def run_tictac(
    gaps: Sequence[float],
    updates: Sequence[float],
    forwards: Sequence[float],
    first: Sequence[int],
    last: Sequence[int],
    encode: Sequence[float],
    push: Sequence[float],
    pull: Sequence[float],
    decode: Sequence[float],
) -> PriorityRun:
    """Run a backward pass that pushes first come, first served, and the next forward pass, which pulls in its order.

    No pull begins before all pushes have ended and backward is over: the workers wait for each other there. Then the
    message with the last tensor is pulled first; a tensor's update and forward task wait until it is pulled and
    decoded. Arguments as in `device.run_priority`. Every step begins in the same state, so that the end of the forward
    pass is the steady-state period.
    """
    count = len(last)
    none = [0.0] * count
    sent = run_fifo(gaps, last, encode, push, none, none)
    wire = now = max(max(sent.backward_end[-1], sent.encoded[-1]), sent.push_end[-1])
    pull_start, end, decoded = list(none), list(none), list(none)
    forward_end = [0.0] * len(gaps)
    order = sorted(range(count), key=lambda message: (-last[message], message))
    for message in order:
        pull_start[message] = wire
        wire += pull[message]
        end[message] = wire
    position = 0
    for tensor in range(len(gaps) - 1, -1, -1):
        while position < count and last[order[position]] >= tensor:
            message = order[position]
            now = max(now, end[message]) + decode[message]
            decoded[message] = now
            position += 1
        now = now + updates[tensor] + forwards[tensor]
        forward_end[tensor] = now
    return PriorityRun(
        sent.backward_end,
        forward_end,
        sent.ready,
        sent.encoded,
        sent.start,
        sent.push_end,
        pull_start,
        end,
        decoded,
        list(range(count)),
    )
