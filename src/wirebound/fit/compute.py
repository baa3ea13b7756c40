"""What the measured steps say about compute: the ready curve, how far to believe it, and each step as a workload."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np

from wirebound.errors import InputError
from wirebound.model import Workload


class MeasuredTensor(Protocol):
    """One gradient of a profile: its ready time ÷ backward time in each step."""

    @property
    def ready_samples(self) -> tuple[float, ...]: ...


class MeasuredSteps(Protocol):
    """A profile with samples of single steps, such as `wirebound.profile.schema.Profile`; times in seconds."""

    @property
    def tensors(self) -> Sequence[MeasuredTensor]: ...
    @property
    def forward_samples_s(self) -> tuple[float, ...]: ...
    @property
    def backward_samples_s(self) -> tuple[float, ...]: ...
    def workload(self) -> Workload: ...


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


def workload_samples(profile: MeasuredSteps) -> list[Workload]:
    """Return one workload per measured step of a profile, each with that step's own times.

    A gradient is ready after its share of that step's backward time; where gradients overtook each other they come in
    that step's order. Forward is the step's own where the profile has it, else the profile's median. What backward
    does after the last gradient goes with the optimizer, whose own time is the profile's. So the medians over the
    samples agree with `profile.workload()` but for medians of sums not being sums of medians, and their spread is that
    of the machine. Raises `InputError` where the profile has no samples of single steps, or not of every tensor.
    """
    workload = profile.workload()
    steps = len(profile.backward_samples_s)
    curve = ready_curve(
        [t.ready_samples for t in profile.tensors], [1] * len(profile.tensors), [*profile.backward_samples_s]
    )
    forward = profile.forward_samples_s or (workload.forward_s,) * steps
    if len(forward) != steps:
        raise InputError(f"the profile has {len(forward)} forward times but {steps} steps were measured")
    own_optimizer_s = max(workload.optimizer_s - (1 - max(curve.median)) * curve.backward_s, 0.0)
    samples = []
    for step, (forward_s, backward_s) in enumerate(zip(forward, profile.backward_samples_s, strict=True)):
        ready = [tensor.ready_samples[step] * backward_s for tensor in profile.tensors]
        order = sorted(range(len(ready)), key=ready.__getitem__)
        gaps = [after - before for before, after in pairwise([0.0, *(ready[index] for index in order)])]
        tensors = (dataclasses.replace(workload.tensors[i], gap_s=gap) for i, gap in zip(order, gaps, strict=True))
        samples.append(
            dataclasses.replace(
                workload,
                tensors=tuple(tensors),
                forward_s=forward_s,
                optimizer_s=own_optimizer_s + backward_s - max(ready),
            )
        )
    return samples
