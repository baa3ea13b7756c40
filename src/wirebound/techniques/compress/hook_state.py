"""What a communication hook carries from bucket to bucket and from step to step."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch.distributed as dist
from torch import Tensor

from wirebound.errors import InputError, WireboundError
from wirebound.techniques.compress.compressor import GradientCompressor
from wirebound.techniques.compress.difference import Difference
from wirebound.techniques.compress.payload import Payload
from wirebound.techniques.compress.state import State


@contextmanager
def _naming(parameter: str) -> Iterator[None]:
    try:
        yield
    except WireboundError as error:
        raise type(error)(f"parameter {parameter}: {error}") from None


class HookState:
    """One compressor with a state of its own for each parameter, by the parameter's name.

    States do not depend on how DDP puts parameters into buckets, which it changes after the first step. `sent_bytes`
    counts the bytes of all buffers that this worker has handed to collectives (or to a send, in gTop-k).
    `decoding_began_s` has for each bucket, by its index, the clock when it was last begun to be decoded.
    """

    def __init__(
        self,
        compressor: GradientCompressor,
        parameters: Iterable[tuple[str, Tensor]],
        group: Any = None,
        *,
        seed: int = 0,
    ) -> None:
        """Take `parameters` in the same order on all workers, as `named_parameters()` of a model gives them."""
        self.compressor, self.group = compressor, group
        self.worker, self.workers = dist.get_rank(group), dist.get_world_size(group)
        self.sent_bytes = 0
        self.decoding_began_s: dict[int, float] = {}
        named = [(name, parameter) for name, parameter in parameters if parameter.requires_grad]
        self._names = {id(parameter): name for name, parameter in named}
        self.states: dict[str, Any] = {
            name: compressor.new_state(seed, self.worker, number) for number, (name, _) in enumerate(named)
        }

    def name_of(self, parameter: Tensor) -> str:
        """Return a parameter's name; raises `InputError` for one that this state was not made with."""
        if id(parameter) not in self._names:
            raise InputError("a parameter of the bucket is unknown: give the hook's state all parameters of the model")
        return self._names[id(parameter)]

    def encode(self, name: str, gradient: Tensor, **known: Any) -> Payload:
        """Encode one gradient; raises what the compressor raises, with the parameter's name before it."""
        with _naming(name):
            return self.compressor.encode(gradient, self.states[name], **known)

    def scale_of(self, name: str, gradient: Tensor) -> Tensor:
        """Return this worker's scale of one gradient, where workers agree on it before encoding; raises as `encode`."""
        compressor: Any = self.compressor
        with _naming(name):
            scale: Tensor = compressor.scale(gradient)
        return scale

    def encoded(self, bucket: Any) -> list[Payload]:
        """Encode all gradients of a bucket, in its order."""
        pairs = zip(bucket.parameters(), bucket.gradients(), strict=True)
        return [self.encode(self.name_of(parameter), gradient) for parameter, gradient in pairs]

    def arrived(self, parameter: Tensor, mean: Tensor) -> None:
        """Turn the mean that came out of a collective into the gradient: where it is a difference, add the past."""
        if isinstance(self.compressor, Difference):
            mean.copy_(self.compressor.received(mean, self.states[self.name_of(parameter)].mean))

    def state_dict(self) -> dict[str, dict[str, Any]]:
        """Return this worker's state of every parameter; every worker saves its own."""
        return {name: state.state_dict() for name, state in self.states.items()}

    def load_state_dict(self, saved: dict[str, dict[str, Any]]) -> None:
        """Take over what `state_dict` returned; raises `InputError` for other parameters or another compressor."""
        if set(saved) != set(self.states):
            other = min(set(saved) ^ set(self.states))
            raise InputError(f"saved states are of other parameters, such as {other}: load them into the same model")
        for name, fields in saved.items():
            state: State = self.states[name]
            state.load_state_dict(fields)
