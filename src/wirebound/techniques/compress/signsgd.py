"""signSGD with majority vote (Bernstein et al., ICML 2018 and ICLR 2019): the sign that most workers have.

Two rules that the papers leave open: the sign of 0, and of a tied vote in a world of even size, is + where element
number + step number is even, else −. All workers apply the same rule to the same votes, and over the steps neither
sign is favoured: always choosing + would push every element that nobody has an opinion on upwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from wirebound.techniques.compress import fused
from wirebound.techniques.compress.gradient import empty, flat_values, refuse
from wirebound.techniques.compress.payload import Payload, Travel
from wirebound.techniques.compress.state import State


@dataclass(slots=True)
class Steps(State):
    """How often encode was called."""

    step: int = 0


@dataclass(frozen=True, slots=True)
class SignSgd:
    """Wire: ⌈d/8⌉ bytes of signs, 1 for +. Decoded values are −1 and 1: the learning rate is the length of a step."""

    travels: ClassVar[Travel] = "vote"

    def new_state(self, seed: int, worker: int, tensor: int) -> Steps:
        return Steps()

    def encode(self, tensor: Tensor, state: Steps) -> Payload:
        values = flat_values(tensor)
        signs, unusable = fused.pack_signs(values, state.step)
        if unusable:
            refuse(values)
        state.step += 1
        return Payload((signs,))

    def decode(self, payload: Payload, shape: Sequence[int], out: Tensor | None = None) -> Tensor:
        values = empty(shape, out, payload.buffers[0].device)
        fused.unpack_signs(payload.buffers[0], -1.0, 1.0, values)
        return values.view(tuple(shape))

    def vote(self, payloads: Sequence[Payload], shape: Sequence[int], step: int) -> Payload:
        """Return the majority of all workers' payloads of one step, encoded as they are."""
        votes = torch.stack([self.decode(payload, shape) for payload in payloads]).sum(0)
        signs, _ = fused.pack_signs(votes.reshape(-1), step)
        return Payload((signs,))
