"""A smaller model of Federated Dropout computes what the whole one does with the other units silenced."""

import pytest
import torch
from torch import nn

from wirebound.errors import InputError
from wirebound.techniques.federated.flat import FlatModel
from wirebound.techniques.federated.submodel import SubModels
from wirebound.techniques.learning.data import data_set
from wirebound.techniques.learning.models import learning_model


@pytest.mark.parametrize(("data_name", "model_name"), [("digits", "mlp"), ("mnist", "cnn")])
def test_it_is_the_whole_model_with_units_silenced(data_name: str, model_name: str):
    data = data_set(data_name)
    module = learning_model(model_name, data, seed=3)
    whole = FlatModel(module)
    smaller = SubModels(module, 0.75)
    cut = smaller.draw(torch.Generator().manual_seed(1))
    cut.model.weights.copy_(whole.weights[cut.places])
    inputs = data.test_inputs[:5]
    got = cut.model.module(inputs)

    values = inputs
    held = torch.zeros(len(whole.weights), dtype=torch.bool)
    held[cut.places] = True
    sizes = [parameter.numel() for parameter in module.parameters()]
    biases = torch.split(held, sizes)[1::2]  # a unit is kept where its bias is
    last = max(index for index, layer in enumerate(module) if isinstance(layer, nn.Linear | nn.Conv2d))
    layers = iter(biases)
    for index, layer in enumerate(module):
        values = layer(values)
        if isinstance(layer, nn.Linear | nn.Conv2d):
            kept = next(layers)
            if index == last:
                assert kept.all()
            else:
                factor = kept / kept.float().mean()
                values = values * factor.view(1, -1, *[1] * (values.dim() - 2))
    assert torch.allclose(got, values, atol=1e-5)


def test_it_is_smaller_by_both_widths():
    data = data_set("digits")
    smaller = SubModels(learning_model("mlp", data, seed=1), 0.5)
    assert len(smaller.model.weights) == 64 * 64 + 64 + 64 * 32 + 32 + 32 * 10 + 10
    assert smaller.model.shapes == [(64, 64), (64,), (32, 64), (32,), (10, 32), (10,)]


def test_with_all_units_it_is_the_model():
    data = data_set("digits")
    cut = SubModels(learning_model("mlp", data, seed=1), 1.0).draw(torch.Generator().manual_seed(1))
    assert torch.equal(cut.places, torch.arange(len(cut.places)))


def test_every_unit_is_drawn_sooner_or_later():
    smaller = SubModels(learning_model("mlp", data_set("digits"), seed=1), 0.5)
    seen = torch.zeros(17_226, dtype=torch.bool)
    for seed in range(60):
        places = smaller.draw(torch.Generator().manual_seed(seed)).places
        assert len(places.unique()) == len(places)
        seen[places] = True
    assert seen.all()


def test_other_models_are_refused():
    with pytest.raises(InputError, match="CharacterTransformer"):
        SubModels(learning_model("transformer", data_set("text"), seed=1), 0.5)
