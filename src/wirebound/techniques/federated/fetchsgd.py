"""FetchSGD (Rothchild et al., ICML 2020): clients send count sketches; momentum and error live in the server's sketch.

With the mean sketch S of a round, as in the paper's Algorithm 1:

    u ← ρ·u + S;   e ← e + η·u;   Δ = the k elements of largest estimate in e;   e ← e − sketch(Δ);   w ← w + Δ

Clients need no memory, which suits them: a client is seen rarely, and what it kept back would be old when it returns.
"""

import torch
from torch import Tensor

from wirebound.errors import InputError
from wirebound.techniques.federated.sketch import CountSketch


class FetchSgd:
    """The server's side: `momentum` is ρ, `learning_rate` η, and `count` elements change in a round."""

    def __init__(self, sketch: CountSketch, count: int, momentum: float, learning_rate: float) -> None:
        if not 0 <= momentum < 1:
            raise InputError(f"momentum = {momentum} must be at least 0 and below 1")
        self._sketch, self._count = sketch, count
        self._momentum, self._learning_rate = momentum, learning_rate
        self._velocity = torch.zeros(sketch.rows, sketch.columns)
        self._error = torch.zeros_like(self._velocity)

    def step(self, table: Tensor) -> Tensor:
        """Take the mean sketch of the clients' changes and return the change Δ of the weights, 0 where nothing is."""
        self._velocity.mul_(self._momentum).add_(table)
        self._error.add_(self._velocity, alpha=self._learning_rate)
        estimate = self._sketch.estimate(self._error)
        places = torch.topk(estimate.abs(), self._count, sorted=False).indices
        change = torch.zeros_like(estimate).index_copy_(0, places, estimate[places])
        self._error.sub_(self._sketch.sketch(change))
        return change
