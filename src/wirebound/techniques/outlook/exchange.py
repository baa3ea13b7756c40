"""One process in place of all workers: every payload is really encoded, counted and decoded, none is sent.

What is counted is the bytes of the buffers that workers would hand to a collective; there is no network and no time.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from wirebound.techniques.compress.compressor import GradientCompressor
from wirebound.techniques.compress.difference import Difference, forget


class Plan(Protocol):
    """Which compressor a tensor gets in a step, None for none; it may watch the mean that came out of the step."""

    def compressor(self, name: str, step: int) -> GradientCompressor | None: ...
    def observe(self, name: str, step: int, mean: Tensor) -> None: ...


class ByTensor:
    """The same compressors in all steps: by tensor's name, `others` for all that are not named."""

    def __init__(
        self, compressors: Mapping[str, GradientCompressor | None], others: GradientCompressor | None = None
    ) -> None:
        self._compressors, self._others = dict(compressors), others

    def compressor(self, name: str, step: int) -> GradientCompressor | None:
        return self._compressors.get(name, self._others)

    def observe(self, name: str, step: int, mean: Tensor) -> None:
        pass


class Exchange:
    """The workers' compressors with their states.

    `sent_bytes` counts the payloads of all workers, uncompressed tensors included; `dense_bytes` what they would be
    without compression. A tensor may change its compressor from step to step where the states are of one kind (Top-k
    of several shares); one that is sent uncompressed in a step takes what error feedback has kept along.
    """

    def __init__(self, plan: Plan, workers: int, seed: int = 0) -> None:
        self.plan, self._workers, self._seed = plan, workers, seed
        self.sent_bytes = self.dense_bytes = 0
        self._states: dict[str, list[Any]] = {}

    def mean(self, name: str, step: int, gradients: Sequence[Tensor]) -> Tensor:
        """Return what every worker has of a tensor after a step, from all workers' gradients of it."""
        compressor = self.plan.compressor(name, step)
        self.dense_bytes += sum(gradient.numel() * gradient.element_size() for gradient in gradients)
        if compressor is None:
            mean = self._uncompressed(name, gradients)
        else:
            if name not in self._states:
                number = len(self._states)
                self._states[name] = [compressor.new_state(self._seed, w, number) for w in range(self._workers)]
            total = torch.zeros_like(gradients[0], dtype=torch.float32)
            for gradient, state in zip(gradients, self._states[name], strict=True):
                payload = compressor.encode(gradient, state)
                self.sent_bytes += payload.nbytes
                total += compressor.decode(payload, gradient.shape)
            mean = total / len(gradients)
            if isinstance(compressor, Difference):
                mean = compressor.received(mean, self._states[name][0].mean)  # the same at all workers
        self.plan.observe(name, step, mean)
        return mean

    def _uncompressed(self, name: str, gradients: Sequence[Tensor]) -> Tensor:
        self.sent_bytes += sum(gradient.numel() * gradient.element_size() for gradient in gradients)
        mean = torch.stack(list(gradients)).mean(0)
        for state in self._states.get(name, []):
            residual = getattr(state, "residual", None)
            if residual is not None:
                mean += residual.view(mean.shape) / len(gradients)
                forget(state)  # some states keep what the residual follows from
        return mean
