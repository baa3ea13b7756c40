"""Send only the compressed difference to what the receivers can predict: time correlation, as in video coding.

Worker and receivers keep the same estimate h of the worker's gradient. Both predict p from it; the worker sends
C(g − p), and both set h ← p + C(g − p). With p = h this is EF21 (Richtárik, Sokolov & Fatkhullin, NeurIPS 2021). What
C leaves out is in the next difference again, so that C needs no error feedback of its own, and the sum of all that was
sent is h. Predictions are linear in h: the mean of the workers' differences brings the mean of their estimates up to
date, so that a receiver keeps one estimate, not one for each worker.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from wirebound.errors import InputError
from wirebound.techniques.compress.compressor import GradientCompressor
from wirebound.techniques.compress.payload import Payload, Travel
from wirebound.techniques.compress.state import State


@dataclass(slots=True)
class Estimate(State):
    """h after the `latest` step and after the one before, flat, in fp32; None where there was none yet."""

    latest: Tensor | None = None
    previous: Tensor | None = None


@dataclass(slots=True)
class DifferenceState(State):
    """A worker's estimate of its own gradient, that of the mean it receives, and the state of the inner compressor."""

    estimate: Estimate = field(default_factory=Estimate)
    mean: Estimate = field(default_factory=Estimate)
    inner: Any = None

    def state_dict(self) -> dict[str, Any]:
        return {part.name: getattr(self, part.name).state_dict() for part in dataclasses.fields(self)}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        names = [part.name for part in dataclasses.fields(self)]
        if set(saved) != set(names):
            raise InputError(f"saved state has the fields {sorted(saved)}, not {sorted(names)}: it is of another")
        for name in names:
            getattr(self, name).load_state_dict(saved[name])


@dataclass(frozen=True, slots=True)
class Difference:
    """Wire: what `inner` makes of g − p. `decode` gives the difference; `received` makes the gradient of it.

    p = h + `extrapolation` · (h − h of the step before), times `leak`: 0 and 1 predict the last estimate (EF21); an
    extrapolation of 1 goes on in a straight line; a leak below 1 forgets. Where an all-reduce rounds its sum (fp16),
    what it rounds adds up at the receivers, for no later difference corrects it. Raises `InputError` for a compressor
    whose payloads are not summed as they are (votes, gTop-k's tree), or figures out of range.
    """

    inner: GradientCompressor
    extrapolation: float = 0.0
    leak: float = 1.0

    def __post_init__(self) -> None:
        if self.inner.travels not in ("all-reduce", "all-gather"):
            raise InputError(f"differences cannot travel by {self.inner.travels}: choose a compressor that is summed")
        if not 0 <= self.extrapolation <= 1:
            raise InputError(f"extrapolation = {self.extrapolation} must be from 0 to 1")
        if not 0 < self.leak <= 1:
            raise InputError(f"leak = {self.leak} must be greater than 0 and at most 1")

    @property
    def travels(self) -> Travel:
        """As the compressor inside."""
        return self.inner.travels

    def new_state(self, seed: int, worker: int, tensor: int) -> DifferenceState:
        return DifferenceState(inner=self.inner.new_state(seed, worker, tensor))

    def predicted(self, estimate: Estimate) -> Tensor | None:
        """Return p, flat, None before the first step (a prediction of zeros)."""
        if estimate.latest is None:
            return None
        p = estimate.latest
        if self.extrapolation and estimate.previous is not None:
            p = p + self.extrapolation * (p - estimate.previous)
        return self.leak * p

    def encode(self, tensor: Tensor, state: DifferenceState) -> Payload:
        forget(state.inner)  # the next difference has what this one leaves out: it must not be kept twice
        p = self.predicted(state.estimate)
        payload = self.inner.encode(tensor if p is None else tensor - p.view(tensor.shape), state.inner)
        self.received(self.inner.decode(payload, tensor.shape), state.estimate)
        return payload

    def decode(self, payload: Payload, shape: Sequence[int], out: Tensor | None = None) -> Tensor:
        return self.inner.decode(payload, shape, out)

    def received(self, difference: Tensor, estimate: Estimate) -> Tensor:
        """Bring an estimate up to date with a decoded difference, or with the mean of the workers'; return it."""
        p = self.predicted(estimate)
        latest = difference.flatten().clone() if p is None else p + difference.flatten()
        estimate.latest, estimate.previous = latest, estimate.latest
        return latest.view(difference.shape)


def forget(state: Any) -> None:
    """Set what a compressor has kept of earlier tensors to none; its random numbers go on."""
    for kept in dataclasses.fields(state):
        if isinstance(getattr(state, kept.name), Tensor):
            setattr(state, kept.name, None)


def mean_estimate(estimates: Sequence[Estimate]) -> Tensor:
    """Return the mean of several workers' estimates, flat; of workers that have made the same steps."""
    return torch.stack([estimate.latest for estimate in estimates if estimate.latest is not None]).mean(0)
