"""What a sweep varies: the axes by name, checked before anything runs, and the job at a point of them."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wirebound.errors import InputError, unknown_name
from wirebound.model import Method, Workload, method_named
from wirebound.model.library import builtin_workload
from wirebound.simulate.compressors import compressor_named
from wirebound.simulate.job import TrainingJob

#: Fields of `Method` that are axes by their own names.
_METHOD_FIELDS = tuple(
    field.name
    for field in dataclasses.fields(Method)
    if field.name not in ("name", "architecture", "schedule")
    and (field.default is None or isinstance(field.default, str | bool | int | float))
)
#: Axes whose values are names, objects or yes and no; all others are numbers.
_CHOICES = {"workload", "method", "gradient_dtype"} | {
    field.name for field in dataclasses.fields(Method) if field.default is None or isinstance(field.default, str | bool)
}
_WHOLE = {"batch", "nodes", "workers", "accelerators_per_node", "nics_per_node", "servers", "accumulation"}

#: Axes that change what a message costs, but no message.
CLUSTER_AXES = ("accelerators_per_node", "nics_per_node", "nodes", "workers", "intra_bandwidth", "intra_latency")
#: Of these one must fit the other: they are checked in all combinations.
_TOGETHER = ("accelerators_per_node", "nics_per_node", "workers")
#: The names of all axes, in the order in which their values are applied to a job.
AXES = (
    "workload",
    "gradient_dtype",
    "batch",
    "accumulation",
    "method",
    *_METHOD_FIELDS,
    *CLUSTER_AXES,
    "bandwidth",
    "latency",
    "utilization",
)
#: The axes that a kernel loops over itself, outermost first: they change no message and no addition.
NETWORK_AXES = ("compression", "latency", "bandwidth", "utilization")

_LINKS = {
    "bandwidth": ("inter", "bandwidth"),
    "latency": ("inter", "latency_s"),
    "utilization": ("inter", "utilization"),
    "intra_bandwidth": ("intra", "bandwidth"),
    "intra_latency": ("intra", "latency_s"),
}


def job_at(job: TrainingJob, point: Mapping[str, Any]) -> TrainingJob:
    """Return the job with the axes' values at one point of them, applied in the order of `AXES`."""
    for name in AXES:
        if name in point:
            job = _with_value(job, name, point[name])
    return job


def _with_value(job: TrainingJob, name: str, value: Any) -> TrainingJob:
    """The job with one axis set to a value; raises `InputError` as the nouns do."""
    if name == "accumulation":
        if value < 1:
            raise InputError(f"accumulation {value} must be at least 1")
        return dataclasses.replace(job, accumulation=value)
    if name in ("workload", "gradient_dtype", "batch"):
        return dataclasses.replace(job, workload=_workload(job.workload, name, value))
    if name == "method":
        return dataclasses.replace(job, method=value if isinstance(value, Method) else method_named(value))
    if name == "compressor" and isinstance(value, str):
        value = compressor_named(value)
    if name in _METHOD_FIELDS:
        return dataclasses.replace(job, method=dataclasses.replace(job.method, **{name: value}))
    cluster = job.cluster
    if name in _LINKS:
        link, field = _LINKS[name]
        changed = {link: dataclasses.replace(getattr(cluster, link), **{field: value})}
    elif name == "workers":
        nodes, rest = divmod(value, cluster.accelerators_per_node)
        if rest or nodes < 1:
            raise InputError(
                f"workers = {value} do not fill nodes of {cluster.accelerators_per_node} accelerators: use a multiple"
            )
        changed = {"nodes": nodes}
    else:
        changed = {name: value}
    return dataclasses.replace(job, cluster=dataclasses.replace(cluster, **changed))


def _workload(workload: Workload, name: str, value: Any) -> Workload:
    if name == "workload":
        return value if isinstance(value, Workload) else builtin_workload(value)
    return workload.with_gradient_dtype(value) if name == "gradient_dtype" else workload.with_batch(value)


def checked_axes(job: TrainingJob, axes: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """Return the axes' values in the caller's order, checked against the job: `NETWORK_AXES` as arrays, else lists.

    Raises `InputError` that names the axis: unknown, empty, not a list, a value that is no number, no whole number or
    not a name where one is needed, out of range for what it sets, or both `nodes` and `workers`.
    """
    if "nodes" in axes and "workers" in axes:
        raise InputError("axes 'nodes' and 'workers' set the same thing: keep one of them")
    values = {name: _plain(name, given) for name, given in axes.items()}
    for name, plain in values.items():
        if name not in _TOGETHER:
            # The ranges of numbers are intervals: the two ends speak for all between them.
            for value in plain if name in _CHOICES else (np.min(plain).item(), np.max(plain).item()):
                _try(job, name, value)
    together = {name: values[name] for name in _TOGETHER if name in values}
    for combination in itertools.product(*together.values()):
        part = job
        for name, value in zip(together, combination, strict=True):
            part = _try(part, name, value)
    return values


def _try(job: TrainingJob, name: str, value: Any) -> TrainingJob:
    try:
        return _with_value(job, name, value)
    except InputError as error:
        raise InputError(f"axis {name!r}: {error}") from None
    except (TypeError, AttributeError):
        raise InputError(f"axis {name!r} cannot take the value {value!r}") from None


def _plain(name: str, given: Sequence[Any]) -> Any:
    """The values of one axis: an array for the network's, else a list of Python numbers, names or nouns."""
    if name not in AXES:
        raise unknown_name("axis", str(name), AXES)
    if isinstance(given, str | bytes) or not hasattr(given, "__len__") or getattr(given, "ndim", 1) != 1:
        raise InputError(f"axis {name!r} must be a list of values, such as [{_EXAMPLES.get(name, '1, 2')}]")
    if not len(given):
        raise InputError(f"axis {name!r} is empty: give it at least one value")
    if name in _CHOICES:
        return given.tolist() if hasattr(given, "tolist") else list(given)
    values = _numbers(name, given)
    if name in NETWORK_AXES:
        return values
    return values.astype(np.int64).tolist() if name in _WHOLE else values.tolist()


def _numbers(name: str, given: Sequence[Any]) -> NDArray[np.float64]:
    if getattr(given, "dtype", np.dtype(object)).kind not in "iuf":
        for value in given:
            if isinstance(value, bool) or not isinstance(value, int | float | np.number):
                raise InputError(f"axis {name!r} has the value {value!r}, which is not a number")
    values = np.asarray(given, dtype=np.float64)
    if np.isnan(values).any():
        raise InputError(f"axis {name!r} has NaN at position {int(np.isnan(values).argmax())}: leave it out")
    if name in _WHOLE and (values != np.floor(values)).any():
        raise InputError(f"axis {name!r} has the value {values[values != np.floor(values)][0]:g}: use whole numbers")
    if name in _WHOLE and np.isinf(values).any():
        raise InputError(f"axis {name!r} has an infinite value: use whole numbers")
    return values


_EXAMPLES = {"workload": "'resnet50', 'vgg16'", "method": "'wfbp-a2a', 'mg-wfbp'", "bandwidth": "1.25e9, 1.25e10"}


def axis_labels(values: Any) -> Any:
    """Return the coordinates of an axis: numbers as they are, nouns by name."""
    if isinstance(values, np.ndarray):
        return values
    return ["none" if value is None else getattr(value, "name", value) for value in values]
