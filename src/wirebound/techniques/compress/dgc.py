"""Deep gradient compression (Lin et al., ICLR 2018): Top-k of momentum that is gathered locally.

g is clipped to the norm N^(−1/2)·c;  u ← m·u + g;  v ← v + u;  the largest k of v are sent, and u and v are set to 0
there (masking). The optimizer must then be plain SGD, for the momentum is in u. Warm-up keeps 25, 6.25, 1.56, 0.4 % of
the values, a stage each, before the final share (0.1 % in the paper).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from wirebound.errors import InputError
from wirebound.techniques.compress import fused, random
from wirebound.techniques.compress.gradient import checked_share, finite_values, kept, scattered
from wirebound.techniques.compress.payload import Payload, Travel
from wirebound.techniques.compress.state import Draws

#: Shares of values kept in the stages of warm-up: 25, 6.25, 1.56 and 0.39 %.
WARM_UP = tuple(0.25**stage for stage in range(1, 5))
#: Share of values that the threshold is estimated from, but never fewer than `SMALLEST_SAMPLE`.
SAMPLE_SHARE = 0.01
SMALLEST_SAMPLE = 1024
#: The threshold is taken so low that it lets through so many times k: nearly always at least k, of which k are kept.
MARGIN = 1.5


@dataclass(slots=True)
class Momentum(Draws):
    """u and v of one tensor, flat, in fp32."""

    velocity: Tensor | None = None
    accumulated: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Dgc:
    """Wire: an int32 count, then ⌈share · d⌉ int32 indices and as many values in the gradient's own type.

    Buffers have room for k values in every step, as workers gather equal lengths; `count` says how many are used, for
    a threshold from a sample can let fewer through. `clip_norm` is c for one tensor's gradient, None for no clipping;
    the paper clips the norm over all layers, which is not known while the first gradients are sent. `warm_up_steps` is
    the length of each of the four stages of warm-up.
    """

    share: float
    momentum: float = 0.9
    clip_norm: float | None = None
    workers: int = 1
    warm_up_steps: int = 0

    travels: ClassVar[Travel] = "all-gather"

    def __post_init__(self) -> None:
        checked_share(self.share)
        if not 0 <= self.momentum < 1:
            raise InputError(f"dgc: momentum = {self.momentum} must be at least 0 and less than 1")

    def share_at(self, step: int) -> float:
        """Return the share of values kept in a step, counted from 0."""
        stage = step // self.warm_up_steps if self.warm_up_steps else len(WARM_UP)
        return max(WARM_UP[stage], self.share) if stage < len(WARM_UP) else self.share

    def new_state(self, seed: int, worker: int, tensor: int) -> Momentum:
        return Momentum(seed, worker, tensor)

    def encode(self, tensor: Tensor, state: Momentum) -> Payload:
        gradient = self._clipped(finite_values(tensor))
        u = gradient.clone() if state.velocity is None else state.velocity.mul_(self.momentum).add_(gradient)
        v = u.clone() if state.accumulated is None else state.accumulated.add_(u)
        room = kept(self.share_at(state.step), v.numel())
        places = self._largest(v, room, state.stream)
        values = v[places].to(tensor.dtype)
        u[places] = 0
        v[places] -= values  # 0, but for what rounding to the gradient's type lost
        state.velocity, state.accumulated = u, v
        state.step += 1
        count = torch.tensor([len(places)], dtype=torch.int32, device=v.device)
        unused = (0, room - len(places))
        return Payload((count, pad(places.int(), unused), pad(values, unused)))

    def decode(self, payload: Payload, shape: Sequence[int], out: Tensor | None = None) -> Tensor:
        count, places, values = payload.buffers
        used = int(count)
        return scattered(places[:used], values[:used], shape, out)

    def _clipped(self, gradient: Tensor) -> Tensor:
        if self.clip_norm is None:
            return gradient
        norm = float(torch.linalg.vector_norm(gradient, dtype=torch.float64))
        limit = self.clip_norm / math.sqrt(self.workers)
        return gradient * (limit / norm) if norm > limit else gradient

    def _largest(self, values: Tensor, most: int, stream: random.Stream) -> Tensor:
        """Places of up to `most` of the largest magnitudes: exact among those above a threshold from a sample."""
        elements = values.numel()
        size = min(elements, max(SMALLEST_SAMPLE, math.ceil(SAMPLE_SHARE * elements)))
        if size == elements:
            return torch.topk(values.abs(), most, sorted=False).indices
        drawn = (random.words(0, size, stream, values.device) * elements) >> 32
        rank = min(size, math.ceil(MARGIN * most / elements * size))
        threshold = torch.topk(values[drawn].abs(), rank, sorted=False).values.min()
        above = fused.places_at_least(values, threshold)
        if len(above) <= most:
            return above
        return above[torch.topk(values[above].abs(), most, sorted=False).indices]
