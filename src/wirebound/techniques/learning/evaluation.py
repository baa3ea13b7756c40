"""How good a model is on data that it was not trained on, and batches that are the same for the same seed."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from wirebound.techniques.learning.data import DataSet
from wirebound.techniques.learning.models import mean_cross_entropy

_CHUNK = 512


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Mean cross-entropy in nats, and the share of targets predicted right (for text: of characters)."""

    loss: float
    accuracy: float


def evaluate(model: nn.Module, data: DataSet, limit: int | None = None) -> Evaluation:
    """Evaluate on the test part of a data set, on its first `limit` samples where given."""
    inputs, targets = data.test_inputs[:limit], data.test_targets[:limit]
    was_training = model.training
    model.eval()
    loss, right = 0.0, 0
    with torch.no_grad():
        for some, theirs in zip(torch.split(inputs, _CHUNK), torch.split(targets, _CHUNK), strict=True):
            logits = model(some)
            loss += mean_cross_entropy(logits, theirs).item() * theirs.numel()
            right += int((logits.argmax(dim=-1) == theirs).sum())
    model.train(was_training)
    return Evaluation(loss / targets.numel(), right / targets.numel())


def shard(data: DataSet, worker: int, workers: int) -> tuple[Tensor, Tensor]:
    """Return every `workers`-th training sample, from number `worker` on."""
    return data.inputs[worker::workers], data.targets[worker::workers]


def endless_batches(inputs: Tensor, targets: Tensor, batch_size: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield batches of `batch_size` for ever, each pass in another order; a rest at the end of a pass is left out.

    Where there are fewer samples than `batch_size`, all of them are the batch.
    """
    random = torch.Generator().manual_seed(seed)
    size = min(batch_size, len(inputs))
    while True:
        order = torch.randperm(len(inputs), generator=random)
        for first in range(0, len(order) - size + 1, size):
            chosen = order[first : first + size]
            yield inputs[chosen], targets[chosen]
