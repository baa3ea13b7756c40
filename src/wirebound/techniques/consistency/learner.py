"""One worker's model, its data, and steps that take as long as planned."""

import time
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from wirebound.techniques.consistency.plan import Plan
from wirebound.techniques.learning.data import DataSet
from wirebound.techniques.learning.evaluation import endless_batches, shard
from wirebound.techniques.learning.models import learning_model, mean_loss

clock = time.monotonic  # shared by the processes of a machine


class Learner:
    """The model of one worker as one flat vector, its batches, and the planned seconds of its steps."""

    def __init__(self, plan: Plan, data: DataSet, worker: int) -> None:
        start = plan.seed + (1_000 * worker if plan.own_start else 0)
        self._model = learning_model(plan.model, data, start)
        self._batches = worker_batches(plan, data, worker)
        self._planned_s = plan.compute.draws(worker, plan.seed)
        self.values = parameters_to_vector(self._model.parameters()).detach()

    def step(self) -> tuple[Tensor, float, float, float]:
        """Compute the gradient of the next batch at `values`, in the planned time.

        Returns the flat gradient, the planned seconds, and the readings of the clock at the start and at the end.
        """
        start_s, planned_s = clock(), next(self._planned_s)
        vector_to_parameters(self.values, self._model.parameters())
        self._model.zero_grad()
        mean_loss(self._model, *next(self._batches)).backward()  # type: ignore[no-untyped-call]
        gradient = torch.cat([p.grad.reshape(-1) for p in self._model.parameters() if p.grad is not None])
        pause_until(start_s + planned_s)
        return gradient, planned_s, start_s, clock()


def worker_batches(plan: Plan, data: DataSet, worker: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the batches of one worker, the same for the same plan."""
    if plan.skewed:
        order = torch.argsort(data.targets, stable=True).tensor_split(plan.workers)[worker]
        inputs, targets = data.inputs[order], data.targets[order]
    else:
        inputs, targets = shard(data, worker, plan.workers)
    return endless_batches(inputs, targets, plan.batch_size, plan.seed * 1_000_003 + worker)


def pause_until(moment_s: float) -> None:
    """Sleep until the clock shows `moment_s`; return at once when it has passed."""
    if (left_s := moment_s - clock()) > 0:
        time.sleep(left_s)
