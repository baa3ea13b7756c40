"""EF-signSGD (Karimireddy et al., ICML 2019): signs with the mean magnitude as scale, and error feedback.

p = g + e;  C(p) = (‖p‖₁/d)·sign(p);  e ← p − C(p), scale included. The sign of 0 is +: what that adds, e takes back.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from wirebound.techniques.compress import fused
from wirebound.techniques.compress.gradient import empty, finite_scale, finite_values, flat_values, refuse
from wirebound.techniques.compress.payload import Payload, Travel
from wirebound.techniques.compress.state import State


@dataclass(slots=True)
class Corrected(State):
    """The last p and its scale, from which e follows: one pass over memory then makes the next p."""

    corrected: Tensor | None = None
    scale: Tensor | None = None

    @property
    def residual(self) -> Tensor | None:
        """Return e = p − scale·sign(p), None before the first step."""
        if self.corrected is None or self.scale is None:
            return None
        return _residual(self.corrected, self.scale)


def _residual(p: Tensor, scale: Tensor) -> Tensor:
    return p - torch.where(p >= 0, scale, -scale)


@dataclass(frozen=True, slots=True)
class EfSignSgd:
    """Wire: an fp32 scale, then ⌈d/8⌉ bytes of signs, 1 for +."""

    #: Without error feedback what is not sent is forgotten.
    error_feedback: bool = True

    travels: ClassVar[Travel] = "all-gather"

    def new_state(self, seed: int, worker: int, tensor: int) -> Corrected:
        return Corrected()

    def encode(self, tensor: Tensor, state: Corrected) -> Payload:
        kernels = fused.kernels_for(tensor)
        gradient = finite_values(tensor) if kernels is None else flat_values(tensor)
        if state.corrected is None or state.scale is None:
            state.corrected, state.scale = torch.zeros_like(gradient), gradient.new_zeros(1)
        if kernels is None:
            p = gradient + _residual(state.corrected, state.scale)
            total = p.abs().sum(dtype=torch.float64)
            bits = fused.pack_flags(p >= 0)
        else:
            p = state.corrected
            blocks = -(-p.numel() // kernels.BLOCK)
            bits, sums = torch.empty(-(-p.numel() // 8), dtype=torch.uint8), torch.zeros(blocks, dtype=torch.float64)
            last_scale = state.scale.numpy()[0]
            arguments = (gradient.numpy(), p.numpy(), last_scale, bits.numpy(), sums.numpy())
            fused.in_pieces(kernels.ef_sign, arguments, blocks, p.numel())
            if bool(sums.isnan().any()):  # take back what was done: where p is g + e, p − g is e but for a rounding
                untouched = sums.isnan().repeat_interleave(kernels.BLOCK)[: p.numel()]
                state.corrected = torch.where(untouched, _residual(p, state.scale), p - gradient)
                state.scale = gradient.new_zeros(1)
                refuse(gradient)
            total = sums.sum()
        scale = finite_scale((total / max(1, p.numel())).float().view(1))
        state.corrected, state.scale = (p, scale.clone()) if self.error_feedback else (None, None)
        return Payload((scale, bits))

    def decode(self, payload: Payload, shape: Sequence[int], out: Tensor | None = None) -> Tensor:
        scale, bits = payload.buffers
        values = empty(shape, out, bits.device)
        fused.unpack_signs(bits, -float(scale), float(scale), values)
        return values.view(tuple(shape))
