"""What a compressor makes of one tensor: buffers that are handed to a collective as they are, and nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

#: How payloads meet: summed by an all-reduce, gathered by everyone, merged in gTop-k's tree, or counted as votes.
Travel = Literal["all-reduce", "all-gather", "gtopk-tree", "vote"]


@dataclass(frozen=True, slots=True)
class Payload:
    """The buffers of one encoded tensor, each one-dimensional and contiguous: packed bits, indices, values, scales.

    `known` is what every worker knows without being sent it, such as the places that a shared seed draws.
    """

    buffers: tuple[Tensor, ...]
    known: tuple[Tensor, ...] = ()

    @property
    def nbytes(self) -> int:
        """Bytes on the wire: those of all buffers."""
        return sum(buffer.numel() * buffer.element_size() for buffer in self.buffers)


def to_bytes(payloads: Sequence[Payload]) -> Tensor:
    """Return one message of bytes: the buffers of all payloads end to end, without padding or headers."""
    buffers = [buffer.view(torch.uint8) for payload in payloads for buffer in payload.buffers]
    return torch.cat(buffers) if buffers else torch.empty(0, dtype=torch.uint8)


def from_bytes(message: Tensor, like: Sequence[Payload]) -> list[Payload]:
    """Cut a message into payloads like those of `like`: the same lengths and types, and the same is known of them."""
    payloads, at = [], 0
    for payload in like:
        buffers = []
        for buffer in payload.buffers:
            size = buffer.numel() * buffer.element_size()
            # A copy starts at an address that suits every type.
            buffers.append(message[at : at + size].clone().view(buffer.dtype))
            at += size
        payloads.append(Payload(tuple(buffers), payload.known))
    return payloads
