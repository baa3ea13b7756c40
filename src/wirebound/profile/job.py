"""A training job to profile: the model, its loss, its data and its optimizer, and where they come from.

A user names a function, ``package.module:function``. It returns ``(model, loss, data)``, or with an optimizer
``(model, loss, data, optimizer)``:

- ``model`` is a `torch.nn.Module`;
- ``loss(model, batch)`` runs the forward pass and returns the loss, one number to call ``backward()`` on;
- ``data`` is one batch (a tensor, or a list, tuple or mapping that holds some), used in every step, or something that
  gives a batch for each step (a `DataLoader`, any other iterable);
- ``optimizer`` is SGD with momentum unless one is returned.

The function may take ``batch_size``.
"""

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from wirebound.errors import InputError
from wirebound.profile.user_code import described, user_code

#: For a function that needs a batch size where none was given.
DEFAULT_BATCH = 32

_CONTRACT = "(model, loss, data) or (model, loss, data, optimizer)"


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """What one training step needs, on the device that it runs on.

    `batch_size` is what was asked for, None where the data tells it. `data_of_size(batch)` gives the job's data with
    another batch size; None where its function takes no ``batch_size``.
    """

    name: str
    model: nn.Module
    loss: Callable[[nn.Module, Any], Any]
    data: Any
    optimizer: torch.optim.Optimizer
    batch_size: int | None
    data_of_size: Callable[[int], Any] | None = None


def load_job(reference: str, *, batch_size: int | None = None, device: str = "cpu", seed: int = 0) -> TrainingJob:
    """Import the function that `reference` names, call it, and return its job with the model on `device`.

    Modules in the current folder can be imported. `batch_size` is passed on if the function takes it; PyTorch's random
    numbers start from `seed`. Raises `InputError`, in one line, for a module or function that is not there, whatever
    the user's code raises, and results that are not as the module's documentation says.
    """
    function = _import_function(reference)
    try:
        return make_job(reference, function, batch_size=batch_size, device=device, seed=seed)
    except InputError as error:
        raise InputError(f"--model {error}") from error.__cause__


def make_job(
    name: str, function: Callable[..., Any], *, batch_size: int | None = None, device: str = "cpu", seed: int = 0
) -> TrainingJob:
    """Call the job's function and return its job; see `load_job`."""
    takes_batch, needs_batch = _batch_parameter(name, function)
    if needs_batch and batch_size is None:
        batch_size = DEFAULT_BATCH
    asked = takes_batch and batch_size is not None
    model, loss, data, *rest = _call(name, function, {"batch_size": batch_size} if asked else {}, seed)
    with user_code(f"{name}: moving the model to {device}"):
        model = model.to(device)
    if rest:
        updated = {id(parameter) for group in rest[0].param_groups for parameter in group["params"]}
        if not any(id(parameter) in updated for parameter in model.parameters()):
            raise InputError(f"{name}: its optimizer has none of the model's parameters: give it model.parameters()")
    return TrainingJob(
        name=name,
        model=model,
        loss=loss,
        data=data,
        optimizer=rest[0] if rest else _default_optimizer(name, model),
        batch_size=batch_size,
        data_of_size=(lambda size: _call(name, function, {"batch_size": size}, seed)[2]) if takes_batch else None,
    )


def is_batch(data: object) -> bool:
    """Tell whether the data is one batch, used in every step, and not something that gives batches."""
    return isinstance(data, torch.Tensor | list | tuple | Mapping)


def batch_of(batch: object) -> int | None:
    """Return the number of samples in a batch: the first dimension of its first tensor; None where there is none."""
    if isinstance(batch, torch.Tensor):
        return batch.shape[0] if batch.ndim and batch.shape[0] else None
    parts = batch.values() if isinstance(batch, Mapping) else batch if isinstance(batch, list | tuple) else ()
    return next((size for size in map(batch_of, parts) if size is not None), None)


def _import_function(reference: str) -> Callable[..., Any]:
    module_name, colon, function_name = reference.partition(":")
    named = all(part.isidentifier() for part in (*module_name.split("."), function_name))
    if not colon or not named or module_name.endswith(".py"):
        raise InputError(
            f"--model {reference}: name a function as package.module:function, such as train:make_job for make_job in"
            " train.py"
        )
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            raise InputError(
                f"--model {reference}: there is no module {error.name!r}: run this in the folder that holds it, or"
                " install it"
            ) from None
        raise InputError(f"--model {reference}: importing {module_name} raised {described(error)}") from error
    except (Exception, SystemExit) as error:
        raise InputError(f"--model {reference}: importing {module_name} raised {described(error)}") from error
    function = getattr(module, function_name, None)
    if function is None:
        own = [
            name
            for name, value in vars(module).items()
            if inspect.isfunction(value) and value.__module__ == module_name and not name.startswith("_")
        ]
        has = f"it has {', '.join(own)}" if own else "it has none of its own"
        raise InputError(f"--model {reference}: {module_name} has no function {function_name!r}: {has}")
    if not callable(function):
        raise InputError(f"--model {reference}: is {_kind(function)}, not a function")
    return function  # type: ignore[no-any-return]


def _batch_parameter(name: str, function: Callable[..., Any]) -> tuple[bool, bool]:
    """Whether the function takes ``batch_size``, and whether it must be given."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False, False
    for key, parameter in parameters.items():
        variable = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if key != "batch_size" and parameter.default is parameter.empty and not variable:
            raise InputError(f"{name}: needs the parameter {key!r}: only batch_size is passed to it")
    found = parameters.get("batch_size")
    return found is not None, found is not None and found.default is found.empty


def _call(name: str, function: Callable[..., Any], arguments: dict[str, Any], seed: int) -> tuple[Any, ...]:
    """The function's result, checked against the contract."""
    with torch.random.fork_rng(devices=[]), user_code(name):
        torch.manual_seed(seed)
        result = function(**arguments)
    if not isinstance(result, tuple) or len(result) not in (3, 4):
        given = f"a tuple of {len(result)}" if isinstance(result, tuple) else _kind(result)
        raise InputError(f"{name}: what it returns is {given}: it must return {_CONTRACT}")
    model, loss, data = result[:3]
    if not isinstance(model, nn.Module):
        raise InputError(f"{name}: its model is {_kind(model)}, not a torch.nn.Module: return {_CONTRACT}")
    if not callable(loss):
        raise InputError(f"{name}: its loss is {_kind(loss)}, not a function loss(model, batch)")
    if not is_batch(data) and not hasattr(data, "__iter__"):
        raise InputError(f"{name}: its data is {_kind(data)}: return a batch, or something that gives batches")
    if len(result) == 4 and not isinstance(result[3], torch.optim.Optimizer):
        raise InputError(f"{name}: its optimizer is {_kind(result[3])}, not a torch.optim.Optimizer")
    return result


def _default_optimizer(name: str, model: nn.Module) -> torch.optim.Optimizer:
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not trained:
        raise InputError(f"{name}: the model has no parameters that need a gradient: there is nothing to train")
    return torch.optim.SGD(trained, lr=0.001, momentum=0.9)


def _kind(value: object) -> str:
    return f"of type {type(value).__name__}"
