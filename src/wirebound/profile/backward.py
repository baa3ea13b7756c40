"""When does each gradient become ready in backward? Measured through hooks on the parameters of a PyTorch model."""

import contextlib
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn

from wirebound.errors import InputError
from wirebound.profile.disturbance import DisturbanceWatch, disturbance_warnings
from wirebound.profile.schema import BatchTiming, HookOverhead, TensorProfile
from wirebound.profile.spread import interquartile_range, median, median_interval

#: Ready time ÷ backward time varies by 1–2 % on a quiet machine; above this the curve itself is in doubt.
READY_SPREAD_LIMIT = 0.05

Progress = Callable[[float], None]


@dataclass(slots=True)
class StepRecord:
    """One training step, in seconds: its three parts, when each gradient was ready, how long each layer took forward.

    `ready_s` counts from the start of backward. `forward_gaps_s` has, by the name of a parameter, the time from the
    start of its layer to the start of the next layer with parameters (the first from the start of the step).
    """

    forward_s: float = 0.0
    backward_s: float = 0.0
    optimizer_s: float = 0.0
    ready_s: dict[str, float] = field(default_factory=dict)
    forward_gaps_s: dict[str, float] = field(default_factory=dict)

    @property
    def step_s(self) -> float:
        """Seconds of the whole step."""
        return self.forward_s + self.backward_s + self.optimizer_s


@dataclass(frozen=True, slots=True)
class BackwardProfile:
    """What `profile_backward` found; times are medians over the steps with hooks, in seconds.

    `optimizer_s` includes what backward still does after the last gradient, so that forward, the tensors' gaps and
    optimizer add up to the whole step.
    """

    steps: int
    forward_s: float
    optimizer_s: float
    tensors: tuple[TensorProfile, ...]
    forward_samples_s: tuple[float, ...]
    backward_samples_s: tuple[float, ...]
    hook_overhead: HookOverhead
    warnings: tuple[str, ...]


def profile_backward(
    model: nn.Module,
    compute_loss: Callable[[nn.Module], Tensor],
    optimizer: torch.optim.Optimizer,
    *,
    steps: int = 20,
    warmup: int = 3,
    time_limit_s: float | None = None,
    on_ready: Callable[[str], None] | None = None,
    progress: Progress | None = None,
) -> BackwardProfile:
    """Train `steps` steps with hooks and as many without, in turns, and return when each gradient becomes ready.

    `compute_loss(model)` runs the forward pass and returns the loss. Each step's ready times are divided by that step's
    backward time before medians are taken: steps vary far more than the shape of the curve does. `on_ready(name)` is
    called in each gradient's hook before the clock is read: whatever it does delays that gradient, which is how a test
    slows one down. After `time_limit_s` no new steps begin, though never fewer than 6 are measured; a warning says so.
    The model is trained: its parameters change.

    Raises `InputError` when the model is not on the CPU (a hook there runs before the device is done) or a parameter
    gets no gradient.
    """
    if steps < 1:
        raise InputError(f"steps = {steps} must be at least 1")
    names = _watched_parameters(model)
    watch = _Watch(model, names, on_ready)
    for _ in range(warmup):
        _train_step(model, compute_loss, optimizer, StepRecord())
    began, disturbance = time.perf_counter(), DisturbanceWatch()
    hooked: list[StepRecord] = []
    plain: list[StepRecord] = []
    for step in range(steps):
        if time_limit_s is not None and step >= 6 and time.perf_counter() - began > time_limit_s:
            break
        # With-without, then without-with: a slow drift of the machine favours neither.
        for with_hooks in (True, False) if step % 2 == 0 else (False, True):
            record = StepRecord()
            with watch.installed(record) if with_hooks else contextlib.nullcontext():
                _train_step(model, compute_loss, optimizer, record)
            (hooked if with_hooks else plain).append(record)
        if progress is not None:
            progress((step + 1) / steps)
    _check_all_ready(hooked[0], names)
    return _summary(hooked, plain, model, names, steps, disturbance.waiting_share())


def profile_batches(
    model: nn.Module,
    compute_loss: Callable[[nn.Module, int], Tensor],
    optimizer: torch.optim.Optimizer,
    batches: Sequence[int],
    *,
    steps: int = 8,
    warmup: int = 2,
    time_limit_s: float | None = None,
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
    sizes, shuffle = sorted(set(batches)), random.Random(seed)
    records: dict[int, list[StepRecord]] = {size: [] for size in sizes}
    began = time.perf_counter()
    for step in range(-warmup, steps):
        if step == 0:
            began = time.perf_counter()
        if time_limit_s is not None and step >= 3 and time.perf_counter() - began > time_limit_s:
            break
        for size in shuffle.sample(sizes, len(sizes)):
            record = StepRecord()
            _train_step(model, partial(_loss_of, compute_loss, size), optimizer, record)
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


def _watched_parameters(model: nn.Module) -> list[str]:
    names = []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            names.append(name)
            if parameter.device.type != "cpu":
                raise InputError(f"parameter {name} is on {parameter.device}: move the model to the CPU to profile it")
    if not names:
        raise InputError("the model has no parameters that need a gradient")
    return names


def _check_all_ready(record: StepRecord, names: list[str]) -> None:
    silent = [name for name in names if name not in record.ready_s]
    if silent:
        raise InputError(f"parameter {silent[0]} got no gradient: use it in the loss, or freeze it (requires_grad)")


def _train_step(
    model: nn.Module,
    compute_loss: Callable[[nn.Module], Tensor],
    optimizer: torch.optim.Optimizer,
    record: StepRecord,
) -> None:
    began = time.perf_counter()
    loss = compute_loss(model)
    forward_end = time.perf_counter()
    loss.backward()  # type: ignore[no-untyped-call]
    backward_end = time.perf_counter()
    optimizer.step()
    optimizer.zero_grad()
    end = time.perf_counter()
    record.forward_s = forward_end - began
    record.backward_s = backward_end - forward_end
    record.optimizer_s = end - backward_end
    # The hooks left clock readings; make them times since backward began, and times from layer to layer.
    record.ready_s = {name: moment - forward_end for name, moment in record.ready_s.items()}
    moments = [began, *list(record.forward_gaps_s.values())[1:], forward_end]
    record.forward_gaps_s = dict(zip(record.forward_gaps_s, (b - a for a, b in pairwise(moments)), strict=False))


class _Watch:
    """The hooks: one on each parameter's gradient, one before each layer that owns parameters."""

    def __init__(self, model: nn.Module, names: list[str], on_ready: Callable[[str], None] | None) -> None:
        self._parameters = {name: parameter for name, parameter in model.named_parameters() if name in set(names)}
        self._on_ready = on_ready
        # A layer's forward time is kept under its first parameter; a shared parameter belongs to its first owner.
        self._layers: list[tuple[str, nn.Module]] = []
        for prefix, module in model.named_modules():
            own = [
                name for name, _ in module.named_parameters(prefix=prefix, recurse=False) if name in self._parameters
            ]
            if own:
                self._layers.append((own[0], module))

    @contextlib.contextmanager
    def installed(self, record: StepRecord) -> Iterator[None]:
        handles = [
            parameter.register_post_accumulate_grad_hook(self._gradient_hook(name, record))  # type: ignore[no-untyped-call]
            for name, parameter in self._parameters.items()
        ]
        handles += [layer.register_forward_pre_hook(self._forward_hook(name, record)) for name, layer in self._layers]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _gradient_hook(self, name: str, record: StepRecord) -> Callable[[Tensor], None]:
        on_ready, ready = self._on_ready, record.ready_s

        def hook(_: Tensor) -> None:
            if on_ready is not None:
                on_ready(name)
            ready[name] = time.perf_counter()

        return hook

    def _forward_hook(self, name: str, record: StepRecord) -> Callable[[nn.Module, object], None]:
        starts = record.forward_gaps_s

        def hook(_: nn.Module, __: object) -> None:
            # A layer that runs twice keeps its first start; its second run counts for the layer before.
            starts.setdefault(name, time.perf_counter())

        return hook


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
                forward_s=round(forward_shares.get(name, 0.0) * forward_s, 9),
                ready_samples=tuple(round(value, 6) for value in values),
                shape=tuple(parameters[name].shape),
            )
        )
        before = name
    after_last = (1 - middle[order[-1]]) * backward_s
    return BackwardProfile(
        steps=len(hooked),
        forward_s=round(forward_s, 9),
        optimizer_s=round(after_last + median([record.optimizer_s for record in hooked]), 9),
        tensors=tuple(tensors),
        forward_samples_s=tuple(round(record.forward_s, 9) for record in hooked),
        backward_samples_s=tuple(round(record.backward_s, 9) for record in hooked),
        hook_overhead=_overhead(hooked, plain),
        warnings=tuple(_warnings(hooked, tensors, wanted_steps, waiting_share)),
    )


def _forward_shares(hooked: list[StepRecord]) -> dict[str, float]:
    """Return each layer's share of forward, by its first parameter's name (its others have none); they add up to 1."""
    shares = {
        name: median([record.forward_gaps_s.get(name, 0.0) / record.forward_s for record in hooked])
        for name in hooked[0].forward_gaps_s
    }
    total = sum(shares.values())
    return {name: share / total for name, share in shares.items()}


def _overhead(hooked: list[StepRecord], plain: list[StepRecord]) -> HookOverhead:
    ratios = [a.step_s / b.step_s for a, b in zip(hooked, plain, strict=True)]
    low, high, confidence = median_interval(ratios)
    return HookOverhead(round(median(ratios), 6), round(low, 6), round(high, 6), round(confidence, 4), len(ratios))


def _warnings(
    hooked: list[StepRecord], tensors: list[TensorProfile], wanted_steps: int, waiting_share: float | None
) -> Iterator[str]:
    yield from disturbance_warnings("backward", [record.step_s for record in hooked], waiting_share)
    worst = max(tensors, key=lambda tensor: tensor.ready_spread or 0.0)
    if (worst.ready_spread or 0.0) > READY_SPREAD_LIMIT:
        yield (
            f"backward: ready time of {worst.name} spreads by {worst.ready_spread:.1%} of backward"
            f" (limit {READY_SPREAD_LIMIT:.0%}): the ready curve is uncertain"
        )
    if len(hooked) < wanted_steps:
        yield f"backward: {len(hooked)} of {wanted_steps} steps measured within the time limit"
