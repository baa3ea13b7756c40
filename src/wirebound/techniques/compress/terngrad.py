"""TernGrad (Wen et al., NeurIPS 2017): −1, 0 or 1 times one scale, chosen at random; unbiased.

g is clipped at 2.5 standard deviations, the scale s is the largest magnitude left, and sign(g)·s is sent with the
probability abs(g)/s, else 0. With one scale for all workers, the largest of theirs, ternary values may be summed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from wirebound.techniques.compress import fused, random
from wirebound.techniques.compress.gradient import empty, filled, finite_values
from wirebound.techniques.compress.payload import Payload, Travel
from wirebound.techniques.compress.state import Draws

#: Standard deviations beyond which values are clipped.
CLIP = 2.5
_WORD_BITS = 64


def clip_limit(values: Tensor) -> Tensor:
    """Return 2.5 standard deviations, or the largest magnitude if that is less, shape (1,): the scale of the tensor.

    Deviations are taken of values divided by the largest: squares would overflow at 10²⁰ and vanish at 10⁻²⁵.
    """
    if values.numel() == 0:
        return values.new_zeros(1)
    low, high = values.aminmax()
    largest = torch.maximum(-low, high)
    if float(largest) == 0:
        return values.new_zeros(1)
    mean, square = _moments(values, largest) / values.numel()
    deviation = (square - mean * mean).clamp(min=0).sqrt().float() * largest
    # A tensor of equal values deviates by nothing and has no outliers.
    limit = torch.where(deviation > 0, torch.minimum(CLIP * deviation, largest), largest)
    return limit.view(1)


def _moments(values: Tensor, divisor: Tensor) -> Tensor:
    """Sums of value ÷ divisor and of its square, in double precision, shape (2,)."""
    kernels = fused.kernels_for(values)
    if kernels is None:
        scaled = (values / divisor).double()
        return torch.stack([scaled.sum(), scaled.square().sum()])
    blocks = -(-values.numel() // kernels.BLOCK)
    found = torch.zeros(blocks, 2, dtype=torch.float64)
    fused.in_pieces(kernels.moments, (values.numpy(), divisor.numpy()[()], found.numpy()), blocks, values.numel())
    return found.sum(0)


def _ternary(values: Tensor, limit: Tensor, scale: Tensor, stream: random.Stream) -> Tensor:
    """−1, 0 or 1 for each value, clipped at the limit, which is at most the scale."""
    chance = values.abs().clamp(max=limit) / torch.where(scale > 0, scale, 1.0)
    chosen = random.uniform(values.numel(), stream, values.device) < chance
    return (chosen * values.sign()).to(torch.int8)


@dataclass(frozen=True, slots=True)
class TernGrad:
    """Wire: an fp32 scale, then 2 bits a value, rounded up to bytes: 0, 1, 2 for −1, 0, 1."""

    travels: ClassVar[Travel] = "all-gather"

    def new_state(self, seed: int, worker: int, tensor: int) -> Draws:
        return Draws(seed, worker, tensor)

    def encode(self, tensor: Tensor, state: Draws) -> Payload:
        values = finite_values(tensor)
        scale = clip_limit(values)
        kernels = fused.kernels_for(values)
        if kernels is None:
            packed = fused.pack_fields((_ternary(values, scale, scale, state.stream) + 1).to(torch.uint8), 2)
        else:
            packed = torch.empty(-(-values.numel() // 4), dtype=torch.uint8)
            words = random.stream_words(state.stream)
            arguments = (values.numpy(), scale.numpy()[0], words, packed.numpy())
            fused.in_pieces(kernels.ternary, arguments, -(-values.numel() // kernels.BLOCK), values.numel())
        state.step += 1
        return Payload((scale, packed))

    def decode(self, payload: Payload, shape: Sequence[int], out: Tensor | None = None) -> Tensor:
        scale, packed = payload.buffers
        kernels = fused.kernels_for(packed)
        if kernels is None:
            fields = fused.unpack_fields(packed, 2, torch.Size(shape).numel())
            return filled((fields - 1) * scale, shape, out)
        values = empty(shape, out, packed.device)
        blocks = -(-values.numel() // kernels.BLOCK)
        arguments = (packed.numpy(), scale.numpy()[0], values.numpy())
        fused.in_pieces(kernels.ternary_decode, arguments, blocks, values.numel())
        return values.view(tuple(shape))


@dataclass(frozen=True, slots=True)
class TernGradShared:
    """TernGrad for an all-reduce: the workers first agree on the scale, then sum fields of packed words.

    Wire: an fp32 scale (all-reduced with MAX), then 64-bit words (all-reduced with SUM). The sum of P ternary values,
    each sent as 0, 1 or 2, is at most 2P, so a field of ⌈log2(2P+1)⌉ bits never carries into its neighbour; a field
    lies within one word, for words are added one by one.
    """

    workers: int

    travels: ClassVar[Travel] = "all-reduce"

    @property
    def bits(self) -> int:
        """Bits of one field."""
        return max(2, (2 * self.workers).bit_length())  # ⌈log2(2P+1)⌉ is the bits of 2P

    @property
    def fields_per_word(self) -> int:
        """Whole fields in a word; the top bit may be one of them, for sums wrap around as those of unsigned words."""
        return _WORD_BITS // self.bits

    def new_state(self, seed: int, worker: int, tensor: int) -> Draws:
        return Draws(seed, worker, tensor)

    def scale(self, tensor: Tensor) -> Tensor:
        """Return this worker's scale, shape (1,); the one to encode with is the largest of all workers'."""
        return clip_limit(finite_values(tensor))

    def encode(self, tensor: Tensor, state: Draws, scale: Tensor | None = None) -> Payload:
        """Encode with the scale of all workers, or this worker's own if it is alone."""
        values = finite_values(tensor)
        own = clip_limit(values)
        scale = own if scale is None else scale.view(1)
        fields = _ternary(values, own, scale, state.stream).long() + 1
        state.step += 1
        words = -(-fields.numel() // self.fields_per_word)
        padded = fields.new_zeros(words * self.fields_per_word)
        padded[: fields.numel()] = fields
        places = self.bits * torch.arange(self.fields_per_word, device=fields.device)
        return Payload((scale.clone(), (padded.view(words, self.fields_per_word) << places).sum(1)))

    def decode(self, payload: Payload, shape: Sequence[int], out: Tensor | None = None) -> Tensor:
        """Return the sum of as many workers' gradients as `workers` says, from the sum of their words."""
        scale, words = payload.buffers
        places = self.bits * torch.arange(self.fields_per_word, device=words.device)
        fields: Tensor = (words[:, None] >> places) & (2**self.bits - 1)
        sums = fields.view(-1)[: torch.Size(shape).numel()] - self.workers
        return filled(sums * scale, shape, out)
