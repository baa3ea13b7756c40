"""Every sample has one owner, and shares follow the Dirichlet distribution that they are drawn from."""

import math

import numpy as np
import pytest
import torch

from wirebound.errors import InputError
from wirebound.techniques.federated.split import dirichlet_shares, sampled_clients, split_by_label

LABELS = torch.arange(10).repeat(200)[torch.randperm(2000, generator=torch.Generator().manual_seed(0))]


@pytest.mark.parametrize("alpha", [0.1, 1.0, 100.0, math.inf])
def test_every_sample_has_one_owner(alpha: float):
    owned = split_by_label(LABELS, 20, alpha, seed=1, minimum=5)
    assert len(owned) == 20
    assert min(len(places) for places in owned) >= 5
    assert torch.equal(torch.cat(owned).sort().values, torch.arange(2000))


@pytest.mark.parametrize("alpha", [0.1, 1.0, 10.0])
def test_shares_have_the_mean_and_variance_of_the_distribution(alpha: float):
    clients, draws = 8, 40_000
    shares = dirichlet_shares(draws, clients, alpha, np.random.default_rng(0)).numpy()
    assert shares.sum(1) == pytest.approx(np.ones(draws))
    variance = (1 / clients) * (1 - 1 / clients) / (clients * alpha + 1)
    assert shares.mean(0) == pytest.approx(np.full(clients, 1 / clients), abs=5 * math.sqrt(variance / draws))
    assert shares.var(0) == pytest.approx(np.full(clients, variance), rel=0.05)


def test_without_alpha_all_have_as_many_and_of_all_classes():
    owned = split_by_label(LABELS, 20, math.inf, seed=1)
    assert {len(places) for places in owned} == {100}
    assert all(len(LABELS[places].unique()) == 10 for places in owned)


def test_a_small_alpha_leaves_a_client_few_classes():
    def entropy(alpha: float) -> float:
        owned = split_by_label(LABELS, 20, alpha, seed=1)
        counts = torch.stack([torch.bincount(LABELS[places], minlength=10) for places in owned]).double()
        shares = counts / counts.sum(1, keepdim=True)
        return float(-(shares * shares.clamp(min=1e-12).log()).sum(1).mean())

    assert entropy(0.1) < entropy(1.0) - 0.5 < entropy(100.0) - 0.8
    assert entropy(math.inf) == pytest.approx(math.log(10), abs=0.1)


def test_the_seed_decides():
    first, again, other = (split_by_label(LABELS, 20, 1.0, seed=seed) for seed in (1, 1, 2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first, other, strict=True))


def test_every_client_is_sampled_equally_often():
    counts = np.zeros(10)
    for round_number in range(4000):
        chosen = sampled_clients(10, 3, seed=5, round_number=round_number)
        assert len(set(chosen)) == 3
        counts[chosen] += 1
    assert counts == pytest.approx(np.full(10, 1200), abs=5 * math.sqrt(4000 * 0.3 * 0.7))


@pytest.mark.parametrize(
    ("options", "culprit"),
    [
        ({"clients": 0}, "clients = 0"),
        ({"clients": 2001}, "clients = 2001"),
        ({"alpha": 0.0}, "alpha = 0.0"),
        ({"alpha": math.nan}, "alpha = nan"),
        ({"minimum": 101}, "minimum = 101"),
        ({"alpha": 0.01, "minimum": 90}, "no split of 2000 samples"),
    ],
)
def test_mistakes_are_named_in_one_line(options: dict[str, float], culprit: str):
    with pytest.raises(InputError, match=culprit) as caught:
        split_by_label(LABELS, **({"clients": 20, "alpha": 1.0, "seed": 1} | options))
    assert "\n" not in str(caught.value)
