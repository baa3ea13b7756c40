"""Probabilistic quantization (Konečný et al. 2016; Suresh et al., ICML 2017): a few bits between minimum and maximum.

Per bucket with minimum a and maximum b: level = ⌊(v − a)/(b − a)·(2^bits − 1) + u⌋ with u uniform in [0, 1); the
decoded value is a + (b − a)·level/(2^bits − 1), which is unbiased. The error grows with b − a, so a rotation, which
makes all elements about equally large, makes it smaller where few elements are large.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from wirebound.errors import InputError
from wirebound.techniques.compress import fused
from wirebound.techniques.compress.payload import Payload
from wirebound.techniques.federated.rotation import BLOCK, rotate, rotate_back
from wirebound.techniques.federated.streams import CODE, PLACES, generator


@dataclass(frozen=True, slots=True)
class Quantize:
    """Wire: fp32 minima, fp32 maxima of the buckets of 512, then the levels packed in `bits` each.

    With `rotated` the vector is rotated first, and all of the last bucket is sent.
    """

    bits: int
    rotated: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= 8:
            raise InputError(f"quantize: bits = {self.bits} must be between 1 and 8")

    def encode(self, vector: Tensor, stream: tuple[int, int, int]) -> Payload:
        """Encode a vector with the random numbers of (seed, round, client)."""
        if self.rotated:
            vector = rotate(vector, _rotation(stream))
        filled = pad(vector[None], (0, -len(vector) % BLOCK), mode="replicate").view(-1, BLOCK)
        low, high = filled.amin(1), filled.amax(1)
        scale = ((1 << self.bits) - 1) / torch.where(high > low, high - low, 1.0)
        numbers = torch.rand(filled.shape, generator=generator(stream[0], CODE, *stream[1:]))
        levels = ((filled - low[:, None]) * scale[:, None] + numbers).int().clamp_(max=(1 << self.bits) - 1)
        fields = levels.view(-1)[: len(vector)].contiguous()
        return Payload((low, high, fused.pack_fields(fields, self.bits)))

    def decode(self, payload: Payload, elements: int, stream: tuple[int, int, int]) -> Tensor:
        """Return the vector of `elements` that a payload of the same stream stands for."""
        low, high, packed = payload.buffers
        sent = BLOCK * len(low) if self.rotated else elements
        levels = fused.unpack_fields(packed, self.bits, sent)
        filled = pad(levels, (0, -sent % BLOCK)).view(-1, BLOCK)
        values = low[:, None] + ((high - low) / ((1 << self.bits) - 1))[:, None] * filled
        values = values.view(-1)[:sent]
        return rotate_back(values, elements, _rotation(stream)) if self.rotated else values


def _rotation(stream: tuple[int, int, int]) -> torch.Generator:
    return generator(stream[0], PLACES, *stream[1:])
