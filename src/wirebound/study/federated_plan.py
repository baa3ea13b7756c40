"""The experiments of the chapter on federated learning: tasks, methods, splits and seeds, as plain data.

Learning rates of digits were chosen on seed 1 with α = 1, by the rounds to 90 %: FedAvg's from 0.05, 0.1 and 0.2, and
FedSGD's from 0.2, 0.4 and 0.8. On MNIST 0.1 came as far as 0.2 in ten rounds, from a steadier start. Every reduction
has the rate of FedAvg, and seed 1 is not among the recorded ones.
"""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Task:
    """Data, model and everything that all methods have in common."""

    data: str
    model: str
    rounds: int
    evaluate_every: int
    local: dict[str, Any]
    clients: int = 40
    per_round: int = 10
    minimum: int = 4


@dataclass(frozen=True, slots=True)
class FederatedMethod:
    """A reduction, and what it changes in a client's training (fields of `LocalTraining`)."""

    reduction: str = "none"
    local: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, order=True)
class Planned:
    """One run: names of a task and a method, α of the split as text (``inf`` for IID), and a seed."""

    task: str
    alpha: str
    method: str
    seed: int


TASKS = {
    "digits-mlp": Task("digits", "mlp", 120, 3, {"epochs": 1, "batch": 10, "learning_rate": 0.2}),
    "mnist-cnn": Task("mnist", "cnn", 16, 1, {"epochs": 1, "batch": 10, "learning_rate": 0.1}),
}

METHODS = {
    "fedsgd": FederatedMethod(local={"batch": None, "learning_rate": 0.4}),
    "fedavg": FederatedMethod(),
    "epochs-5": FederatedMethod(local={"epochs": 5}),
    "fedprox-5": FederatedMethod(local={"epochs": 5, "proximal": 0.1}),
    "quantize": FederatedMethod("quantize:1"),
    "rotated": FederatedMethod("rotated:1"),
    "qsgd": FederatedMethod("qsgd:1"),
    "topk": FederatedMethod("topk:0.05"),
    "topk-feedback": FederatedMethod("topk-feedback:0.05"),
    "subsample": FederatedMethod("subsample:0.1"),
    "mask": FederatedMethod("mask:0.25"),
    "lowrank": FederatedMethod("lowrank:8"),
    "sketch": FederatedMethod("sketch:0.4"),
    "dropout": FederatedMethod("dropout:0.75"),
    "dropout-rotated": FederatedMethod("dropout:0.75+rotated:1"),
}

_ALL = [name for name in METHODS if name != "fedprox-5"]
_AVERAGING = ["fedsgd", "fedavg", "epochs-5"]

#: All runs. The middle split has every method and most seeds; the others show what α changes.
PLAN = tuple(
    Planned(task, alpha, method, seed)
    for task, alpha, methods, seeds in (
        ("digits-mlp", "1", _ALL, range(11, 15)),
        ("digits-mlp", "inf", _AVERAGING, range(11, 14)),
        ("digits-mlp", "0.1", [*_AVERAGING, "fedprox-5"], range(11, 14)),
        ("mnist-cnn", "1", ["fedavg", "quantize", "topk", "dropout"], range(11, 14)),
    )
    for seed in seeds
    for method in methods
)
