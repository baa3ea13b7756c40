"""Federated Averaging (McMahan et al., AISTATS 2017), all clients in one process, one after another.

In each round the server samples clients, each trains the server's weights on its own samples, and the server adds the
mean of their changes, weighted by samples. Bytes are those of the buffers that would travel.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from wirebound.errors import InputError, WireboundError
from wirebound.techniques.federated.client import LocalTraining, train_locally
from wirebound.techniques.federated.exchange import Exchange
from wirebound.techniques.federated.reduction import reduction_named
from wirebound.techniques.federated.split import sampled_clients, split_by_label
from wirebound.techniques.federated.streams import BATCHES, generator
from wirebound.techniques.learning.data import DataSet
from wirebound.techniques.learning.evaluation import evaluate
from wirebound.techniques.learning.models import learning_model


@dataclass(frozen=True, slots=True, kw_only=True)
class Federation:
    """A run's settings. `alpha` is that of the split by labels, `minimum` the fewest samples of a client.

    `momentum` and `server_rate` are those of FetchSGD's server.
    """

    model: str
    clients: int = 40
    per_round: int = 10
    alpha: float = float("inf")
    minimum: int = 4
    rounds: int = 100
    evaluate_every: int = 5
    local: LocalTraining = field(default_factory=LocalTraining)
    reduction: str = "none"
    momentum: float = 0.0
    server_rate: float = 1.0
    seed: int = 1

    def __post_init__(self) -> None:
        for name, value in (("rounds", self.rounds), ("evaluate_every", self.evaluate_every)):
            if value < 1:
                raise InputError(f"{name} = {value} must be at least 1")


@dataclass(frozen=True, slots=True)
class Point:
    """The server's model after a round, on the test samples."""

    round_number: int
    accuracy: float
    loss: float


@dataclass(frozen=True, slots=True)
class FederatedRun:
    """What a run gave. Bytes are of one client in one round, counted from buffers, the same for all.

    `sizes` are the samples of each client, `sampled` the clients of each round. `train_s_per_sample` is the core time
    that one pass over one sample took on this machine.
    """

    points: tuple[Point, ...]
    uplink_bytes: int
    downlink_bytes: int
    sizes: tuple[int, ...]
    sampled: tuple[tuple[int, ...], ...]
    train_s_per_sample: float


def run_federation(data: DataSet, how: Federation, tell: Callable[[Point], None] = lambda point: None) -> FederatedRun:
    """Train for `how.rounds` rounds; `tell` hears of each evaluation. The same settings give the same points.

    Raises `InputError` for settings out of range.
    """
    module = learning_model(how.model, data, how.seed)
    exchange = Exchange(reduction_named(how.reduction), module, how.seed, how.momentum, how.server_rate)
    owned = split_by_label(data.targets, how.clients, how.alpha, seed=how.seed, minimum=how.minimum)
    owners = [(data.inputs[places], data.targets[places]) for places in owned]
    whole = exchange.whole
    points, sampled, sent = [], [], set()
    seconds, passes = 0.0, 0
    for round_number in range(1, how.rounds + 1):
        chosen = sampled_clients(how.clients, how.per_round, seed=how.seed, round_number=round_number)
        uploads = []
        for client in chosen:
            inputs, targets = owners[client]
            assignment = exchange.hand_out(round_number, client)
            random = generator(how.seed, BATCHES, round_number, client)
            started = time.process_time()
            change = train_locally(assignment.model, inputs, targets, how.local, random, assignment.subspace)
            seconds += time.process_time() - started
            passes += how.local.epochs * len(inputs)
            upload = exchange.encode(assignment, change, len(inputs))
            sent.add((upload.payload.nbytes, assignment.download.nbytes))
            uploads.append(upload)
        exchange.merge(uploads)
        sampled.append(tuple(chosen))
        if round_number % how.evaluate_every == 0 or round_number == how.rounds:
            whole.weights.copy_(exchange.weights)
            found = evaluate(whole.module, data)
            points.append(Point(round_number, found.accuracy, found.loss))
            tell(points[-1])
    if len(sent) > 1:
        raise WireboundError(f"{how.reduction}: uploads differ in size, {sorted(sent)}: one size cannot stand for all")
    uplink_bytes, downlink_bytes = sent.pop()
    return FederatedRun(
        tuple(points),
        uplink_bytes,
        downlink_bytes,
        tuple(len(places) for places in owned),
        tuple(sampled),
        seconds / passes,
    )
