"""Which gradients travel together, where each lies in the flat buffer of its message, and how messages are cut."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from wirebound.errors import InputError


class Message:
    """Gradients that travel as one flat buffer, one after the other.

    With `flagged`, each tensor has one more element at the end of the buffer: 1 from a worker that has a gradient for
    it, 0 from one that has not. A sum of 0 means that no worker used the parameter, which then stays untouched.
    """

    def __init__(self, parameters: Mapping[str, nn.Parameter], *, flagged: bool = False) -> None:
        first = next(iter(parameters.values()))
        sizes = [parameter.numel() for parameter in parameters.values()]
        length = sum(sizes) + (len(sizes) if flagged else 0)
        self.names = tuple(parameters)
        self.buffer = torch.zeros(length, dtype=first.dtype, device=first.device)
        self.missing = set(parameters)
        self.ready_s, self.step = 0.0, 0  # when it was last full, and in which step
        self._places: dict[str, Tensor] = dict(
            zip(parameters, torch.split(self.buffer[: sum(sizes)], sizes), strict=True)
        )
        self._shapes = {name: parameter.shape for name, parameter in parameters.items()}
        self._flags = dict(zip(parameters, self.buffer[sum(sizes) :], strict=True)) if flagged else {}

    @property
    def size(self) -> int:
        """Bytes on the wire."""
        return self.buffer.numel() * self.buffer.element_size()

    def put(self, name: str, gradient: Tensor | None) -> None:
        """Copy a gradient in; None for a parameter that this worker did not use.

        Raises `InputError` for a sparse gradient, or for none where the message has no flags.
        """
        if gradient is None and not self._flags:
            raise InputError(
                f"parameter {name} got no gradient: use it in the loss, freeze it, or pass unused_parameters=True"
            )
        if gradient is not None and gradient.layout != torch.strided:
            raise InputError(f"the gradient of {name} is sparse: build its layer with sparse=False")
        if gradient is None:
            self._places[name].zero_()
        else:
            self._places[name].view(self._shapes[name]).copy_(gradient)
        if self._flags:
            self._flags[name].fill_(0 if gradient is None else 1)
        self.missing.discard(name)

    def gradient(self, name: str) -> Tensor | None:
        """Return the part of the buffer that belongs to `name`, in its shape; None where no worker had a gradient."""
        if self._flags and self._flags[name].item() == 0:
            return None
        return self._places[name].view(self._shapes[name])

    def restart(self) -> None:
        """Wait for the gradients of the next step."""
        self.missing = set(self.names)


class Piece(NamedTuple):
    """A part of a message that travels on its own: its number, a view of the buffer, the tensors that it touches."""

    number: int
    message: Message
    values: Tensor
    names: tuple[str, ...]

    @property
    def size(self) -> int:
        """Bytes on the wire."""
        return self.values.numel() * self.values.element_size()


def lay_out(
    parameters: Mapping[str, nn.Parameter], groups: Sequence[Sequence[str]], *, flagged: bool = False
) -> list[Message]:
    """Return one message for each group of parameter names, in their order.

    A buffer has one type and one place, so a group of several types or devices becomes several messages. Raises
    `InputError` unless the groups name every parameter exactly once.
    """
    named = [name for group in groups for name in group]
    for name in named:
        if name not in parameters:
            raise InputError(f"group with {name!r}: the model has no such parameter that needs a gradient")
    twice = next((name for name in named if named.count(name) > 1), None) if len(set(named)) < len(named) else None
    if twice is not None:
        raise InputError(f"parameter {twice} is in two groups: leave it in one")
    left_out = [name for name in parameters if name not in set(named)]
    if left_out:
        raise InputError(f"parameter {left_out[0]} is in no group: add it to one")
    messages = []
    for group in groups:
        kinds: dict[tuple[torch.dtype, torch.device], dict[str, nn.Parameter]] = {}
        for name in group:
            parameter = parameters[name]
            kinds.setdefault((parameter.dtype, parameter.device), {})[name] = parameter
        messages += [Message(members, flagged=flagged) for members in kinds.values()]
    return messages


def cut(messages: Sequence[Message], partition_bytes: float) -> list[Piece]:
    """Cut messages into pieces of `partition_bytes` and a rest (`Method.partition_bytes`); inf leaves them whole.

    The pieces of a message lie end to end over its tensors. Raises `InputError` for a size of less than one element.
    """
    pieces: list[Piece] = []
    for message in messages:
        length = message.buffer.numel()
        if not partition_bytes >= message.buffer.element_size():
            raise InputError(f"partition size {partition_bytes} B is less than one value of the gradient")
        step = int(min(partition_bytes, message.size) // message.buffer.element_size())
        for start in range(0, length, step):
            values = message.buffer[start : start + step]
            pieces.append(Piece(len(pieces), message, values, _names_in(message, start, start + len(values))))
    return pieces


def _names_in(message: Message, start: int, stop: int) -> tuple[str, ...]:
    names, position = [], 0
    for name in message.names:
        end = position + message._places[name].numel()
        if position < stop and start < end:
            names.append(name)
        position = end
    return tuple(names)


def digest(pieces: Sequence[Piece]) -> int:
    """Return a number that differs where processes cut their messages differently."""
    text = repr([(piece.names, piece.values.numel(), str(piece.values.dtype)) for piece in pieces])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")
