"""16-bit floats: fp16 keeps 11 bits of precision, bf16 the range of fp32 with 8 bits."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from wirebound.errors import WireboundError
from wirebound.techniques.compress.gradient import finite_values
from wirebound.techniques.compress.payload import Payload, Travel
from wirebound.techniques.compress.state import State


@dataclass(frozen=True, slots=True)
class _Half:
    """Wire: 2 bytes for each value. Payloads may be summed, in their own type, if they were divided before."""

    travels: ClassVar[Travel] = "all-reduce"
    dtype: ClassVar[torch.dtype] = torch.float16

    def new_state(self, seed: int, worker: int, tensor: int) -> State:
        return State()

    def encode(self, tensor: Tensor, state: State) -> Payload:
        """Round every value to the nearest; raises `WireboundError` where one exceeds what the type can hold."""
        values = finite_values(tensor)
        rounded = values.to(self.dtype)
        # Summing what is left of x − x finds infinities in one pass over half the bytes.
        if not bool(torch.isfinite((rounded - rounded).sum())):
            most = torch.finfo(self.dtype).max
            raise WireboundError(f"the gradient has values beyond {most:g}, the largest of {self.dtype}: use bf16")
        return Payload((rounded,))

    def decode(self, payload: Payload, shape: Sequence[int]) -> Tensor:
        return payload.buffers[0].float().view(tuple(shape))


@dataclass(frozen=True, slots=True)
class Fp16(_Half):
    """IEEE half precision: up to 65,504; below 6·10⁻⁸ nothing is left."""


@dataclass(frozen=True, slots=True)
class Bf16(_Half):
    """The upper 16 bits of fp32, rounded."""

    dtype: ClassVar[torch.dtype] = torch.bfloat16
