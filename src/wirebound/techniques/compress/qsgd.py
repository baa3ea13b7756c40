"""QSGD (Alistarh et al., NeurIPS 2017): levels of a bucket's Euclidean norm, rounded at random; unbiased.

Per bucket v of the flat tensor: level = ⌊s·abs(v)/‖v‖₂ + u⌋ with u uniform in [0, 1), which is the level below, plus
one with the probability of the fraction; the decoded value is sign(v)·‖v‖₂·level/s.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from wirebound.errors import InputError
from wirebound.techniques.compress import fused, random
from wirebound.techniques.compress.gradient import empty, filled, finite_scale, finite_values
from wirebound.techniques.compress.payload import Payload, Travel
from wirebound.techniques.compress.state import Draws

#: Elements that share a norm unless asked otherwise (Alistarh et al., 4 bits).
BUCKET = 512


@dataclass(frozen=True, slots=True)
class Qsgd:
    """Wire: an fp32 norm for each bucket, then sign and level packed in 1 + ⌈log2(s+1)⌉ bits, whole bytes a bucket.

    Fields are of fixed width, without the paper's Elias code; the sign is the lowest bit.
    """

    levels: int
    bucket: int = BUCKET

    travels: ClassVar[Travel] = "all-gather"

    def __post_init__(self) -> None:
        for name, value in (("levels", self.levels), ("bucket", self.bucket)):
            if not 1 <= value <= 1_000_000:
                raise InputError(f"qsgd: {name} = {value} must be between 1 and 1,000,000")

    @property
    def bits(self) -> int:
        """Bits of one field: ⌈log2(s+1)⌉ is the bits of s."""
        return 1 + self.levels.bit_length()

    def new_state(self, seed: int, worker: int, tensor: int) -> Draws:
        return Draws(seed, worker, tensor)

    def encode(self, tensor: Tensor, state: Draws) -> Payload:
        values = finite_values(tensor)
        buckets, size = self._buckets(values.numel()), self._packed_bytes(values.numel())
        kernels = fused.kernels_for(values)
        if kernels is None:
            norms, packed = self._encoded(values, state.stream, buckets)
            packed = packed[:size]
        else:
            norms, packed = torch.empty(buckets), torch.empty(size, dtype=torch.uint8)
            settings = (self.levels, self.bits, self.bucket, random.stream_words(state.stream))
            arguments = (values.numpy(), *settings, norms.numpy(), packed.numpy())
            fused.in_pieces(kernels.qsgd_encode, arguments, buckets, values.numel())
        finite_scale(norms)
        state.step += 1
        return Payload((norms, packed))

    def decode(self, payload: Payload, shape: Sequence[int], out: Tensor | None = None) -> Tensor:
        norms, packed = payload.buffers
        elements = torch.Size(shape).numel()
        kernels = fused.kernels_for(packed)
        if kernels is not None:
            values = empty(shape, out, packed.device)
            settings = (self.levels, self.bits, self.bucket)
            arguments = (norms.numpy(), packed.numpy(), *settings, values.numpy())
            fused.in_pieces(kernels.qsgd_decode, arguments, norms.numel(), elements)
            return values.view(tuple(shape))
        row = self._packed_bytes(self.bucket)
        rows = pad(packed, (0, row * norms.numel() - packed.numel())).view(norms.numel(), row)
        # Whole bytes a bucket: unpack each row by itself.
        fields = self._unpacked(rows)
        magnitudes = (norms / self.levels)[:, None] * (fields >> 1)
        return filled(torch.where(fields & 1 > 0, -magnitudes, magnitudes).view(-1)[:elements], shape, out)

    def _encoded(self, values: Tensor, stream: random.Stream, buckets: int) -> tuple[Tensor, Tensor]:
        """Norms, and the packed fields of all buckets as if the last one were whole."""
        whole = (0, buckets * self.bucket - values.numel())
        rows = pad(values, whole).view(buckets, self.bucket)
        norms = rows.double().square().sum(1).sqrt().float()
        numbers = pad(random.uniform(values.numel(), stream, values.device), whole).view(buckets, self.bucket)
        divisors = torch.where(norms > 0, norms, 1.0)[:, None]
        levels = (rows.abs() / divisors * self.levels + numbers).int().clamp(max=self.levels)
        fields = (levels << 1) | (rows < 0).int()
        size = self._packed_bytes(self.bucket)
        digits = (fields[:, :, None] >> torch.arange(self.bits, device=values.device)) & 1
        digits = pad(digits.flatten(1), (0, 8 * size - self.bucket * self.bits))
        packed = (digits.view(buckets, size, 8) << torch.arange(8, device=values.device)).sum(2)
        return norms, packed.to(torch.uint8).view(-1)

    def _unpacked(self, rows: Tensor) -> Tensor:
        digits = (rows.int()[:, :, None] >> torch.arange(8, device=rows.device)) & 1
        digits = digits.flatten(1)[:, : self.bucket * self.bits].reshape(len(rows), self.bucket, self.bits)
        return (digits << torch.arange(self.bits, device=rows.device)).sum(2)

    def _buckets(self, elements: int) -> int:
        return -(-elements // self.bucket)

    def _packed_bytes(self, elements: int) -> int:
        whole, rest = divmod(elements, self.bucket)
        return whole * -(-self.bucket * self.bits // 8) + -(-rest * self.bits // 8)
