"""What all techniques share: hooks that notice each gradient, messages that fill, averages that return."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Self

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from wirebound.errors import InputError, WireboundError
from wirebound.techniques.layout import Message, Piece, cut, digest, lay_out
from wirebound.techniques.process_group import flat_state
from wirebound.techniques.recorder import Recorder


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters that need a gradient in the order of their registration; a shared one appears once."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def backward_order(model: nn.Module) -> list[str]:
    """Names of the parameters in the order in which their gradients are expected: against their registration."""
    return list(reversed(trainable(model)))


class Synchronizer(ABC):
    """Replaces the gradients of `model` by their averages over the workers. Use as a context manager, or `close`.

    `groups` name the parameters that share a message, in the order in which messages are sent. All workers start from
    worker 0's parameters. With `unused_parameters`, a worker may have no gradient for some; without, that is an error,
    which saves one value per tensor. ::

        with wfbp(model, group) as synchronizer:
            for batch in batches:
                loss(model, batch).backward()
                synchronizer.step(optimizer)  # averages, steps, forgets the gradients
    """

    def __init__(
        self,
        model: nn.Module,
        groups: Sequence[Sequence[str]] | None = None,
        *,
        partition_bytes: float = float("inf"),
        unused_parameters: bool = False,
        recorder: Recorder | None = None,
    ) -> None:
        self.parameters = trainable(model)
        if not self.parameters:
            raise InputError("the model has no parameters that need a gradient")
        groups = [[name] for name in backward_order(model)] if groups is None else groups
        self.messages = lay_out(self.parameters, groups, flagged=unused_parameters)
        self.pieces = cut(self.messages, partition_bytes)
        self.steps = 0
        self._recorder = recorder
        self._pieces_of: dict[Message, list[Piece]] = {message: [] for message in self.messages}
        for piece in self.pieces:
            self._pieces_of[piece.message].append(piece)
        self._message_of = {name: message for message in self.messages for name in message.names}
        self._handed_over = 0
        self._paused = False
        self._agree(model)
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(partial(self._on_gradient, name))  # type: ignore[no-untyped-call]
            for name, parameter in self.parameters.items()
        ]

    @abstractmethod
    def _broadcast(self, tensor: Tensor) -> None:
        """Give every worker the `tensor` of worker 0, in place."""

    @abstractmethod
    def _send(self, message: Message) -> None:
        """Start to send a message whose gradients are all there; called in the hook of the last."""

    @abstractmethod
    def _wait(self) -> None:
        """Return when the average of every message of this step has arrived in its buffer."""

    def step(self, optimizer: Optimizer) -> None:
        """Average the gradients, let the optimizer step, forget the gradients."""
        self.finish()
        optimizer.step()
        optimizer.zero_grad()

    def finish(self) -> None:
        """Wait until every gradient is the average over the workers; call it after backward, before the optimizer.

        A parameter that no worker used keeps the gradient None. Raises `WireboundError` when another process has gone.
        """
        self._send_the_rest()
        self._wait()
        for message in self.messages:
            for name in message.names:
                average, parameter = message.gradient(name), self.parameters[name]
                if average is None:
                    parameter.grad = None
                elif parameter.grad is None:
                    parameter.grad = average.clone()
                else:
                    parameter.grad.copy_(average)
            message.restart()
        self._handed_over = 0
        self.steps += 1

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Let gradients add up without sending them: for every backward pass of a step but the last."""
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before

    def close(self) -> None:
        """Take the hooks off the model and part from the other processes, which close as well."""
        for hook in self._hooks:
            hook.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:  # after an error the others may be gone: nothing to wait for
            self.close()

    def _on_gradient(self, name: str, parameter: Tensor) -> None:
        """The hook: backward has just added to this parameter's gradient."""
        if self._paused:
            return
        message = self._message_of[name]
        if name not in message.missing:
            raise WireboundError(
                f"parameter {name} got a second gradient in one step: run all backward passes but the last in no_sync()"
            )
        self._put(message, name)

    def _put(self, message: Message, name: str) -> None:
        message.put(name, self.parameters[name].grad)
        if not message.missing:
            message.ready_s, message.step = Recorder.clock(), self.steps
            self._send(message)

    def _full_in_order(self) -> Iterator[Message]:
        """Yield, and count as handed over, the next messages of the agreed order as far as they are full."""
        while self._handed_over < len(self.messages) and not self.messages[self._handed_over].missing:
            self._handed_over += 1
            yield self.messages[self._handed_over - 1]

    def _send_the_rest(self) -> None:
        """Send what no hook has sent: unused parameters, and those used in an earlier micro-batch only."""
        for message in self.messages:
            for name in message.names:
                if name in message.missing:
                    self._put(message, name)

    def _agree(self, model: nn.Module) -> None:
        """Check that all workers cut the same messages, and start all of them from worker 0's parameters."""
        mine = digest(self.pieces)
        first = torch.tensor([mine], device=self.messages[0].buffer.device)
        self._broadcast(first)
        if first.item() != mine:
            raise InputError("this worker's messages differ from worker 0's: give all the same model and groups")
        for flat, tensors in flat_state(model):
            self._broadcast(flat)
            with torch.no_grad():
                for tensor, part in zip(tensors, torch.split(flat, [t.numel() for t in tensors]), strict=True):
                    tensor.copy_(part.view_as(tensor))
