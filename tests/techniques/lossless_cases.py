"""Small models and the losses of each worker's shard, for the tests that compare a job with a single process.

All in double precision, so that a wrong gradient cannot hide in rounding. `loss(model, step, worker, micro)` is the
mean loss of one worker's micro-batch; a single process minimizes the mean over all workers and micro-batches.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

BATCH = 3
STEPS = 3


def numbers(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def shard(step: int, worker: int, micro: int, width: int) -> Tensor:
    return numbers(1 + step + 100 * worker + 10_000 * micro, BATCH, width)


class Odd(nn.Module):
    """Sizes that no partition divides, a single number among them, and a layer that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(7, 13)
        self.again = nn.Linear(13, 13, bias=False)
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.last = nn.Linear(13, 5)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.again(torch.tanh(self.again(torch.tanh(self.first(x)))))
        return self.last(self.scale * hidden)


class Branches(nn.Module):
    """One branch that nobody uses, one that worker 0 uses, and one that everybody uses in every other step."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(7, 7)
        self.nobody = nn.Linear(7, 3)
        self.first_worker = nn.Linear(7, 5)
        self.sometimes = nn.Linear(7, 5)
        self.head = nn.Linear(7, 5)

    def forward(self, x: Tensor, *, first: bool, even: bool) -> Tensor:
        hidden = torch.tanh(self.stem(x))
        out = self.head(hidden)
        if first:
            out = out + self.first_worker(hidden)
        if even:
            out = out + self.sometimes(hidden)
        return out


class Tied(nn.Module):
    """One matrix as embedding and as output layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 6)
        self.middle = nn.Linear(6, 6)
        self.output = nn.Linear(6, 11, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.output(torch.tanh(self.middle(self.embedding(tokens))))


class Frozen(nn.Module):
    """A layer that does not learn, and layers of two number types."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(7, 9)
        self.fixed = nn.Linear(9, 9).requires_grad_(False)
        self.last = nn.Linear(9, 5)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.fixed(torch.tanh(self.first(x)))
        return self.last(hidden.float())


class Attention(nn.Module):
    """Attention reads the weights of its output layer without calling that layer."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.last = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.attention(x, x, x, need_weights=False)[0])


class Everything(nn.Module):
    """All of these difficulties in one model."""

    def __init__(self) -> None:
        super().__init__()
        self.tied, self.odd, self.branches, self.frozen = Tied(), Odd(), Branches(), Frozen()


def sgd(model: nn.Module) -> Optimizer:
    return SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01)


def adam(model: nn.Module) -> Optimizer:
    """Two groups with settings of their own."""
    first, *rest = model.parameters()
    return Adam([{"params": [first], "lr": 0.02}, {"params": rest, "weight_decay": 0.1}], lr=0.01)


@dataclass(frozen=True)
class Case:
    build: Callable[[], nn.Module]
    loss: Callable[[nn.Module, int, int, int], Tensor]
    optimizer: Callable[[nn.Module], Optimizer] = sgd
    accumulation: int = 1
    unused: bool = False
    schedule: bool = False


def squares(model, step, worker, micro):
    return model(shard(step, worker, micro, 7)).square().mean()


def tokens(model, step, worker, micro):
    ids = torch.randint(11, (BATCH, 4), generator=torch.Generator().manual_seed(step + 100 * worker))
    return model(ids).square().mean()


def branches(model, step, worker, micro):
    out = model(shard(step, worker, micro, 7), first=worker == 0, even=step % 2 == 0)
    return out.square().mean()


def sequences(model, step, worker, micro):
    return model(shard(step, worker, micro, 4 * 8).view(BATCH, 4, 8)).square().mean()


def everything(model, step, worker, micro):
    parts = [
        tokens(model.tied, step, worker, micro),
        squares(model.odd, step, worker, micro),
        branches(model.branches, step, worker, micro),
        squares(model.frozen, step, worker, micro),
    ]
    return sum(part.double() for part in parts)


CASES = {
    "odd sizes": Case(Odd, squares),
    "unused": Case(Branches, branches, unused=True),
    "tied": Case(Tied, tokens),
    "frozen, two types": Case(Frozen, squares),
    "accumulation": Case(Odd, squares, accumulation=2),
    "adam, schedule": Case(Odd, squares, optimizer=adam, schedule=True),
    "attention": Case(Attention, sequences),
    "everything": Case(Everything, everything, accumulation=2, unused=True),
}


def built(case: Case, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    model = case.build().double()
    for module in model.modules():
        if isinstance(module, Frozen):
            module.last.float()
    return model


def single_process(case: Case, workers: int) -> nn.Module:
    """Train on the whole batch, without any of the package's code."""
    model = built(case)
    optimizer = case.optimizer(model)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5) if case.schedule else None
    for step in range(STEPS):
        losses = [
            case.loss(model, step, worker, micro) for worker in range(workers) for micro in range(case.accumulation)
        ]
        (sum(losses) / len(losses)).backward()
        optimizer.step()
        optimizer.zero_grad()
        if schedule is not None:
            schedule.step()
    return model
