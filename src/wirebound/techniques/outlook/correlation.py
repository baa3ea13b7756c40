"""How much one gradient tells about the next: direction, and the energy of their difference; and neighbours in space.

With cosine c between two gradients of equal norm, the difference has 2(1 − c) times the energy of either: sending it
instead saves something only from c > 0.5 on. The best multiple of the last gradient leaves 1 − c² of the energy.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(slots=True)
class TimeCorrelation:
    """Watches one worker's gradients (see `train.Watcher`), from step to step, tensor by tensor.

    Rows of `rows` are (step, tensor, cosine with the gradient before, energy of the difference, that of the gradient);
    energies are sums of squares. Tensors or steps with a gradient of zeros are left out.
    """

    worker: int = 0
    rows: list[tuple[int, str, float, float, float]] = field(default_factory=list)
    _last: dict[str, Tensor] = field(default_factory=dict)

    def __call__(self, step: int, gradients: Mapping[str, list[Tensor]]) -> None:
        for name, of_workers in gradients.items():
            gradient = of_workers[self.worker].detach().flatten().double()
            before = self._last.get(name)
            if before is not None:
                energy, energy_before = float(gradient @ gradient), float(before @ before)
                if energy > 0 and energy_before > 0:
                    difference = gradient - before
                    cosine = float(gradient @ before) / (energy * energy_before) ** 0.5
                    self.rows.append((step, name, cosine, float(difference @ difference), energy))
            self._last[name] = gradient


def neighbour_correlation(gradient: Tensor) -> float | None:
    """Return the correlation of values that lie side by side in the last dimension, None where there are none.

    In a layer's weights these belong to inputs that lie side by side: the pixels of an image, the taps of a kernel.
    """
    if gradient.dim() < 2 or gradient.shape[-1] < 2:
        return None
    left, right = gradient[..., :-1].flatten().double(), gradient[..., 1:].flatten().double()
    left, right = left - left.mean(), right - right.mean()
    norms = float(torch.linalg.vector_norm(left) * torch.linalg.vector_norm(right))
    return float(left @ right) / norms if norms > 0 else None
