"""1-bit SGD (Seide et al., Interspeech 2014): signs, and for each column the means of what is below 0 and what is not.

p = g + e;  C(p) = mean of p's column over p < 0, or over p ≥ 0;  e ← p − C(p).
What Seide et al. call a column, the weights of one output unit, is a row of our matrix; a vector is one column.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from wirebound.techniques.compress import fused
from wirebound.techniques.compress.gradient import empty, filled, finite_scale, finite_values, rows_and_columns
from wirebound.techniques.compress.payload import Payload, Travel
from wirebound.techniques.compress.state import Residual


@dataclass(frozen=True, slots=True)
class OneBit:
    """Wire: ⌈d/8⌉ bytes, a bit is 1 for a value of at least 0; then two fp32 means for each column."""

    #: Without error feedback what is not sent is forgotten.
    error_feedback: bool = True

    travels: ClassVar[Travel] = "all-gather"

    def new_state(self, seed: int, worker: int, tensor: int) -> Residual:
        return Residual()

    def encode(self, tensor: Tensor, state: Residual) -> Payload:
        gradient = finite_values(tensor)
        rows, columns = rows_and_columns(tensor.shape)
        p = torch.zeros_like(gradient) if state.residual is None else state.residual
        kernels = fused.kernels_for(gradient)
        if kernels is None:
            flags, means = self._split(p.add_(gradient).view(rows, columns))
        else:
            flags, means = torch.empty(p.numel(), dtype=torch.uint8), torch.empty(2, rows)
            arguments = (gradient.numpy(), p.numpy(), columns, means.numpy(), flags.numpy())
            fused.in_pieces(kernels.one_bit, arguments, rows, p.numel())
        finite_scale(means)
        state.residual = p if self.error_feedback else None
        return Payload((fused.pack_flags(flags.view(-1)), means.view(-1)))

    def decode(self, payload: Payload, shape: Sequence[int], out: Tensor | None = None) -> Tensor:
        bits, means = payload.buffers
        rows, columns = rows_and_columns(shape)
        low, high = means.view(2, rows, 1)
        kernels = fused.kernels_for(bits)
        if kernels is None:
            above = fused.unpack_fields(bits, 1, rows * columns).view(rows, columns) > 0
            return filled(torch.where(above, high, low), shape, out)
        values = empty(shape, out, bits.device)
        arguments = (bits.numpy(), means.view(2, rows).numpy(), columns, values.numpy())
        fused.in_pieces(kernels.one_bit_decode, arguments, rows, values.numel())
        return values.view(tuple(shape))

    @staticmethod
    def _split(p: Tensor) -> tuple[Tensor, Tensor]:
        """Which values are at least 0, and the means of both kinds, shape (2, rows); p keeps what they miss."""
        above = p >= 0
        counts = above.sum(1)
        high = p.clamp(min=0).sum(1, dtype=torch.float64) / counts.clamp(min=1)
        low = p.clamp(max=0).sum(1, dtype=torch.float64) / (p.shape[1] - counts).clamp(min=1)
        means = torch.stack([low, high]).float()
        p.sub_(torch.where(above, means[1][:, None], means[0][:, None]))
        return above, means
