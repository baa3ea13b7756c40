"""From floating-point operations to times, for networks that nobody measured: calibrated on published layer times.

A layer of F operations and V output values, over the whole batch, takes a·F + m·V + o seconds: arithmetic at an
effective rate, memory traffic, and an overhead of its own. Normalizations have next to no operations and much traffic:
in the published ResNets they take 22 to 29 % of backward.

a, m, o ≥ 0 minimize Σ (measured − fitted)²/fitted by reweighting: a quasi-likelihood whose variance grows with the mean
(McCullagh and Nelder, Generalized Linear Models, chapter 9). Relative errors count by the time of their layer, and the
total of the calibration comes out exactly.

Times of a layer include those of the layers without parameters behind it, whose backward runs first. F and V are
those of the forward pass, for both directions.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from wirebound.errors import InputError, unknown_name
from wirebound.model import Workload
from wirebound.model.layer_cost import LayerCost, costed_workload, image_layer_counts, layers_of
from wirebound.model.library import builtin_workload, read_published

Array = NDArray[np.float64]

#: The terms of a layer's time, by name. ``rate`` alone is time in proportion to operations.
TERMS = ("rate", "traffic", "overhead")
#: Networks on images that both the architectures and the calibration know the layers of.
IMAGE_NETWORKS = ("resnet18", "resnet50", "resnet101", "vgg16")
_ZHANG = ("resnet50", "resnet101", "vgg16")
_ROUNDS = 50


@dataclass(frozen=True, slots=True)
class LayerTime:
    """One measured layer, in the order of backward: `flops` and `values` of the whole batch, times in seconds.

    `forward_s` is None where it was not measured.
    """

    flops: float
    values: float
    backward_s: float
    forward_s: float | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """The layers of one network in one measurement.

    `batch_known` is false where the source does not tell the batch: then `flops` and `values` are those of one sample,
    and only shares of the whole can be compared.
    """

    name: str
    network: str
    layers: tuple[LayerTime, ...]
    batch_known: bool

    @property
    def backward_s(self) -> float:
        """Seconds of the whole backward pass."""
        return sum(layer.backward_s for layer in self.layers)


@dataclass(frozen=True, slots=True)
class HeldOut:
    """How well a network's backward was predicted from other networks.

    `total_error` is predicted ÷ measured − 1 of its length, None where the batch is not known. `curve_error` is the
    largest distance between predicted and measured ready time, as shares of backward, over the layers.
    """

    series: str
    network: str
    total_error: float | None
    curve_error: float


def fit_layer_cost(
    flops: Sequence[float], values: Sequence[float], times_s: Sequence[float], *, terms: Iterable[str] = TERMS
) -> LayerCost:
    """Fit the given `terms` of a layer's time to measured layers; the other terms are 0.

    Raises `InputError` for an unknown term, unequal lengths, fewer layers than terms, or times that are all 0.
    """
    chosen = tuple(terms)
    for term in chosen:
        if term not in TERMS:
            raise unknown_name("term", term, TERMS)
    if not len(flops) == len(values) == len(times_s):
        raise InputError(
            f"{len(flops)} operations, {len(values)} values, {len(times_s)} times: give one of each a layer"
        )
    if not chosen or len(times_s) < len(chosen):
        raise InputError(f"{len(times_s)} layers do not fix {len(chosen)} terms: give more layers")
    columns = {
        "rate": np.asarray(flops, dtype=float),
        "traffic": np.asarray(values, dtype=float),
        "overhead": np.ones(len(times_s)),
    }
    times = np.asarray(times_s, dtype=float)
    if times.sum() <= 0 or any(columns[term].sum() <= 0 for term in chosen):
        raise InputError("the layers have no times, or nothing of one of the terms: nothing can be fitted")
    # Each column is scaled to the total time, so that the solver's numbers are near 1.
    units = np.array([times.sum() / columns[term].sum() for term in chosen])
    design = np.column_stack([columns[term] for term in chosen]) * units
    found = _quasi_likelihood(design, times) * units
    cost = dict.fromkeys(TERMS, 0.0) | dict(zip(chosen, found.tolist(), strict=True))
    return LayerCost(cost["rate"], cost["traffic"], cost["overhead"])


def _quasi_likelihood(design: Array, times: Array) -> Array:
    """Minimize Σ (t − μ)²/μ over μ = design·x, x ≥ 0, by reweighting until the weights are those of the solution."""
    least = 1e-6 * float(times.mean())
    found, _ = nnls(design, times)
    for _ in range(_ROUNDS):
        weight = 1 / np.sqrt(np.maximum(design @ found, least))
        found, _ = nnls(design * weight[:, None], times * weight)
    return np.asarray(found)


@cache
def published_series() -> tuple[Series, ...]:
    """Return all published layer times: those of `layer_times.csv`, and the gaps of Zhang et al. by layer."""
    found = []
    for name, group in itertools.groupby(read_published("layer_times.csv"), key=lambda row: row["series"]):
        rows = list(group)
        batch = int(rows[0]["samples"] or 1)
        layers = tuple(
            LayerTime(
                flops=batch * float(row["forward_flops"]),
                values=batch * float(row["output_values"]),
                backward_s=float(row["backward_us"]) * 1e-6,
                forward_s=float(row["forward_us"]) * 1e-6 if row["forward_us"] else None,
            )
            for row in rows
        )
        found.append(Series(name, rows[0]["network"], layers, batch_known=bool(rows[0]["samples"])))
    return (*found, *(_zhang_series(name) for name in _ZHANG))


def _zhang_series(name: str) -> Series:
    workload = builtin_workload(name)
    layers, position = [], 0
    for _, parameters in layers_of(name):
        end = position + len(parameters)
        seconds = sum(tensor.gap_s for tensor in workload.tensors[position:end])
        flops, values = image_layer_counts(parameters)
        layers.append(LayerTime(workload.batch_size * flops, workload.batch_size * values, seconds))
        position = end
    return Series(f"zhang-{name}", name, tuple(layers), batch_known=True)


def layer_cost(
    direction: str = "backward", *, without: Iterable[str] = (), terms: Iterable[str] = TERMS, batch_known: bool = True
) -> LayerCost:
    """Calibrate on all published series but those of the networks `without`, ``forward`` or ``backward``.

    Of a forward pass the first layer is left out: it includes the measuring program's start. Raises `InputError` for
    another direction, or where nothing is left to calibrate on.
    """
    if direction not in ("forward", "backward"):
        raise unknown_name("direction", direction, ("forward", "backward"))
    left_out = set(without)
    layers: list[tuple[LayerTime, float]] = []
    for series in published_series():
        if series.network in left_out or series.batch_known != batch_known:
            continue
        if direction == "backward":
            layers += [(layer, layer.backward_s) for layer in series.layers]
        else:
            layers += [(layer, layer.forward_s) for layer in series.layers[:-1] if layer.forward_s is not None]
    if not layers:
        raise InputError(f"no published {direction} times are left without {', '.join(sorted(left_out))}")
    return fit_layer_cost(
        [layer.flops for layer, _ in layers],
        [layer.values for layer, _ in layers],
        [seconds for _, seconds in layers],
        terms=terms,
    )


def held_out_errors(terms: Iterable[str] = TERMS) -> tuple[HeldOut, ...]:
    """Predict every published series from all others that are not of its network, with the given terms.

    Series whose batch is known and those whose batch is not are calibrated apart.
    """
    chosen = tuple(terms)
    errors = []
    for series in published_series():
        cost = layer_cost(without=(series.network,), terms=chosen, batch_known=series.batch_known)
        predicted = np.array([cost.time_s(layer.flops, layer.values) for layer in series.layers])
        measured = np.array([layer.backward_s for layer in series.layers])
        curves = np.cumsum(predicted) / predicted.sum() - np.cumsum(measured) / measured.sum()
        total = float(predicted.sum() / measured.sum() - 1) if series.batch_known else None
        errors.append(HeldOut(series.name, series.network, total, float(np.abs(curves).max())))
    return tuple(errors)


def estimated_workload(name: str, batch_size: int = 32, *, without: Iterable[str] = ()) -> Workload:
    """Return the image network `name` with times estimated from its layers, as the published GPUs run it.

    `without` leaves networks out of the calibration, such as the network itself where it was measured. Raises
    `InputError` for a network that is not one of `IMAGE_NETWORKS`: no published series tells the batch of another kind.
    """
    if name not in IMAGE_NETWORKS:
        raise unknown_name("network to estimate", name, IMAGE_NETWORKS)
    left_out = tuple(without)
    backward = layer_cost("backward", without=left_out)
    # The forward times were taken with a wait after every layer, so that even the smallest takes 0.3 ms.
    forward = dataclasses.replace(layer_cost("forward", without=left_out), per_layer_s=0.0)
    return costed_workload(name, batch_size, backward=backward, forward=forward)
