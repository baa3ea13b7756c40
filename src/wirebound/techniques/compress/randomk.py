"""Random-k (Stich et al., NeurIPS 2018): k values at random places, with error feedback.

A seed that all workers share draws the places anew in every step, so indices need not be sent and values may be summed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from wirebound.techniques.compress import random
from wirebound.techniques.compress.gradient import checked_share, finite_values, kept, scattered
from wirebound.techniques.compress.payload import Payload, Travel
from wirebound.techniques.compress.state import ResidualDraws

#: Stands for all workers where the random numbers of a worker are asked for.
EVERYBODY = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class RandomK:
    """Wire: ⌈share · d⌉ values in the gradient's own type."""

    share: float
    #: Without error feedback what is not sent is forgotten.
    error_feedback: bool = True

    travels: ClassVar[Travel] = "all-reduce"

    def __post_init__(self) -> None:
        checked_share(self.share)

    def new_state(self, seed: int, worker: int, tensor: int) -> ResidualDraws:
        return ResidualDraws(seed, EVERYBODY, tensor)

    def encode(self, tensor: Tensor, state: ResidualDraws) -> Payload:
        gradient = finite_values(tensor)
        p = gradient.clone() if state.residual is None else state.residual.add_(gradient)
        places = random.distinct(kept(self.share, p.numel()), p.numel(), state.stream, p.device)
        values = p[places].to(tensor.dtype)
        p[places] -= values
        state.residual = p if self.error_feedback else None
        state.step += 1
        return Payload((values,), (places,))

    def decode(self, payload: Payload, shape: Sequence[int], out: Tensor | None = None) -> Tensor:
        return scattered(payload.known[0], payload.buffers[0], shape, out)
