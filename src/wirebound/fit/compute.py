"""What the measured steps say about compute: the ready curve, and how much of it to believe."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wirebound.errors import InputError


@dataclass(frozen=True, slots=True)
class ReadyCurve:
    """When gradients become ready, as a share of backward, over the tensors in ready order.

    `median`, `lower` and `upper` (quartiles over the steps) are ready time ÷ backward time; `bytes_share` is the share
    of all gradient bytes that is ready by then. `backward_s` is the median backward time in seconds, `backward_spread`
    its interquartile range ÷ median, `ready_spread` the largest interquartile range of any tensor's share.
    `half_bytes_at` is the share of backward after which half of the bytes are ready: what communication can hide
    under is what is left then.
    """

    median: tuple[float, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    bytes_share: tuple[float, ...]
    steps: int
    backward_s: float
    backward_spread: float
    ready_spread: float
    half_bytes_at: float

    def ready_s(self, backward_s: float | None = None) -> tuple[float, ...]:
        """Return the ready times in seconds, for another backward time if one is given."""
        total = self.backward_s if backward_s is None else backward_s
        return tuple(share * total for share in self.median)


def ready_curve(
    ready_samples: Sequence[Sequence[float]], sizes: Sequence[float], backward_samples_s: Sequence[float]
) -> ReadyCurve:
    """Summarize the steps of one profile.

    `ready_samples` has one row per tensor, in ready order, and one column per step: ready time ÷ that step's backward
    time. `sizes` has each tensor's bytes, `backward_samples_s` each step's backward time in seconds. Nothing is
    smoothed or fitted: a median needs no model. Raises `InputError` when the shapes disagree or there are no samples.
    """
    if not ready_samples or not backward_samples_s:
        raise InputError("the profile has no samples of single steps: measure one with 'wirebound profile'")
    if len(ready_samples) != len(sizes):
        raise InputError(f"{len(ready_samples)} tensors have ready times but {len(sizes)} have sizes")
    steps = len(backward_samples_s)
    for index, row in enumerate(ready_samples):
        if len(row) != steps:
            raise InputError(f"tensor {index} has {len(row)} ready times but {steps} steps were measured")
    samples = np.asarray(ready_samples, dtype=float)  # tensors × steps
    lower, middle, upper = np.percentile(samples, [25, 50, 75], axis=1)
    bytes_share = np.cumsum(np.asarray(sizes, dtype=float)) / float(np.sum(sizes))
    backward_low, backward_s, backward_high = (float(q) for q in np.percentile(backward_samples_s, [25, 50, 75]))
    return ReadyCurve(
        median=tuple(middle.tolist()),
        lower=tuple(lower.tolist()),
        upper=tuple(upper.tolist()),
        bytes_share=tuple(bytes_share.tolist()),
        steps=steps,
        backward_s=backward_s,
        backward_spread=(backward_high - backward_low) / backward_s,
        ready_spread=float(np.max(upper - lower)),
        half_bytes_at=float(middle[int(np.searchsorted(bytes_share, 0.5))]),
    )
