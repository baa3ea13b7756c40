"""Built-in workloads, read from the published tables that ship with the package.

Measured: the per-tensor backward gaps of Zhang et al. (2020) on one V100, batch 32 per GPU. The layers of ResNet-18
have the times that such layers take in published measurements (`wirebound.model.layer_cost`). Those of BERT share out
a measured total in proportion to floating-point operations. `Workload.timing` and `Workload.source` say so.
"""

import csv
import itertools
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from wirebound.errors import InputError, unknown_name
from wirebound.model.architectures import backward_order, forward_flops, parameters_of
from wirebound.model.layer_cost import costed_workload
from wirebound.model.workload import Tensor, Workload

_MEASURED = ("resnet50", "resnet101", "vgg16")
_NAMES = ("resnet18", *_MEASURED, "bert-base", "bert-large")
_ZHANG = "Zhang et al. 2020: gaps measured on one V100"
#: Backward does the work of the forward pass twice: gradients of the inputs and of the weights.
_BACKWARD_PER_FORWARD = 2.0


def data_folder() -> Traversable:
    """Return the folder that holds ``datapackage.json`` and ``published``: the package's, or a checkout's ``data``.

    Raises `InputError` when neither is there.
    """
    folders: tuple[Traversable, ...] = (files("wirebound"), Path(__file__).parents[3] / "data")
    for folder in folders:
        if (folder / "published").is_dir():
            return folder
    raise InputError("the published tables are missing: install wirebound again")


def published_file(name: str) -> Traversable:
    """Return the published table `name`, such as ``"shi2020_throughput.csv"``; raises `InputError` for another name."""
    folder = data_folder() / "published"
    if name not in (names := sorted(entry.name for entry in folder.iterdir())):
        raise InputError(f"no published table {name!r}: there are {', '.join(names)}")
    return folder / name


def read_published(name: str) -> list[dict[str, str]]:
    """Return the rows of a published table, one dictionary of text cells a row; raises as `published_file` does."""
    return list(csv.DictReader(published_file(name).read_text(encoding="utf-8").splitlines()))


def builtin_names() -> tuple[str, ...]:
    """Return the names of the built-in workloads."""
    return _NAMES


@cache
def builtin_workload(name: str) -> Workload:
    """Return the built-in workload `name`; raises `InputError` with the closest name for an unknown one."""
    if name not in _NAMES:
        raise unknown_name("workload", name, _NAMES)
    if name in _MEASURED:
        return _measured(name)
    if name == "resnet18":
        return costed_workload(name, _measured("resnet50").batch_size)
    row = next(row for row in read_published("shi2020_throughput.csv") if row["workload"] == name)
    batch_size = int(row["samples_per_gpu"])
    source = "total from the one-GPU throughput of Shi et al. 2020"
    return _flop_proportional(name, batch_size, batch_size / float(row["single_gpu_per_s"]), source)


def _measured(name: str) -> Workload:
    """A workload of Zhang et al.; the time before backward is the iteration time less all gaps."""
    shapes = {parameter.name: parameter.shape for parameter in parameters_of(name)}
    tensors = tuple(
        Tensor(row["tensor"], int(row["size_bytes"]), float(row["gap_us"]) * 1e-6, shape=shapes[row["tensor"]])
        for row in read_published("zhang2020_backward.csv")
        if row["workload"] == name
    )
    compute = next(row for row in read_published("zhang2020_compute.csv") if row["workload"] == name)
    vector_add = tuple(
        (float(row["vector_bytes"]), float(row["add_us"]) * 1e-6) for row in read_published("zhang2020_vector_add.csv")
    )
    return Workload(
        name=name,
        batch_size=int(compute["samples_per_gpu"]),
        tensors=tensors,
        forward_s=float(compute["iteration_ms"]) * 1e-3 - sum(tensor.gap_s for tensor in tensors),
        timing="measured",
        vector_add=vector_add,
        source=_ZHANG,
    )


def _flop_proportional(name: str, batch_size: int, compute_s: float, source: str) -> Workload:
    """Share `compute_s` seconds out over forward and backward, and backward over the layers by their operations.

    A layer's gradients become ready together when its backward is done, as the measured gaps show: the whole gap is
    that of its first tensor.
    """
    forward_s = compute_s / (1 + _BACKWARD_PER_FORWARD)
    seconds_per_flop = (compute_s - forward_s) / forward_flops(name)
    tensors = []
    for _, layer in itertools.groupby(backward_order(name), key=lambda parameter: parameter.layer):
        parameters = list(layer)
        gap_s = seconds_per_flop * sum(parameter.forward_flops for parameter in parameters)
        for parameter in parameters:
            tensors.append(Tensor(parameter.name, parameter.size, gap_s, shape=parameter.shape))
            gap_s = 0.0
    return Workload(
        name=name,
        batch_size=batch_size,
        tensors=tuple(tensors),
        forward_s=forward_s,
        timing="flop-proportional",
        source=source,
    )
