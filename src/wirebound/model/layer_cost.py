"""What a layer costs on a GPU like those of the published measurements: the times of networks that nobody timed.

A layer of F operations and V output values, over the whole batch, takes a·F + m·V + o seconds: arithmetic at an
effective rate, memory traffic, and an overhead of its own. `wirebound.fit.flops` calibrates these three on published
layer times, and says how far they are off for networks left out; here are its figures, for those who predict.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from wirebound.model.architectures import Parameter, backward_order
from wirebound.model.workload import Tensor, Workload


@dataclass(frozen=True, slots=True)
class LayerCost:
    """Seconds per operation, per output value and per layer."""

    per_flop_s: float
    per_value_s: float
    per_layer_s: float

    def time_s(self, flops: float, values: float) -> float:
        """Return the seconds of one layer."""
        return self.per_flop_s * flops + self.per_value_s * values + self.per_layer_s


#: Calibrated by `wirebound.fit.flops.layer_cost` on all published layer times; a test holds them equal to it. The
#: forward times were taken with a wait after every layer, so that theirs has no overhead.
BACKWARD = LayerCost(per_flop_s=8.39692e-14, per_value_s=4.90867e-11, per_layer_s=1.073035e-4)
FORWARD = LayerCost(per_flop_s=3.56947e-14, per_value_s=3.34980e-11, per_layer_s=0.0)
ESTIMATE = (
    "estimate from operations, output values and layers, calibrated on layer times of GPUs that PipeDream,"
    " Zhang et al. 2020 and Espresso published"
)


def layers_of(name: str) -> list[tuple[str, list[Parameter]]]:
    """Return each layer's name and parameters, in the order of backward; raises `InputError` for an unknown network."""
    groups = itertools.groupby(backward_order(name), key=lambda parameter: parameter.layer)
    return [(layer, list(parameters)) for layer, parameters in groups]


def image_layer_counts(parameters: Sequence[Parameter]) -> tuple[float, float]:
    """Return the operations and output values of one sample in a layer of an image network."""
    flops = sum(parameter.forward_flops for parameter in parameters)
    for parameter in parameters:
        if len(parameter.shape) > 1:  # a product: two operations for each input of an output value
            return flops, parameter.forward_flops / (2 * math.prod(parameter.shape[1:]))
    return flops, parameters[0].forward_flops  # a normalization's scale: one operation an output value


def costed_workload(
    name: str, batch_size: int, *, backward: LayerCost = BACKWARD, forward: LayerCost = FORWARD
) -> Workload:
    """Return the image network `name` with the times that its layers cost; raises `InputError` for an unknown one."""
    tensors: list[Tensor] = []
    forward_s = 0.0
    for _, parameters in layers_of(name):
        flops, values = (batch_size * count for count in image_layer_counts(parameters))
        forward_s += forward.time_s(flops, values)
        # As the measured gaps show, a layer's gradients become ready together: the gap is that of its first tensor.
        gaps = [backward.time_s(flops, values), *(0.0 for _ in parameters[1:])]
        tensors += [
            Tensor(parameter.name, parameter.size, gap, shape=parameter.shape)
            for parameter, gap in zip(parameters, gaps, strict=True)
        ]
    return Workload(
        name=name,
        batch_size=batch_size,
        tensors=tuple(tensors),
        forward_s=forward_s,
        timing="flop-estimated",
        source=ESTIMATE,
    )
