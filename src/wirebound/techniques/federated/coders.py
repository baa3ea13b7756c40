"""Sketched updates (Konečný et al. 2016): a client trains as it likes and then encodes the change of its weights."""

from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor

from wirebound.techniques.compress.payload import Payload
from wirebound.techniques.compress.qsgd import Qsgd
from wirebound.techniques.compress.randomk import RandomK
from wirebound.techniques.compress.state import Draws, Residual, ResidualDraws
from wirebound.techniques.compress.topk import TopK

#: Seed, round and client: what random numbers of an upload are drawn from.
Stream = tuple[int, int, int]


class Coder(Protocol):
    """`encode` makes buffers of a client's change, `decode` a change of `elements` of them, by the same stream."""

    def encode(self, vector: Tensor, stream: Stream) -> Payload: ...
    def decode(self, payload: Payload, elements: int, stream: Stream) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class Dense:
    """Wire: the change as it is, fp32."""

    def encode(self, vector: Tensor, stream: Stream) -> Payload:
        return Payload((vector,))

    def decode(self, payload: Payload, elements: int, stream: Stream) -> Tensor:
        return payload.buffers[0]


class LevelsOfNorm:
    """QSGD, see `compress.qsgd`: levels of a bucket's norm, rounded at random."""

    def __init__(self, levels: int) -> None:
        self._qsgd = Qsgd(levels)

    def encode(self, vector: Tensor, stream: Stream) -> Payload:
        seed, round_number, client = stream
        return self._qsgd.encode(vector, Draws(seed, client, 0, round_number))

    def decode(self, payload: Payload, elements: int, stream: Stream) -> Tensor:
        return self._qsgd.decode(payload, (elements,))


class Subsample:
    """⌈share · d⌉ values at random places, times d ÷ their number: unbiased.

    Wire: the values; the places come from the seed.
    It differs from the random mask of `subspace` in that the client trained all weights.
    """

    def __init__(self, share: float) -> None:
        self._random_k = RandomK(share)

    def encode(self, vector: Tensor, stream: Stream) -> Payload:
        seed, round_number, client = stream
        return self._random_k.encode(vector, ResidualDraws(seed, client, 0, round_number))

    def decode(self, payload: Payload, elements: int, stream: Stream) -> Tensor:
        return self._random_k.decode(payload, (elements,)) * (elements / payload.buffers[0].numel())


@dataclass(slots=True)
class Largest:
    """Top-k, see `compress.topk`: the values of largest magnitude and their places.

    With `feedback` a client keeps what it did not send and adds it when it is next seen, which may be many rounds
    later: its residual is then a change of weights that are no longer there. Without, what is not sent is lost.
    """

    top_k: TopK
    feedback: bool
    residuals: dict[int, Residual] = field(default_factory=dict)

    def encode(self, vector: Tensor, stream: Stream) -> Payload:
        client = stream[2]
        state: Any = self.residuals.setdefault(client, Residual()) if self.feedback else Residual()
        return self.top_k.encode(vector, state)

    def decode(self, payload: Payload, elements: int, stream: Stream) -> Tensor:
        return self.top_k.decode(payload, (elements,))
