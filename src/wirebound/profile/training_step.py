"""One training step under a clock: its parts, and when each gradient was ready, through hooks on a PyTorch model."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from wirebound.errors import InputError
from wirebound.profile.clock import Clock
from wirebound.profile.user_code import user_code


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


@dataclass(slots=True)
class StepMarks:
    """What the hooks leave behind while a step runs: the clock's marks by parameter, in the order they were made."""

    ready: dict[str, Any] = field(default_factory=dict)
    layers: dict[str, Any] = field(default_factory=dict)


def train_step(
    model: nn.Module,
    compute_loss: Callable[[nn.Module], Tensor],
    optimizer: torch.optim.Optimizer,
    clock: Clock,
    watch: "GradientWatch | None" = None,
) -> StepRecord:
    """Run one training step and return its times; with `watch`, also those that its hooks take.

    The clock is read once, after the step: on a device that works behind the host nothing waits before.
    Raises `InputError` when the loss is not one number with a gradient, or a part of the step raises.
    """
    marks = StepMarks()
    with watch.installed(marks, clock) if watch is not None else contextlib.nullcontext():
        began = clock.mark()
        loss = compute_loss(model)
        _check_loss(loss)
        forward_end = clock.mark()
        with user_code("backward"):
            loss.backward()  # type: ignore[no-untyped-call]
        backward_end = clock.mark()
        with user_code("the optimizer"):
            optimizer.step()
            optimizer.zero_grad()
        end = clock.mark()
    hooked = [*marks.ready.values(), *marks.layers.values()]
    seconds = iter(clock.seconds([began, forward_end, backward_end, end, *hooked]))
    start_s, forward_s, backward_end_s, end_s = (next(seconds) for _ in range(4))
    backward_s = backward_end_s - forward_s
    # Events are read in single precision: a gradient is never ready before backward began, nor after it ended.
    ready_s = {name: min(max(next(seconds) - forward_s, 0.0), backward_s) for name in marks.ready}
    # Not the first layer's start: the time before it belongs to that layer.
    moments = [start_s, *list(seconds)[1:], forward_s]
    return StepRecord(
        forward_s=forward_s,
        backward_s=backward_s,
        optimizer_s=end_s - backward_end_s,
        ready_s=ready_s,
        forward_gaps_s=dict(zip(marks.layers, (max(b - a, 0.0) for a, b in pairwise(moments)), strict=False)),
    )


def _check_loss(loss: object) -> None:
    if not isinstance(loss, Tensor):
        raise InputError(f"the loss is of type {type(loss).__name__}, not a tensor with a backward()")
    if loss.numel() != 1:
        raise InputError(f"the loss has the shape {tuple(loss.shape)}: it must be one number, such as its mean()")
    if not loss.requires_grad:
        raise InputError("the loss does not depend on any parameter that needs a gradient: is it detached?")


class GradientWatch:
    """The hooks: one on each parameter's gradient, one before each layer that owns parameters.

    `on_ready(name)` is called in each gradient's hook before the clock is read: whatever it does delays that gradient.
    Raises `InputError` when the model has no parameter to watch, or one is not where the clock's device is.
    """

    def __init__(self, model: nn.Module, clock: Clock, on_ready: Callable[[str], None] | None = None) -> None:
        self._on_ready = on_ready
        self._parameters: dict[str, nn.Parameter] = {}
        for name, parameter in model.named_parameters():
            if isinstance(parameter, nn.parameter.UninitializedParameter):
                raise InputError(f"parameter {name} has no shape yet: run its lazy layer once before profiling")
            if not parameter.requires_grad or not parameter.numel():
                continue
            if parameter.device.type != clock.device_type:
                target = "CPU" if clock.device_type == "cpu" else clock.device_type
                raise InputError(
                    f"parameter {name} is on {parameter.device}: move the model to the {target} to profile it"
                )
            self._parameters[name] = parameter
        if not self._parameters:
            raise InputError("the model has no parameters that need a gradient: there is nothing to train")
        # A layer's forward time is kept under its first parameter; a shared parameter belongs to its first owner.
        self._layers: list[tuple[str, nn.Module]] = []
        for prefix, module in model.named_modules():
            own = [
                name for name, _ in module.named_parameters(prefix=prefix, recurse=False) if name in self._parameters
            ]
            if own:
                self._layers.append((own[0], module))

    @property
    def names(self) -> list[str]:
        """Names of the watched parameters, in the model's order."""
        return list(self._parameters)

    @contextlib.contextmanager
    def installed(self, marks: StepMarks, clock: Clock) -> Iterator[None]:
        """Have the hooks leave marks while the block runs."""
        handles = [
            parameter.register_post_accumulate_grad_hook(self._gradient_hook(name, marks, clock))  # type: ignore[no-untyped-call]
            for name, parameter in self._parameters.items()
        ]
        handles += [
            layer.register_forward_pre_hook(self._forward_hook(name, marks, clock)) for name, layer in self._layers
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _gradient_hook(self, name: str, marks: StepMarks, clock: Clock) -> Callable[[Tensor], None]:
        on_ready, ready = self._on_ready, marks.ready

        def hook(_: Tensor) -> None:
            if on_ready is not None:
                on_ready(name)
            ready[name] = clock.mark()

        return hook

    def _forward_hook(self, name: str, marks: StepMarks, clock: Clock) -> Callable[[nn.Module, object], None]:
        starts = marks.layers

        def hook(_: nn.Module, __: object) -> None:
            # A layer that runs twice keeps its first start; its second run counts for the layer before.
            if name not in starts:
                starts[name] = clock.mark()

        return hook
