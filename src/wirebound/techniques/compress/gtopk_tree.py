"""gTop-k's exchange: sets of values go up a binomial tree and are merged, the final set comes down.

Works for any number of workers; with P of them the longest way is ⌈log2 P⌉ hops up and as many down.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from wirebound.techniques.compress.gtopk import FLAG, merge
from wirebound.techniques.compress.payload import Payload, from_bytes, to_bytes


def children(worker: int, workers: int) -> Iterator[int]:
    """Yield the workers that a worker receives sets from, one for each round that it is still in."""
    stride = 1
    while worker % (2 * stride) == 0 and stride < workers:
        if worker + stride < workers:
            yield worker + stride
        stride *= 2


def parent(worker: int) -> int | None:
    """Return the worker that takes over this one's set: its number without the lowest bit. None for worker 0."""
    return worker & (worker - 1) if worker else None


def exchange(payloads: Sequence[Payload], residuals: Sequence[Tensor], group: Any = None) -> tuple[list[Payload], int]:
    """Merge the payloads (one for each tensor) of all workers; return the final ones and the bytes that we sent.

    Each worker's own values that were rejected anywhere are added back to its `residuals`. Waits for every hop.
    """
    worker, workers = dist.get_rank(group), dist.get_world_size(group)
    sent = 0
    merged = list(payloads)
    # By child, then by tensor: places at which its set was rejected; and places at which our own was.
    rejected: list[tuple[int, list[Tensor]]] = []
    own: list[list[Tensor]] = [[] for _ in payloads]
    for child in children(worker, workers):
        theirs = _received(payloads, child, group)
        lost = []
        for number, (mine, other) in enumerate(zip(merged, theirs, strict=True)):
            merged[number], places = merge(mine, other)
            lost.append(places)
            own[number].append(places)
            # What an earlier child had at these places is gone as well.
            for _, before in rejected:
                before[number] = torch.cat([before[number], places])
        rejected.append((child, lost))
    above = parent(worker)
    if above is not None:
        sent += _send(merged, above, group)
        merged = _received(payloads, above, group)
    for child, lost in reversed(rejected):
        sent += _send([flagged(final, places) for final, places in zip(merged, lost, strict=True)], child, group)
    for payload, final, lost_places, residual in zip(payloads, merged, own, residuals, strict=True):
        ours = flagged(final, torch.cat([lost.int() for lost in lost_places])) if lost_places else final
        back = ~accepted(payload.buffers[0], ours)
        residual[payload.buffers[0][back].long()] += payload.buffers[1][back].float()
    return merged, sent


def flagged(final: Payload, rejected: Tensor) -> Payload:
    """Set the top bit of the final places at which a set was rejected on the way; bits that are set stay."""
    places, values = final.buffers
    lost = torch.isin(places & ~FLAG, rejected)
    return Payload((torch.where(lost, places | FLAG, places), values))


def accepted(places: Tensor, final: Payload) -> Tensor:
    """Return for each of a worker's places whether its value is in the final sums."""
    final_places = final.buffers[0]
    return torch.isin(places, final_places[final_places >= 0])


def _send(payloads: Sequence[Payload], to: int, group: Any) -> int:
    message = to_bytes(payloads)
    if message.numel():
        dist.send(message, group_dst=to, group=group)
    return message.numel()


def _received(like: Sequence[Payload], sender: int, group: Any) -> list[Payload]:
    message = torch.empty(sum(payload.nbytes for payload in like), dtype=torch.uint8, device=like[0].buffers[0].device)
    if message.numel():
        dist.recv(message, group_src=sender, group=group)
    return from_bytes(message, like)
