"""Train a small model as several workers would, in one process, with whatever a plan sends of each gradient."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from wirebound.errors import InputError
from wirebound.techniques.checks import require_counts, require_momentum
from wirebound.techniques.learning.data import DataSet, data_set
from wirebound.techniques.learning.evaluation import endless_batches, evaluate, shard
from wirebound.techniques.learning.models import learning_model, mean_loss
from wirebound.techniques.outlook.exchange import Exchange, Plan

#: What a watcher is told after each step: its number, and every worker's gradients by tensor.
Watcher = Callable[[int, Mapping[str, list[Tensor]]], None]


@dataclass(frozen=True, slots=True)
class Job:
    """SGD with momentum on `workers` shards of a data set, `batch_size` samples of each shard in a step.

    The learning rate is divided by ten at each of `decay_steps`. Momentum is applied to the mean that arrives
    (``receiver``), or by each worker before it encodes (``sender``; then velocities are what is sent). `seed` draws
    the weights and the order of the samples.
    """

    data: str
    model: str
    workers: int = 4
    batch_size: int = 32
    steps: int = 300
    learning_rate: float = 0.05
    momentum: float = 0.9
    momentum_at: Literal["receiver", "sender"] = "receiver"
    decay_steps: tuple[int, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        require_counts(self, "workers", "batch_size", "steps")
        if not self.learning_rate > 0:
            raise InputError(f"learning rate = {self.learning_rate} must be greater than zero")
        require_momentum(self.momentum)

    def learning_rate_at(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        return self.learning_rate * 0.1 ** sum(step >= decay for decay in self.decay_steps)


@dataclass(frozen=True, slots=True)
class Point:
    """How good the model was after `step` steps on the test part of the data, and the bytes sent by then."""

    step: int
    loss: float
    accuracy: float
    sent_bytes: int


@dataclass(frozen=True, slots=True)
class Curve:
    """One training run; `train_loss` is the mean loss of the last tenth of its steps, before each step's update."""

    points: tuple[Point, ...]
    train_loss: float
    sent_bytes: int
    dense_bytes: int

    @property
    def last(self) -> Point:
        """The point after the last step."""
        return self.points[-1]


def sizes_of(job: Job) -> dict[str, int]:
    """Return the elements of each tensor of the job's model, in the order of its parameters."""
    model = learning_model(job.model, _data(job.data), job.seed)
    return {name: parameter.numel() for name, parameter in model.named_parameters()}


def train(job: Job, plan: Plan, *, evaluate_every: int = 0, watch: Watcher | None = None) -> Curve:
    """Train, and evaluate every `evaluate_every` steps (0: never) and after the last.

    Raises what the plan's compressors raise; a run whose gradients are no longer finite ends with `WireboundError`.
    """
    data = _data(job.data)
    model = learning_model(job.model, data, job.seed)
    batches = [
        endless_batches(*shard(data, worker, job.workers), job.batch_size, seed=1000 * job.seed + worker)
        for worker in range(job.workers)
    ]
    named = list(model.named_parameters())
    sender = job.momentum_at == "sender"
    velocities: dict[tuple[str, int], Tensor] = {}
    exchange = Exchange(plan, job.workers, job.seed)
    losses, points = [], []
    for step in range(job.steps):
        gradients: dict[str, list[Tensor]] = {name: [] for name, _ in named}
        total = 0.0
        for worker in range(job.workers):
            loss = mean_loss(model, *next(batches[worker]))
            found = torch.autograd.grad(loss, [parameter for _, parameter in named])
            total += loss.item()
            for (name, _), gradient in zip(named, found, strict=True):
                gradients[name].append(
                    _velocity(velocities, (name, worker), gradient, job.momentum) if sender else gradient
                )
        losses.append(total / job.workers)
        if watch is not None:
            watch(step, gradients)
        with torch.no_grad():
            for name, parameter in named:
                update = exchange.mean(name, step, gradients[name])
                if not sender:
                    update = _velocity(velocities, (name, -1), update, job.momentum)
                parameter.sub_(update, alpha=job.learning_rate_at(step))
        if step + 1 == job.steps or (evaluate_every and (step + 1) % evaluate_every == 0):
            found_now = evaluate(model, data)
            points.append(Point(step + 1, found_now.loss, found_now.accuracy, exchange.sent_bytes))
    tenth = losses[-max(1, job.steps // 10) :]
    return Curve(tuple(points), sum(tenth) / len(tenth), exchange.sent_bytes, exchange.dense_bytes)


@functools.cache
def _data(name: str) -> DataSet:
    """The data set, read once: reading takes longer than a short training run."""
    return data_set(name)


def _velocity(
    velocities: dict[tuple[str, int], Tensor], key: tuple[str, int], gradient: Tensor, momentum: float
) -> Tensor:
    """u ← m·u + g; a copy of it, as it goes on changing."""
    velocities[key] = momentum * velocities[key] + gradient if key in velocities else gradient.clone()
    return velocities[key]
