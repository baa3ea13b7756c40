"""Top-k with error feedback (Aji and Heafield, EMNLP 2017; Stich et al., NeurIPS 2018): the largest magnitudes.

p = g + e;  C(p) = the k values of p of largest magnitude;  e ← p − C(p).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from wirebound.techniques.compress.gradient import checked_share, finite_values, kept, scattered
from wirebound.techniques.compress.payload import Payload, Travel
from wirebound.techniques.compress.state import Residual


@dataclass(frozen=True, slots=True)
class TopK:
    """Wire: ⌈share · d⌉ int32 indices of the flat tensor, then as many values in the gradient's own type."""

    share: float
    #: Without error feedback what is not sent is forgotten.
    error_feedback: bool = True

    travels: ClassVar[Travel] = "all-gather"

    def __post_init__(self) -> None:
        checked_share(self.share)

    def new_state(self, seed: int, worker: int, tensor: int) -> Residual:
        return Residual()

    def encode(self, tensor: Tensor, state: Residual) -> Payload:
        gradient = finite_values(tensor)
        p = gradient.clone() if state.residual is None else state.residual.add_(gradient)
        places = torch.topk(p.abs(), kept(self.share, p.numel()), sorted=False).indices
        values = p[places].to(tensor.dtype)
        p[places] -= values  # what rounding to the gradient's type lost is kept as well
        state.residual = p if self.error_feedback else None
        return Payload((places.int(), values))

    def decode(self, payload: Payload, shape: Sequence[int], out: Tensor | None = None) -> Tensor:
        return scattered(payload.buffers[0], payload.buffers[1], shape, out)
