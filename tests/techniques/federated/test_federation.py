"""Federated averaging is gradient descent where it must be, and a run is the same for the same seed."""

import dataclasses
import math

import pytest
import torch
from torch.nn import functional

from wirebound.errors import InputError
from wirebound.techniques.federated.client import LocalTraining, train_locally
from wirebound.techniques.federated.exchange import Exchange
from wirebound.techniques.federated.flat import FlatModel
from wirebound.techniques.federated.reduction import reduction_named
from wirebound.techniques.federated.simulation import Federation, run_federation
from wirebound.techniques.federated.split import split_by_label
from wirebound.techniques.learning.data import DataSet, data_set
from wirebound.techniques.learning.models import learning_model

WEIGHTS = 64 * 128 + 128 + 128 * 64 + 64 + 64 * 10 + 10
ONE_STEP = LocalTraining(epochs=1, batch=None, learning_rate=0.3)


@pytest.fixture(scope="module")
def digits() -> DataSet:
    return data_set("digits")


def changes(exchange: Exchange, data: DataSet, owned: list[torch.Tensor], how: LocalTraining, round_number: int):
    uploads = []
    for client, places in enumerate(owned):
        assignment = exchange.hand_out(round_number, client)
        random = torch.Generator().manual_seed(client)
        change = train_locally(
            assignment.model, data.inputs[places], data.targets[places], how, random, assignment.subspace
        )
        uploads.append(exchange.encode(assignment, change, len(places)))
    return uploads


def test_one_full_step_of_all_clients_is_gradient_descent_on_all_data(digits: DataSet):
    """The mean of the clients' gradients, weighted by samples, is the gradient of the mean over all samples."""
    owned = split_by_label(digits.targets, 10, 0.5, seed=2)
    assert len({len(places) for places in owned}) > 5
    exchange = Exchange(reduction_named("none"), learning_model("mlp", digits, seed=4), seed=1)
    plain = learning_model("mlp", digits, seed=4)
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.3)
    for round_number in range(5):
        exchange.merge(changes(exchange, digits, owned, ONE_STEP, round_number))
        optimizer.zero_grad()
        functional.cross_entropy(plain(digits.inputs), digits.targets).backward()
        optimizer.step()
    wanted = torch.cat([parameter.detach().view(-1) for parameter in plain.parameters()])
    assert torch.allclose(exchange.weights, wanted, atol=2e-6)


def test_a_client_is_plain_sgd(digits: DataSet):
    module = learning_model("mlp", digits, seed=4)
    model, inputs, targets = FlatModel(module), digits.inputs[:50], digits.targets[:50]
    how = LocalTraining(epochs=2, batch=20, learning_rate=0.1, proximal=0.5)
    change = train_locally(model, inputs, targets, how, torch.Generator().manual_seed(9))
    plain = learning_model("mlp", digits, seed=4)
    start = [parameter.detach().clone() for parameter in plain.parameters()]
    random = torch.Generator().manual_seed(9)
    for _ in range(2):
        order = torch.randperm(50, generator=random)
        for chosen in (order[:20], order[20:40], order[40:]):
            loss = functional.cross_entropy(plain(inputs[chosen]), targets[chosen])
            pull = sum((now - then).square().sum() for now, then in zip(plain.parameters(), start, strict=True))
            slopes = torch.autograd.grad(loss + 0.25 * pull, list(plain.parameters()))
            with torch.no_grad():
                for parameter, slope in zip(plain.parameters(), slopes, strict=True):
                    parameter -= 0.1 * slope
    moved = [(now - then).detach().view(-1) for now, then in zip(plain.parameters(), start, strict=True)]
    assert torch.allclose(change, torch.cat(moved), atol=1e-5)


@pytest.mark.parametrize("name", ["mask:1", "subsample:1", "topk:1", "dropout:1", "lowrank:128"])
def test_a_reduction_that_keeps_everything_changes_nothing(digits: DataSet, name: str):
    owned = split_by_label(digits.targets, 4, 1.0, seed=2)
    how = LocalTraining(epochs=1, batch=50, learning_rate=0.1)
    results = []
    for reduction in ("none", name):
        exchange = Exchange(reduction_named(reduction), learning_model("mlp", digits, seed=4), seed=1)
        exchange.merge(changes(exchange, digits, owned, how, 1))
        results.append(exchange.weights)
    assert torch.allclose(*results, atol=1e-5)


def test_a_structured_update_stays_in_its_subspace(digits: DataSet):
    exchange = Exchange(reduction_named("mask:0.1"), learning_model("mlp", digits, seed=4), seed=1)
    before = exchange.weights.clone()
    owned = split_by_label(digits.targets, 3, math.inf, seed=2)[:1]
    exchange.merge(changes(exchange, digits, owned, LocalTraining(), 1))
    moved = (exchange.weights != before).sum()
    assert 0 < moved <= math.ceil(0.1 * WEIGHTS)


def test_of_dropout_a_weight_is_averaged_over_the_clients_that_had_it(digits: DataSet):
    exchange = Exchange(reduction_named("dropout:0.5"), learning_model("mlp", digits, seed=4), seed=1)
    before = exchange.weights.clone()
    assignments = [exchange.hand_out(1, client) for client in range(2)]
    uploads = [
        exchange.encode(assignment, torch.full((len(assignment.model.weights),), value), samples)
        for assignment, value, samples in zip(assignments, (1.0, 4.0), (30, 10), strict=True)
    ]
    exchange.merge(uploads)
    had = [torch.zeros(WEIGHTS, dtype=torch.bool) for _ in assignments]
    for held, assignment in zip(had, assignments, strict=True):
        held[assignment.places] = True
    wanted = torch.zeros(WEIGHTS)
    wanted[had[0] & ~had[1]], wanted[had[1] & ~had[0]] = 1.0, 4.0
    wanted[had[0] & had[1]] = (30 * 1.0 + 10 * 4.0) / 40
    assert (had[0] & had[1]).any()
    assert torch.allclose(exchange.weights - before, wanted, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "uplink", "downlink"),
    [
        ("none", 4 * WEIGHTS, 4 * WEIGHTS),
        ("quantize:1", 8 * 34 + math.ceil(WEIGHTS / 8), 4 * WEIGHTS),
        ("rotated:2", 8 * 34 + 34 * 128, 4 * WEIGHTS),
        ("topk-feedback:0.05", 8 * math.ceil(0.05 * WEIGHTS), 4 * WEIGHTS),
        ("mask:0.25", 4 * math.ceil(0.25 * WEIGHTS), 4 * WEIGHTS),
        ("lowrank:8", 4 * (8 * 64 + 128 + 8 * 128 + 64 + 8 * 64 + 10), 4 * WEIGHTS),
        ("sketch:0.4", 4 * 5 * math.ceil(math.ceil(0.4 * WEIGHTS) / 5), 4 * WEIGHTS),
        ("dropout:0.5", 4 * 6570, 4 * 6570),
        ("dropout:0.5+mask:0.1", 4 * 657, 4 * 6570),
        ("dropout:0.5+quantize:1", 8 * 13 + math.ceil(6570 / 8), 4 * 6570),
    ],
)
def test_bytes_are_those_of_the_layouts_and_the_seed_decides(digits: DataSet, name: str, uplink: int, downlink: int):
    how = Federation(model="mlp", rounds=3, evaluate_every=3, per_round=4, alpha=1.0, reduction=name, seed=7)
    run = run_federation(digits, how)
    assert (run.uplink_bytes, run.downlink_bytes) == (uplink, downlink)
    again = run_federation(digits, how)
    assert (run.points, run.sizes, run.sampled) == (again.points, again.sizes, again.sampled)
    assert run.points != run_federation(digits, dataclasses.replace(how, seed=8)).points


def test_it_learns(digits: DataSet):
    heard = []
    how = Federation(model="mlp", rounds=25, evaluate_every=10, local=LocalTraining(learning_rate=0.2))
    run = run_federation(digits, how, heard.append)
    assert [point.round_number for point in run.points] == [10, 20, 25]
    assert list(run.points) == heard
    assert run.points[-1].accuracy > 0.85
    assert sum(run.sizes) == len(digits.targets)
    assert len(run.sampled) == 25


@pytest.mark.parametrize(
    ("name", "culprit"),
    [
        ("topk", "'topk' needs a number"),
        ("tokp:0.1", "did you mean 'topk'"),
        ("topk:2", "share = 2"),
        ("lowrank:1.5", "whole number"),
        ("quantize:0", "bits = 0"),
        ("dropout:0", "share = 0"),
        ("mask:0.1+lowrank:4", "does not go with"),
        ("topk:0.1+quantize:1", "does not go with"),
        ("dropout:0.5+dropout:0.5", "does not go with"),
        ("sketch:0.2+dropout:0.5", "does not go with"),
        ("dropout:0.5+none", "does not go with"),
        ("none:1", "no number"),
        ("sketch:0", "share = 0"),
        ("quantize:inf", "whole number"),
    ],
)
def test_reductions_that_do_not_exist_are_named_in_one_line(name: str, culprit: str):
    with pytest.raises(InputError, match=culprit) as caught:
        reduction_named(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "culprit"),
    [
        (lambda data: LocalTraining(epochs=0), "epochs = 0"),
        (lambda data: LocalTraining(batch=0), "batch = 0"),
        (lambda data: LocalTraining(learning_rate=math.nan), "learning_rate"),
        (lambda data: LocalTraining(proximal=-1.0), "proximal"),
        (lambda data: Federation(model="mlp", rounds=0), "rounds = 0"),
        (lambda data: run_federation(data, Federation(model="mlp", per_round=41, rounds=1)), "per_round = 41"),
        (lambda data: run_federation(data, Federation(model="mlp", reduction="lowrank:0", rounds=1)), "rank = 0"),
        (lambda data: run_federation(data, Federation(model="cnm", rounds=1)), "'cnm'"),
    ],
)
def test_settings_out_of_range_are_named_in_one_line(digits: DataSet, make, culprit: str):
    with pytest.raises(InputError, match=culprit) as caught:
        make(digits)
    assert "\n" not in str(caught.value)
