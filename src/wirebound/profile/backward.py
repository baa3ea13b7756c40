"""When does each gradient become ready in backward? Measured through hooks on the parameters of a PyTorch model."""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from wirebound.errors import InputError
from wirebound.profile.clock import Clock, CpuClock
from wirebound.profile.disturbance import DisturbanceWatch, disturbance_warnings
from wirebound.profile.observations import HookOverhead
from wirebound.profile.schema import BatchTiming, TensorProfile
from wirebound.profile.spread import interquartile_range, median, overhead_of
from wirebound.profile.training_step import GradientWatch, StepRecord, train_step

#: Ready time ÷ backward time varies by 1–2 % on a quiet machine; above this the curve itself is in doubt.
READY_SPREAD_LIMIT = 0.05

Progress = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class BackwardProfile:
    """What `profile_backward` found; times are medians over the steps with hooks, in seconds.

    `optimizer_s` includes what backward still does after the last gradient, so that forward, the tensors' gaps and
    optimizer add up to the whole step. `disturbed` tells whether the machine was busy with other work meanwhile: then
    `warnings` has the signs of it.
    """

    steps: int
    forward_s: float
    optimizer_s: float
    tensors: tuple[TensorProfile, ...]
    forward_samples_s: tuple[float, ...]
    backward_samples_s: tuple[float, ...]
    hook_overhead: HookOverhead
    warnings: tuple[str, ...]
    disturbed: bool


def profile_backward(
    model: nn.Module,
    compute_loss: Callable[[nn.Module], Tensor],
    optimizer: torch.optim.Optimizer,
    *,
    steps: int = 20,
    warmup: int = 3,
    time_limit_s: float | None = None,
    clock: Clock | None = None,
    before_step: Callable[[], None] | None = None,
    on_ready: Callable[[str], None] | None = None,
    progress: Progress | None = None,
) -> BackwardProfile:
    """Train `steps` steps with hooks and as many without, in turns, and return when each gradient becomes ready.

    `compute_loss(model)` runs the forward pass and returns the loss. Each step's ready times are divided by that step's
    backward time before medians are taken: steps vary far more than the shape of the curve does. `on_ready(name)` is
    called in each gradient's hook before the clock is read: whatever it does delays that gradient, which is how a test
    slows one down. `before_step()` is called before each step, untimed: there data is loaded. After `time_limit_s` no
    new steps begin, though never fewer than 6 are measured; a warning says so. The model is trained: its parameters
    change. `clock` times the work of the device that the model is on, the processor unless another is given.

    Raises `InputError` when the model is not where the clock's device is (a hook runs before a GPU is done), a
    parameter gets no gradient, or the loss is not one number.
    """
    if steps < 1:
        raise InputError(f"steps = {steps} must be at least 1")
    clock = clock or CpuClock()
    watch = GradientWatch(model, clock, on_ready)
    prepare = before_step or (lambda: None)
    for _ in range(warmup):
        prepare()
        train_step(model, compute_loss, optimizer, clock)
    began, disturbance = time.perf_counter(), DisturbanceWatch()
    hooked: list[StepRecord] = []
    plain: list[StepRecord] = []
    for step in range(steps):
        if time_limit_s is not None and step >= 6 and time.perf_counter() - began > time_limit_s:
            break
        # With-without, then without-with: a slow drift of the machine favours neither.
        for with_hooks in (True, False) if step % 2 == 0 else (False, True):
            prepare()
            record = train_step(model, compute_loss, optimizer, clock, watch if with_hooks else None)
            (hooked if with_hooks else plain).append(record)
        if progress is not None:
            progress((step + 1) / steps)
    _check_all_ready(hooked[0], watch.names)
    return _summary(hooked, plain, model, watch.names, steps, disturbance.waiting_share())


def profile_batches(
    model: nn.Module,
    compute_loss: Callable[[nn.Module, int], Tensor],
    optimizer: torch.optim.Optimizer,
    batches: Sequence[int],
    *,
    steps: int = 8,
    warmup: int = 2,
    time_limit_s: float | None = None,
    clock: Clock | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> tuple[BatchTiming, ...]:
    """Train `steps` steps at each batch size, without hooks, and return their times, in rising order of the batch.

    `compute_loss(model, batch)` runs the forward pass on `batch` samples. Every round runs all batches in a new random
    order (`seed`), so that a slow moment of the machine hits all of them alike. After `time_limit_s` no new round
    begins, though never fewer than 3 are made. Raises `InputError` for no batches, or one below 1.
    """
    if not batches or min(batches) < 1:
        raise InputError(f"batches {', '.join(map(str, batches)) or '(none)'} must be whole numbers, at least 1")
    clock = clock or CpuClock()
    sizes, shuffle = sorted(set(batches)), random.Random(seed)
    records: dict[int, list[StepRecord]] = {size: [] for size in sizes}
    began = time.perf_counter()
    for step in range(-warmup, steps):
        if step == 0:
            began = time.perf_counter()
        if time_limit_s is not None and step >= 3 and time.perf_counter() - began > time_limit_s:
            break
        for size in shuffle.sample(sizes, len(sizes)):
            record = train_step(model, partial(_loss_of, compute_loss, size), optimizer, clock)
            if step >= 0:
                records[size].append(record)
        if progress is not None:
            progress((step + warmup + 1) / (steps + warmup))
    return tuple(
        BatchTiming(
            size,
            tuple(round(record.forward_s, 9) for record in records[size]),
            tuple(round(record.backward_s, 9) for record in records[size]),
        )
        for size in sizes
    )


def _loss_of(compute_loss: Callable[[nn.Module, int], Tensor], size: int, model: nn.Module) -> Tensor:
    return compute_loss(model, size)


def _check_all_ready(record: StepRecord, names: list[str]) -> None:
    silent = [name for name in names if name not in record.ready_s]
    if silent:
        raise InputError(f"parameter {silent[0]} got no gradient: use it in the loss, or freeze it (requires_grad)")


def _summary(
    hooked: list[StepRecord],
    plain: list[StepRecord],
    model: nn.Module,
    names: list[str],
    wanted_steps: int,
    waiting_share: float | None,
) -> BackwardProfile:
    backward_s = median([record.backward_s for record in hooked])
    forward_s = median([record.forward_s for record in hooked])
    fractions = {name: [record.ready_s[name] / record.backward_s for record in hooked] for name in names}
    middle = {name: median(values) for name, values in fractions.items()}
    # Gradients of one layer may be ready at the same clock reading: then in the order in which their hooks ran.
    ran = {name: rank for rank, name in enumerate(hooked[0].ready_s)}
    order = sorted(names, key=lambda name: (middle[name], ran[name]))
    parameters = dict(model.named_parameters())
    registration = {name: index for index, name in enumerate(parameters)}
    forward_shares = _forward_shares(hooked)
    tensors, before = [], None
    for name in order:
        values = fractions[name]
        gaps = values if before is None else [a - b for a, b in zip(values, fractions[before], strict=True)]
        tensors.append(
            TensorProfile(
                name=name,
                size=parameters[name].numel() * parameters[name].element_size(),
                registration=registration[name],
                gap_s=round((middle[name] - (0.0 if before is None else middle[before])) * backward_s, 9),
                gap_spread_s=round(interquartile_range(gaps) * backward_s, 9),
                ready_spread=round(interquartile_range(values), 6),
                forward_s=round(forward_shares.get(name, 0.0) * forward_s, 9) if forward_shares else None,
                ready_samples=tuple(round(value, 6) for value in values),
                shape=tuple(parameters[name].shape),
            )
        )
        before = name
    signs = disturbance_warnings("backward", [record.step_s for record in hooked], waiting_share)
    after_last = (1 - middle[order[-1]]) * backward_s
    return BackwardProfile(
        steps=len(hooked),
        forward_s=round(forward_s, 9),
        optimizer_s=round(after_last + median([record.optimizer_s for record in hooked]), 9),
        tensors=tuple(tensors),
        forward_samples_s=tuple(round(record.forward_s, 9) for record in hooked),
        backward_samples_s=tuple(round(record.backward_s, 9) for record in hooked),
        hook_overhead=overhead_of([a.step_s / b.step_s for a, b in zip(hooked, plain, strict=True)]),
        warnings=(*signs, *_warnings(hooked, tensors, wanted_steps)),
        disturbed=bool(signs),
    )


def _forward_shares(hooked: list[StepRecord]) -> dict[str, float]:
    """Return each layer's share of forward, by its first parameter's name (its others have none); they add up to 1.

    Empty where no layer was called as one, so that nothing is known.
    """
    shares = {
        name: median([record.forward_gaps_s.get(name, 0.0) / record.forward_s for record in hooked])
        for name in hooked[0].forward_gaps_s
    }
    total = sum(shares.values())
    return {name: share / total for name, share in shares.items()} if total > 0 else {}


def _warnings(hooked: list[StepRecord], tensors: list[TensorProfile], wanted_steps: int) -> Iterator[str]:
    worst = max(tensors, key=lambda tensor: tensor.ready_spread or 0.0)
    if (worst.ready_spread or 0.0) > READY_SPREAD_LIMIT:
        yield (
            f"backward: ready time of {worst.name} spreads by {worst.ready_spread:.1%} of backward"
            f" (limit {READY_SPREAD_LIMIT:.0%}): the ready curve is uncertain"
        )
    if len(hooked) < wanted_steps:
        yield f"backward: {len(hooked)} of {wanted_steps} steps measured within the time limit"
