"""Who has which samples: labels dealt out to clients by a Dirichlet distribution, and who takes part in a round.

Each class by itself is divided among all clients in shares drawn from a symmetric Dirichlet(α) (Yurochkin et al., ICML
2019). With α = ∞ the samples are shuffled and dealt out evenly; the smaller α is, the fewer classes a client has.
"""

import math

import numpy as np
import torch
from torch import Tensor

from wirebound.errors import InputError
from wirebound.techniques.federated.streams import SAMPLE, SPLIT, number

_TRIES = 2000


def dirichlet_shares(classes: int, clients: int, alpha: float, random: np.random.Generator) -> Tensor:
    """Return the share of each class that each client gets: fp64 (classes, clients), rows that sum to 1.

    A share has mean 1/n and variance (1/n)(1 − 1/n)/(nα + 1) for n clients.
    """
    return torch.from_numpy(random.dirichlet([alpha] * clients, size=classes))


def split_by_label(labels: Tensor, clients: int, alpha: float, *, seed: int, minimum: int = 1) -> list[Tensor]:
    """Return the places of each client's samples: int64 tensors that together hold every place of `labels` once.

    Shares are drawn again until every client has at least `minimum` samples. Raises `InputError` for numbers out of
    range, and where no draw gives everybody enough.
    """
    samples = len(labels)
    if not 1 <= clients <= samples:
        raise InputError(f"clients = {clients} must be between 1 and the {samples} samples")
    if not alpha > 0:
        raise InputError(f"alpha = {alpha} must be greater than 0; inf deals all classes out evenly")
    if not 0 <= minimum <= samples // clients:
        raise InputError(f"minimum = {minimum} must be between 0 and {samples // clients}, the mean of the clients")
    random = np.random.default_rng(number(seed, SPLIT))
    if math.isinf(alpha):
        return list(torch.tensor_split(torch.from_numpy(random.permutation(samples)), clients))
    members = [
        torch.from_numpy(random.permutation((labels == label).nonzero().view(-1).numpy()))
        for label in torch.unique(labels)
    ]
    counts = torch.tensor([len(places) for places in members])
    for _ in range(_TRIES):
        cuts = (dirichlet_shares(len(members), clients, alpha, random).cumsum(1)[:, :-1] * counts[:, None]).long()
        sizes = torch.diff(cuts, dim=1, prepend=torch.zeros(len(members), 1).long(), append=counts[:, None]).sum(0)
        if int(sizes.min()) >= minimum:
            pieces = [torch.tensor_split(places, cut) for places, cut in zip(members, cuts, strict=True)]
            return [torch.cat(own) for own in zip(*pieces, strict=True)]
    raise InputError(
        f"no split of {samples} samples over {clients} clients with alpha = {alpha:g} gives each at least {minimum}: "
        "ask for fewer clients, a smaller minimum or a larger alpha"
    )


def sampled_clients(clients: int, per_round: int, *, seed: int, round_number: int) -> list[int]:
    """Return the clients that take part in a round: `per_round` different ones, every set equally likely, sorted."""
    if not 1 <= per_round <= clients:
        raise InputError(f"per_round = {per_round} must be between 1 and the {clients} clients")
    random = np.random.default_rng(number(seed, SAMPLE, round_number))
    return sorted(int(client) for client in random.choice(clients, per_round, replace=False))
