"""gTop-k (Shi et al., ICDCS 2019): a tree of pairwise merges keeps the k largest sums of all workers' Top-k.

Up: in round r worker w with w mod 2^(r+1) = 2^r sends its set to worker w − 2^r, which adds both and keeps the k
largest. Down: the final set goes back the same way. A value that some merge rejects returns to the residual of the
worker whose gradient it came from, exactly: on the way down a receiver learns, by the otherwise unused top bit of an
index, which of the final places its own set had been rejected at; at all other places outside the final set it knows.
(The published program looks only at the final set, and loses what was rejected on the way at a place of that set.)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from wirebound.techniques.compress.gradient import scattered
from wirebound.techniques.compress.payload import Payload, Travel
from wirebound.techniques.compress.state import Residual
from wirebound.techniques.compress.topk import TopK

#: The top bit of an int32 index: set on the way down where a receiver's set had been rejected at that place.
FLAG = -(2**31)


class Merged(NamedTuple):
    """One merge: the payload that goes on, and the places at which the two sets were rejected."""

    payload: Payload
    rejected: Tensor


@dataclass(frozen=True, slots=True)
class GTopK:
    """Wire, each hop: ⌈share · d⌉ int32 indices, then as many values in the gradient's own type."""

    share: float

    travels: ClassVar[Travel] = "gtopk-tree"

    def __post_init__(self) -> None:
        TopK(self.share)

    def new_state(self, seed: int, worker: int, tensor: int) -> Residual:
        return Residual()

    def encode(self, tensor: Tensor, state: Residual) -> Payload:
        """Return this worker's own Top-k, as `topk` does."""
        return TopK(self.share).encode(tensor, state)

    def decode(self, payload: Payload, shape: Sequence[int], out: Tensor | None = None) -> Tensor:
        """Return the sum over workers that a final payload holds; flags of places are ignored."""
        places, values = payload.buffers
        return scattered(places & ~FLAG, values, shape, out)


def merge(ours: Payload, theirs: Payload) -> Merged:
    """Add two sets of places and values and keep as many of the largest sums as one set has.

    Among equal magnitudes `torch.topk` decides, once for all workers, as the result is sent to them.
    """
    places = torch.cat([ours.buffers[0], theirs.buffers[0]])
    union, which = torch.unique(places, return_inverse=True)
    sums = torch.zeros(len(union), device=places.device)
    sums.index_add_(0, which, torch.cat([ours.buffers[1], theirs.buffers[1]]).float())
    chosen = torch.topk(sums.abs(), len(ours.buffers[0]), sorted=False).indices
    out = torch.ones(len(union), dtype=torch.bool, device=places.device)
    out[chosen] = False
    values = sums[chosen].to(ours.buffers[1].dtype)
    return Merged(Payload((union[chosen].int(), values)), union[out])
