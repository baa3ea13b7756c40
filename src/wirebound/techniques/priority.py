"""ByteScheduler (Peng et al. 2019): send first what the next forward pass needs first, and let that pass begin early.

Tensors are cut into partitions, so that an urgent one need not wait for a long one. At most `credit_bytes` of them are
handed to the transport and unfinished: what has been handed over can no longer be overtaken. The next forward pass
waits layer by layer: before a layer runs, its averages must have arrived, and the optimizer steps for its parameters
alone.

Why that loses nothing: an optimizer such as SGD with momentum or Adam keeps its state for each parameter and updates
each by itself, so the order of updates does not matter, as long as a layer's comes before its next use. (Clipping by
the norm of all gradients would need all of them at once, and is not possible here.) The learning rate and the other
settings are those of the moment when `step` was called, even if a schedule changes them before the update is made.
"""

import heapq
import itertools
import threading
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from wirebound.errors import InputError, WireboundError
from wirebound.techniques.arrivals import Arrivals
from wirebound.techniques.layout import Message, Piece
from wirebound.techniques.recorder import Recorder
from wirebound.techniques.synchronizer import Synchronizer, trainable

#: Modules whose forward pass uses the parameters of their children without calling the children.
_USE_CHILDREN = (nn.MultiheadAttention,)


class CreditQueue:
    """Pieces that wait to be sent. `take` gives the most urgent, as long as the credit lasts; thread-safe."""

    def __init__(self, credit_bytes: float) -> None:
        if not credit_bytes > 0:
            raise InputError(f"credit {credit_bytes} B must be greater than zero")
        self._credit, self._used = credit_bytes, 0
        self._waiting: list[tuple[int, int, Piece]] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, urgency: int, piece: Piece) -> None:
        """Let a piece wait; the lowest `urgency` goes first, of equals the earliest."""
        with self._changed:
            heapq.heappush(self._waiting, (urgency, next(self._numbers), piece))
            self._changed.notify_all()

    def take(self) -> Piece | None:
        """Return the most urgent piece once it fits into the credit or nothing is under way; None after `close`."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._may_go())
            if self._closed:
                return None
            piece = heapq.heappop(self._waiting)[2]
            self._used += piece.size
            return piece

    def give_back(self, piece: Piece) -> None:
        """The transport is through with a piece: its bytes may be spent again."""
        with self._changed:
            self._used -= piece.size
            self._changed.notify_all()

    def close(self) -> None:
        """Let `take` return None."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _may_go(self) -> bool:
        return bool(self._waiting) and (not self._used or self._used + self._waiting[0][2].size <= self._credit)


class ByteScheduler(Synchronizer):
    """Partitions, credit and priorities; the transport is a subclass's. Call `step` where the optimizer would step.

    `priority` names the parameters as the next forward pass uses them; in order of registration if not given. Call
    `finish` before the parameters are read other than by a forward pass of `model` (to save them, at the end).
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        priority: Sequence[str] | None = None,
        *,
        partition_bytes: float = 4_000_000,
        credit_bytes: float = 16_000_000,
        unused_parameters: bool = False,
        recorder: Recorder | None = None,
        timeout_s: float = 300.0,
    ) -> None:
        priority = list(trainable(model)) if priority is None else list(priority)
        self._updates = _Updates(optimizer)
        super().__init__(
            model,
            [[name] for name in priority],
            partition_bytes=partition_bytes,
            unused_parameters=unused_parameters,
            recorder=recorder,
        )
        self._urgency = {message: urgency for urgency, message in enumerate(self.messages)}
        self._due: dict[str, int] = {}  # parameters whose update is still to be made, and the step that it belongs to
        self._queue = CreditQueue(credit_bytes)
        self._arrivals = Arrivals(self.pieces, timeout_s)
        for _, module in model.named_modules():
            names = self._used_by(module)
            if names:
                self._hooks.append(module.register_forward_pre_hook(self._before_forward(names)))

    def step(self, optimizer: Optimizer) -> None:
        """Hand over the rest of this step's gradients; the updates are made in the next forward pass, layer by layer.

        `optimizer` must be the one given at the start.
        """
        if optimizer is not self._updates.optimizer:
            raise InputError("step() got another optimizer than the synchronizer was built with: give the same one")
        self._update(list(self._due))  # layers that this step's forward pass left out
        self._send_the_rest()
        for name, parameter in self.parameters.items():
            parameter.grad = None
            self._due[name] = self.steps
        for message in self.messages:
            message.restart()
        self._updates.remember_settings()
        self.steps += 1

    def finish(self) -> None:
        """Wait for all averages and make all updates; call it after `step`, when the parameters are to be read."""
        self._update(list(self._due))

    def close(self) -> None:
        self.finish()
        super().close()
        self._queue.close()

    def _wait(self) -> None:
        self.finish()

    def _send(self, message: Message) -> None:
        for piece in self._pieces_of[message]:
            self._offer(piece, self._urgency[message])

    @abstractmethod
    def _offer(self, piece: Piece, urgency: int) -> None:
        """A piece of the step `self.steps` may be sent; the lowest `urgency` first."""

    @abstractmethod
    def _average(self, message: Message) -> None:
        """Make a message that has arrived an average, if the transport only sums."""

    def _on_gradient(self, name: str, parameter: Tensor) -> None:
        if name in self._due:
            raise WireboundError(
                f"parameter {name} was used before its update was made, because its module was not called: call the"
                " module that owns it, or train this model with another technique"
            )
        super()._on_gradient(name, parameter)

    def _used_by(self, module: nn.Module) -> list[str]:
        """Names of the parameters that a module's forward pass uses itself; a shared one is each user's."""
        mine = {id(parameter) for parameter in module.parameters(recurse=isinstance(module, _USE_CHILDREN))}
        return [name for name, parameter in self.parameters.items() if id(parameter) in mine]

    def _before_forward(self, names: list[str]) -> Any:
        def hook(_: nn.Module, __: object) -> None:
            self._update([name for name in names if name in self._due])

        return hook

    def _update(self, names: list[str]) -> None:
        """Wait for the averages of these parameters, and let the optimizer step for them alone."""
        averages = {}
        for name in names:
            message = self._message_of[name]
            self._arrivals.wait(message, self._due[name])
            self._average(message)
            averages[name] = message.gradient(name)
        self._updates.make({self.parameters[name]: average for name, average in averages.items()})
        for name in names:
            del self._due[name]


class _Updates:
    """Makes one optimizer step for some parameters, with the settings of an earlier moment."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self._settings: list[dict[str, Any]] = []

    def remember_settings(self) -> None:
        """Keep the learning rate and the other settings as they are now."""
        self._settings = [_settings_of(group) for group in self.optimizer.param_groups]
        # A schedule may step before the first update is made, which torch takes for a mistake and warns of.
        self.optimizer._opt_called = True  # type: ignore[attr-defined]

    def make(self, averages: dict[nn.Parameter, Tensor | None]) -> None:
        """Step for these parameters; those without a gradient stay as they are."""
        if not averages:
            return
        groups = self.optimizer.param_groups
        now = [dict(group) for group in groups]
        for parameter, average in averages.items():
            parameter.grad = average
        try:
            for group, settings in zip(groups, self._settings, strict=True):
                group.update(settings, params=[p for p in group["params"] if p in averages])
            self.optimizer.step()
        finally:
            for group, before in zip(groups, now, strict=True):
                group.update(before)
            for parameter in averages:
                parameter.grad = None


def _settings_of(group: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in group.items() if key != "params"}
