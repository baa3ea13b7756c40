"""Ratios that change over rounds: how many values Top-k keeps of each tensor in each step.

A schedule is a list of counts, one for each step, by tensor. Schedules with the same counts in another order send
exactly the same bytes: what differs is only when.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from wirebound.errors import InputError
from wirebound.techniques.compress.compressor import GradientCompressor
from wirebound.techniques.compress.gradient import kept
from wirebound.techniques.compress.topk import TopK

Counts = dict[str, list[int]]


def early(counts: Mapping[str, Sequence[int]]) -> Counts:
    """Return the same counts with the largest first: from dense to sparse, as a warm-up."""
    return {name: sorted(steps, reverse=True) for name, steps in counts.items()}


def late(counts: Mapping[str, Sequence[int]]) -> Counts:
    """Return the same counts with the largest last: from sparse to dense."""
    return {name: sorted(steps) for name, steps in counts.items()}


def constant(counts: Mapping[str, Sequence[int]]) -> Counts:
    """Return counts that are equal in all steps, to within one, with the same total."""
    return {
        name: [sum(steps) * (t + 1) // len(steps) - sum(steps) * t // len(steps) for t in range(len(steps))]
        for name, steps in counts.items()
    }


def top(count: int, elements: int) -> GradientCompressor:
    """Return the Top-k that keeps exactly `count` of a tensor's values; raises `InputError` where it cannot."""
    if not 1 <= count <= elements:
        raise InputError(f"{count} of {elements} values cannot be kept: keep at least one and no more than there are")
    return TopK((count - 0.5) / elements)  # rounded up, whatever the division rounds to


class Scheduled:
    """A plan that follows counts; `sizes` are the elements of each tensor."""

    def __init__(self, counts: Mapping[str, Sequence[int]], sizes: Mapping[str, int]) -> None:
        self._counts, self._sizes = counts, sizes

    def compressor(self, name: str, step: int) -> GradientCompressor:
        return top(self._counts[name][step], self._sizes[name])

    def observe(self, name: str, step: int, mean: Tensor) -> None:
        pass


class Accordion:
    """Accordion (Agarwal et al., MLSys 2021): mild compression of a tensor while its gradient's norm changes quickly.

    Training is cut into windows of `window` steps. Let D be the sum of a tensor's gradients over a window, here the
    means that all workers receive, so that they agree. The share of the next window is `mild` where
    abs(‖D before‖ − ‖D‖) ≥ `threshold` · ‖D before‖, in the first two windows (the paper: until two norms are known),
    and where the learning rate is lowered in one of `decay_steps`; otherwise it is `strong`. The paper decides at
    epochs. `counts` has what was kept in each step.
    """

    def __init__(
        self,
        sizes: Mapping[str, int],
        *,
        mild: float,
        strong: float,
        window: int,
        threshold: float = 0.5,
        decay_steps: Sequence[int] = (),
    ) -> None:
        if window < 1:
            raise InputError(f"window = {window} must be at least 1 step")
        if not 0 < strong <= mild <= 1:
            raise InputError(f"shares: strong = {strong} must be greater than 0 and at most mild = {mild}, at most 1")
        self._sizes, self._mild, self._strong = sizes, mild, strong
        self._window, self._threshold, self._decay_steps = window, threshold, decay_steps
        self._sums: dict[str, Tensor] = {}
        self._norms: dict[str, float] = {}
        self._critical = dict.fromkeys(sizes, True)
        self.counts: Counts = {name: [] for name in sizes}

    def compressor(self, name: str, step: int) -> GradientCompressor:
        count = kept(self._mild if self._critical[name] else self._strong, self._sizes[name])
        self.counts[name].append(count)
        return top(count, self._sizes[name])

    def observe(self, name: str, step: int, mean: Tensor) -> None:
        self._sums[name] = self._sums[name] + mean if name in self._sums else mean.clone()
        if (step + 1) % self._window:
            return
        norm = float(torch.linalg.vector_norm(self._sums.pop(name)))
        before = self._norms.get(name)
        decays = any(step < decay <= step + self._window for decay in self._decay_steps)
        self._critical[name] = decays or before is None or abs(before - norm) >= self._threshold * before
        self._norms[name] = norm
