"""The data are real, the models learn from them, and the same seed gives the same batches."""

import itertools

import pytest
import torch
from torch import nn

from wirebound.errors import InputError
from wirebound.techniques.learning.data import CONTEXT, data_set
from wirebound.techniques.learning.evaluation import endless_batches, evaluate, shard
from wirebound.techniques.learning.models import learning_model, mean_loss


@pytest.mark.parametrize(("name", "shape", "samples"), [("mnist", (1, 28, 28), 5000), ("digits", (1, 8, 8), 1797)])
def test_images_are_split_evenly_over_the_digits(name: str, shape: tuple[int, ...], samples: int) -> None:
    data = data_set(name)
    assert data.inputs.shape[1:] == data.test_inputs.shape[1:] == shape
    assert len(data.inputs) + len(data.test_inputs) == samples
    assert data.inputs.std().item() == pytest.approx(1, abs=1e-3)
    counts = torch.bincount(data.test_targets, minlength=10) / len(data.test_targets)
    assert counts.min() > 0.07
    assert counts.max() < 0.13


def test_text_predicts_the_next_character() -> None:
    data = data_set("text")
    assert data.inputs.shape[1] == CONTEXT
    assert torch.equal(data.inputs[0, 1:], data.targets[0, :-1])
    assert data.targets[0, -1] == data.inputs[1, 0]
    assert int(data.inputs.max()) < data.classes < 128


@pytest.mark.parametrize(
    ("model_name", "data_name", "batch", "gain"),
    [("mlp", "digits", 64, 0.7), ("cnn", "mnist", 64, 0.6), ("transformer", "text", 16, 0.02)],
)
def test_a_model_learns_more_than_the_most_frequent_answer(
    model_name: str, data_name: str, batch: int, gain: float
) -> None:
    data = data_set(data_name)
    model = learning_model(model_name, data, seed=0)
    before = evaluate(model, data, limit=200)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for inputs, targets in itertools.islice(endless_batches(data.inputs, data.targets, batch, seed=0), 100):
        optimizer.zero_grad()
        mean_loss(model, inputs, targets).backward()
        optimizer.step()
    after = evaluate(model, data, limit=200)
    most_frequent = torch.bincount(data.test_targets[:200].flatten()).max().item() / data.test_targets[:200].numel()
    assert after.accuracy > most_frequent + gain
    assert after.loss < before.loss


def test_evaluation_counts_over_all_samples() -> None:
    data = data_set("digits")
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    logits = model(data.test_inputs)
    assert evaluate(model, data).accuracy == pytest.approx(
        (logits.argmax(1) == data.test_targets).float().mean().item()
    )
    assert evaluate(model, data).loss == pytest.approx(nn.functional.cross_entropy(logits, data.test_targets).item())


def test_batches_are_seeded_and_cover_a_shard_once_a_pass() -> None:
    data = data_set("digits")
    inputs, targets = shard(data, worker=1, workers=3)
    assert torch.equal(inputs[0], data.inputs[1])
    first, second, other = (
        list(itertools.islice(endless_batches(inputs, targets, 8, seed), len(inputs) // 8)) for seed in (5, 5, 6)
    )
    assert all(torch.equal(a[0], b[0]) and torch.equal(a[1], b[1]) for a, b in zip(first, second, strict=True))
    assert not all(torch.equal(a[0], b[0]) for a, b in zip(first, other, strict=True))
    seen = torch.cat([batch for batch, _ in first]).flatten(1)
    rows = {tuple(row.tolist()) for row in inputs.flatten(1)}
    assert all(tuple(row.tolist()) in rows for row in seen)


def test_mistakes_are_named() -> None:
    with pytest.raises(InputError, match=r"mnits.*mnist"):
        data_set("mnits")
    with pytest.raises(InputError, match=r"transformer.*text"):
        learning_model("transformer", data_set("digits"), seed=0)
