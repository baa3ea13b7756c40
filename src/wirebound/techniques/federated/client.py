"""What a client does in a round: it trains the server's weights on its own samples and returns how they changed."""

from dataclasses import dataclass

import torch
from torch import Tensor

from wirebound.errors import InputError
from wirebound.techniques.federated.flat import FlatModel
from wirebound.techniques.federated.subspace import Subspace


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTraining:
    """Stochastic gradient descent of a client: `epochs` passes over its samples in batches of `batch`.

    With `batch` None all samples are one batch, so that one epoch is one gradient step: FedSGD (McMahan et al., AISTATS
    2017). `proximal` is the μ of FedProx (Li et al., MLSys 2020), which draws a client back to the server's weights w₀:
    its gradient has μ(w − w₀) added.
    """

    epochs: int = 1
    batch: int | None = 10
    learning_rate: float = 0.1
    proximal: float = 0.0

    def __post_init__(self) -> None:
        for name, value in (("epochs", self.epochs), ("batch", 1 if self.batch is None else self.batch)):
            if value < 1:
                raise InputError(f"{name} = {value} must be at least 1")
        if not self.learning_rate > 0:
            raise InputError(f"learning_rate = {self.learning_rate} must be greater than 0")
        if not self.proximal >= 0:
            raise InputError(f"proximal = {self.proximal} must be at least 0")


def train_locally(
    model: FlatModel,
    inputs: Tensor,
    targets: Tensor,
    how: LocalTraining,
    random: torch.Generator,
    subspace: Subspace | None = None,
) -> Tensor:
    """Train `model`, which holds the server's weights w₀, and return the change z: w = w₀ + z.

    With a subspace P the client trains z in w = w₀ + P·z, whose gradient is Pᵀ times that of w, and returns the shorter
    z: a structured update (Konečný et al. 2016).
    """
    start = model.weights.clone()
    change = torch.zeros_like(start) if subspace is None else torch.zeros(subspace.size)
    batch = len(inputs) if how.batch is None else min(how.batch, len(inputs))
    for _ in range(how.epochs):
        order = torch.randperm(len(inputs), generator=random)
        for chosen in torch.split(order, batch):
            gradient = model.gradient_of(inputs[chosen], targets[chosen])
            if how.proximal:
                gradient.add_(model.weights - start, alpha=how.proximal)
            if subspace is None:
                model.weights.add_(gradient, alpha=-how.learning_rate)
            else:
                change.add_(subspace.project(gradient), alpha=-how.learning_rate)
                torch.add(start, subspace.expand(change), out=model.weights)
    return model.weights - start if subspace is None else change
