"""The compute of a training job without communication, measured in as many processes as will train: a `Workload`."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from wirebound.model import Tensor, Workload
from wirebound.profile.spread import median

Step = dict[str, Any]


def profiled_workload(name: str, batch_size: int, answers: Sequence[dict[str, Any]]) -> Workload:
    """Return the workload that the ranks' profiled steps tell (see `training_worker`); times in seconds.

    A message can go when the last rank has its gradients, so every moment is that of the last rank, counted from the
    common start of the step; then medians over the steps are taken. What backward does after its last gradient counts
    as optimizer time, for it waits for the averages.
    """
    shapes: dict[str, list[int]] = answers[0]["shapes"]
    steps = list(zip(*(answer["steps"] for answer in answers), strict=True))
    forward_s = median([_last(step, lambda of_rank: of_rank["forward_end_s"]) for step in steps])
    ready = {name: median([_last(step, _ready(name)) for step in steps]) for name in shapes}
    names = sorted(shapes, key=lambda name: ready[name])
    end_s = median([_last(step, lambda of_rank: of_rank["backward_end_s"]) for step in steps])
    update_s = median(
        [max(of_rank["end_s"] for of_rank in step) - max(of_rank["update_s"] for of_rank in step) for step in steps]
    )
    forwards = _forward_shares(names, steps)
    tensors = []
    before_s = forward_s
    for tensor in names:
        size = 4 * math.prod(shapes[tensor])
        gap_s = max(0.0, ready[tensor] - before_s)
        before_s = max(before_s, ready[tensor])
        tensors.append(Tensor(tensor, size, gap_s, forwards[tensor], tuple(shapes[tensor])))
    return Workload(
        name=name,
        batch_size=batch_size,
        tensors=tuple(tensors),
        forward_s=forward_s,
        optimizer_s=update_s + max(0.0, end_s - before_s),
        source=f"{len(answers)} processes at once, without communication",
    )


def _ready(name: str) -> Callable[[Step], float]:
    return lambda of_rank: float(of_rank["ready_s"][name])


def _last(step: Sequence[Step], moment: Callable[[Step], float]) -> float:
    """When the last rank was there, since the last rank began."""
    return float(max(moment(of_rank) for of_rank in step) - max(of_rank["began_s"] for of_rank in step))


def _forward_shares(names: Sequence[str], steps: Sequence[Sequence[Step]]) -> dict[str, float]:
    """Seconds from the start of each tensor's layer to the start of the next, shared by the tensors of the layer."""
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for of_rank in (of_rank for step in steps for of_rank in step):
        starts = of_rank["forward_starts_s"]
        moments = sorted(set(starts.values()))
        ends = dict(zip(moments, [*moments[1:], of_rank["forward_end_s"]], strict=True))
        of_layer = {moment: sum(start == moment for start in starts.values()) for moment in moments}
        for name in names:
            seconds[name].append((ends[starts[name]] - starts[name]) / of_layer[starts[name]])
    return {name: median(found) for name, found in seconds.items()}


def between_profiles(whole: Workload, apart: Workload, messages: int) -> Workload:
    """Return the workload of a technique with so many messages, between one message and one for each tensor.

    What a message costs the device is in the profiles: `whole` was taken with one message, `apart` with one a tensor.
    """
    count = len(whole.tensors)
    share = (messages - 1) / (count - 1) if count > 1 else 0.0
    gaps = {tensor.name: tensor.gap_s for tensor in apart.tensors}
    tensors = tuple(
        replace(tensor, gap_s=tensor.gap_s + share * (gaps[tensor.name] - tensor.gap_s)) for tensor in whole.tensors
    )
    optimizer_s = whole.optimizer_s + share * (apart.optimizer_s - whole.optimizer_s)
    return replace(whole, tensors=tensors, optimizer_s=optimizer_s)
