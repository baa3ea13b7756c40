"""Which tensors to compress, and how strongly: as short a step as possible, with as few values lost as possible.

Compression saves time only where communication is exposed, that is after backward has ended, and where coding costs
the device less than the network is spared; every value that stays on the worker is a risk for what is learned. The two
aims in this order:

1. the step is as short as possible (or, with `within` > 0, at most so much longer than the shortest that was found);
2. of all choices that reach this, the one that loses the fewest values.

A value is lost where a sparse compressor does not send it; other compressors round every value, and all values of a
tensor count. The search is greedy: from nothing compressed, and from everything compressed by the option that is
fastest so, it changes one tensor at a time. So the choice is never slower than nothing, nor than everything compressed
by any option, and no tensor of it can be given back. It need not be the best of all: hiding what is exposed with the
fewest values is a knapsack problem.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from wirebound.errors import InputError
from wirebound.model import Cluster, Compressor, Method, Step, Workload
from wirebound.simulate.compressors import gradient_of, payload_bytes, rule_of
from wirebound.simulate.step import simulate_step

#: Steps this close are equally long: the engine's sums are exact to about 1e-12.
EQUAL = 1e-9
#: Passes over all tensors that find nothing better end the search; no search takes more than this.
_MOST_PASSES = 20


@dataclass(frozen=True, slots=True)
class RatioChoice:
    """Compressors by tensor, for `Method.compressors_by_tensor`, and what they do.

    `compressed_share` is the share of the workload's values in tensors that are compressed, `lost_share` the share of
    its values that are lost (see the module). `simulations` counts the steps that the search simulated.
    """

    compressors_by_tensor: tuple[tuple[str, Compressor | None], ...]
    step: Step
    compressed_share: float
    lost_share: float
    simulations: int

    def applied_to(self, method: Method) -> Method:
        """Return the method with these compressors."""
        return replace(method, compressor=None, compressors_by_tensor=self.compressors_by_tensor)


def lost_values(workload: Workload, compressor: Compressor | None) -> tuple[int, ...]:
    """Return for each tensor how many of its values a compressor loses: all but the kept ones, or all it rounds."""
    if compressor is None:
        return (0,) * len(workload.tensors)
    sparse = rule_of(compressor).kind == "share"
    lost = []
    for tensor in workload.tensors:
        gradient = gradient_of(workload, tensor)
        if payload_bytes(compressor, gradient) is None:
            lost.append(0)
        elif sparse:
            kept = min(gradient.elements, max(1, math.ceil(compressor.parameter * gradient.elements)))
            lost.append(gradient.elements - kept)
        else:
            lost.append(gradient.elements)
    return tuple(lost)


def choose_ratios(
    workload: Workload,
    cluster: Cluster,
    method: Method,
    options: Sequence[Compressor],
    *,
    within: float = 0.0,
    include_vector_add: bool = True,
) -> RatioChoice:
    """Choose a compressor, or none, for each tensor: see the module.

    `options` are compressors, usually one with several shares, each with its `codec`; `method` has none of its own.
    Tensors of any size may be chosen, whatever the method's `compress_from_bytes`.
    `within` 0.01 accepts a step one percent longer than the shortest found, and loses fewer values for it.

    Raises `InputError` where there is no option, the method compresses already or `within` is negative, and what
    `simulate_step` raises.
    """
    if not options:
        raise InputError("no compressor to choose from: give at least one option")
    if method.compresses or method.compression != 1:
        raise InputError(f"{method.name} compresses already: give a method without compression")
    if not (math.isfinite(within) and within >= 0):
        raise InputError(f"within = {within} must be finite and not negative")
    search = _Search(workload, cluster, method, options, include_vector_add)
    nothing, *everything = ([option] * len(workload.tensors) for option in range(len(options) + 1))
    found = [search.shortened(start) for start in (nothing, min(everything, key=search.seconds))]
    shortest_s = min(search.seconds(choice) for choice in found)
    limit_s = shortest_s * (1 + within)
    # A start may be good enough as it is: nothing compressed where the network is fast.
    candidates = [choice for choice in (nothing, *found) if search.seconds(choice) <= limit_s * (1 + EQUAL)]
    best = min((search.spared(choice, limit_s) for choice in candidates), key=search.merit)
    return search.result(best)


class _Search:
    """Choices are lists with the number of an option for each tensor, 0 for none."""

    def __init__(
        self,
        workload: Workload,
        cluster: Cluster,
        method: Method,
        options: Sequence[Compressor],
        include_vector_add: bool,
    ) -> None:
        self._workload, self._cluster, self._method = workload, cluster, method
        self._options: list[Compressor | None] = [None, *options]
        self._include_vector_add = include_vector_add
        self._lost = [lost_values(workload, option) for option in self._options]
        self._known: dict[tuple[int, ...], float] = {}
        self._order = sorted(range(len(workload.tensors)), key=lambda tensor: -workload.sizes[tensor])

    def seconds(self, choice: Sequence[int]) -> float:
        key = tuple(choice)
        if key not in self._known:
            self._known[key] = self._step(choice).iteration_s
        return self._known[key]

    def lost(self, choice: Sequence[int]) -> int:
        return sum(self._lost[option][tensor] for tensor, option in enumerate(choice))

    def merit(self, choice: Sequence[int]) -> tuple[int, float]:
        """What the second aim compares: values lost, then seconds."""
        return self.lost(choice), self.seconds(choice)

    def shortened(self, start: Sequence[int]) -> list[int]:
        """Change single tensors, the largest first, while that shortens the step."""
        choice, best_s = list(start), self.seconds(start)
        for _ in range(_MOST_PASSES):
            improved = False
            for tensor in self._order:
                if best_s <= self._workload.compute_s * (1 + EQUAL):
                    return choice  # nothing is exposed
                for option in range(len(self._options)):
                    if option == choice[tensor]:
                        continue
                    other = [*choice[:tensor], option, *choice[tensor + 1 :]]
                    if self.seconds(other) < best_s * (1 - EQUAL):
                        choice, best_s, improved = other, self.seconds(other), True
            if not improved:
                break
        return choice

    def spared(self, start: Sequence[int], limit_s: float) -> list[int]:
        """Give back what is not needed, the most values first, while the step stays within `limit_s`."""
        choice = list(start)
        for _ in range(_MOST_PASSES):
            gains = [
                (self._lost[choice[tensor]][tensor] - self._lost[option][tensor], tensor, option)
                for tensor in range(len(choice))
                for option in range(len(self._options))
            ]
            improved = False
            for _, tensor, option in sorted((gain for gain in gains if gain[0] > 0), key=lambda g: (-g[0], g[1], g[2])):
                if self._lost[option][tensor] >= self._lost[choice[tensor]][tensor]:
                    continue  # a milder option was found meanwhile
                other = [*choice[:tensor], option, *choice[tensor + 1 :]]
                if self.seconds(other) <= limit_s * (1 + EQUAL):
                    choice, improved = other, True
            if not improved:
                break
        return choice

    def result(self, choice: Sequence[int]) -> RatioChoice:
        values = [gradient_of(self._workload, tensor).elements for tensor in self._workload.tensors]
        touched = sum(count for count, option in zip(values, choice, strict=True) if option)
        return RatioChoice(
            self._named(choice),
            self._step(choice),
            touched / sum(values),
            self.lost(choice) / sum(values),
            len(self._known),
        )

    def _named(self, choice: Sequence[int]) -> tuple[tuple[str, Compressor | None], ...]:
        tensors = self._workload.tensors
        return tuple((tensors[at].name, self._options[option]) for at, option in enumerate(choice) if option)

    def _step(self, choice: Sequence[int]) -> Step:
        method = replace(self._method, compressors_by_tensor=self._named(choice))
        return simulate_step(self._workload, self._cluster, method, include_vector_add=self._include_vector_add)
