"""Federated Dropout (Caldas et al. 2018): each client trains a smaller model, cut out of the server's.

Each hidden layer keeps a random share of its units (of a convolution: filters), with their rows and the next layer's
columns; inputs and outputs stay whole. What is sent, in both directions, is the smaller model's vector. While it
trains, what a thinned layer puts out is multiplied by width ÷ units kept, as in dropout (Srivastava et al. 2014): the
next layer sees sums of the size that it sees in the whole model.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from wirebound.errors import InputError
from wirebound.techniques.compress.gradient import checked_share
from wirebound.techniques.federated.flat import FlatModel


class Scale(nn.Module):
    """Multiply by a constant."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, values: Tensor) -> Tensor:
        return values * self.factor


@dataclass(frozen=True, slots=True)
class SubModel:
    """A smaller model, and where its weights lie in the vector of the whole one: int64, one place for each."""

    model: FlatModel
    places: Tensor


class SubModels:
    """Cuts smaller models out of a `Sequential` of linear layers, two-dimensional convolutions and what lies between.

    Raises `InputError` for another kind of module.
    """

    def __init__(self, module: nn.Module, share: float) -> None:
        checked_share(share)
        if not isinstance(module, nn.Sequential):
            raise InputError(f"Federated Dropout cuts models that are a Sequential, not a {type(module).__name__}")
        self.layers = [layer for layer in module if isinstance(layer, nn.Linear | nn.Conv2d)]
        self.widths = [layer.weight.shape[0] for layer in self.layers]
        self.kept = [math.ceil(share * width) for width in self.widths[:-1]] + self.widths[-1:]
        self.model = FlatModel(self._smaller(module))

    def _smaller(self, module: nn.Sequential) -> nn.Sequential:
        layers: list[nn.Module] = []
        units, width = 0, 0  # of the layer before: kept, and whole
        remaining = iter(zip(self.widths, self.kept, strict=True))
        for layer in module:
            if not isinstance(layer, nn.Linear | nn.Conv2d):
                layers.append(layer)
                continue
            inputs = layer.weight.shape[1] if not width else layer.weight.shape[1] // width * units
            if width:
                layers.append(Scale(width / units))
            width, units = next(remaining)
            if isinstance(layer, nn.Linear):
                layers.append(nn.Linear(inputs, units))
            else:
                layers.append(nn.Conv2d(inputs, units, layer.kernel_size, layer.stride, layer.padding))  # type: ignore[arg-type]
        return nn.Sequential(*layers)

    def draw(self, random: torch.Generator) -> SubModel:
        """Return a smaller model with other units; its weights are those of whoever drew before, until they are set."""
        units = [
            torch.arange(width) if count == width else torch.randperm(width, generator=random)[:count].sort().values
            for width, count in zip(self.widths, self.kept, strict=True)
        ]
        return SubModel(self.model, places_of(self.layers, units))


def places_of(layers: Sequence[nn.Linear | nn.Conv2d], units: Sequence[Tensor]) -> Tensor:
    """Return where the weights and biases of the chosen `units` of each layer lie in the vector of all.

    A linear layer behind flattened channels has several columns for each channel.
    """
    first, before = 0, None
    places = []
    for position, (layer, rows) in enumerate(zip(layers, units, strict=True)):
        shape = layer.weight.shape
        where = first + torch.arange(layer.weight.numel()).view(shape)
        chosen = where[rows]
        if before is not None:
            columns = shape[1] // layers[position - 1].weight.shape[0]
            chosen = chosen[:, (before[:, None] * columns + torch.arange(columns)).view(-1)]
        first += layer.weight.numel()
        places += [chosen.reshape(-1), first + rows]
        first += shape[0]
        before = rows
    return torch.cat(places)
