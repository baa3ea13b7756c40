"""A model whose weights are one vector, and so are its gradients: what federated learning sends to and fro."""

import torch
from torch import Tensor, nn

from wirebound.techniques.learning.models import mean_loss


class FlatModel:
    """A module whose parameters are views of `weights`, and their gradients views of `gradient`: fp32, one-dimensional.

    `shapes` are those of the parameters, in the order in which they lie in the vectors.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        parameters = list(module.parameters())
        self.shapes = [tuple(parameter.shape) for parameter in parameters]
        self.weights = torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
        self.gradient = torch.zeros_like(self.weights)
        sizes = [parameter.numel() for parameter in parameters]
        pieces = zip(parameters, torch.split(self.weights, sizes), torch.split(self.gradient, sizes), strict=True)
        for parameter, values, slopes in pieces:
            parameter.data = values.view(parameter.shape)
            parameter.grad = slopes.view(parameter.shape)

    def gradient_of(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Return the gradient of the mean loss of a batch; the next call overwrites it."""
        self.gradient.zero_()
        torch.autograd.backward(mean_loss(self.module, inputs, targets))
        return self.gradient
