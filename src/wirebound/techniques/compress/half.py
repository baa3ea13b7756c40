"""16-bit floats: fp16 keeps 11 bits of precision, bf16 the range of fp32 with 8 bits."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from wirebound.techniques.compress.gradient import filled, finite_values
from wirebound.techniques.compress.payload import Payload, Travel
from wirebound.techniques.compress.state import State


@dataclass(frozen=True, slots=True)
class _Half:
    """Wire: 2 bytes for each value. Payloads may be summed, in their own type, if they were divided before."""

    travels: ClassVar[Travel] = "all-reduce"
    dtype: ClassVar[torch.dtype] = torch.float16
    #: The largest fp32 number that is not rounded to infinity: just below half a step above the type's largest.
    largest: ClassVar[float] = math.nextafter(65_520.0, 0.0)

    def new_state(self, seed: int, worker: int, tensor: int) -> State:
        return State()

    def encode(self, tensor: Tensor, state: State) -> Payload:
        """Round every value to the nearest; raises `WireboundError` where one exceeds what the type can hold."""
        return Payload((finite_values(tensor, self.largest, self.dtype).to(self.dtype),))

    def decode(self, payload: Payload, shape: Sequence[int], out: Tensor | None = None) -> Tensor:
        return filled(payload.buffers[0], shape, out)


@dataclass(frozen=True, slots=True)
class Fp16(_Half):
    """IEEE half precision: up to 65,504; below 3·10⁻⁸ nothing is left."""


@dataclass(frozen=True, slots=True)
class Bf16(_Half):
    """The upper 16 bits of fp32, rounded."""

    dtype: ClassVar[torch.dtype] = torch.bfloat16
    largest: ClassVar[float] = (2 - 2.0**-8 - 2.0**-23) * 2.0**127
