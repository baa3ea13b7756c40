"""A gradient as compressors take it in: flat, in single precision, finite."""

import math
from collections.abc import Sequence
from typing import NoReturn

import torch
from torch import Tensor

from wirebound.errors import InputError, WireboundError
from wirebound.techniques.compress import fused

#: Other types would lose precision in single precision, or are no gradients.
TYPES = (torch.float32, torch.float16, torch.bfloat16)


#: The largest number of single precision.
LARGEST = torch.finfo(torch.float32).max


def flat_values(tensor: Tensor) -> Tensor:
    """Return the tensor flat and in fp32, a view where it is that already.

    Raises `InputError` for a type of tensor that is not compressed.
    """
    if tensor.dtype not in TYPES:
        raise InputError(f"gradients of type {tensor.dtype} are not compressed: use float32, float16 or bfloat16")
    return tensor.detach().reshape(-1).float().contiguous()


def finite_values(tensor: Tensor, largest: float = LARGEST, holds: torch.dtype = torch.float32) -> Tensor:
    """Return `flat_values(tensor)` when none is beyond `largest`, infinite or not a number; else `refuse` them."""
    values = flat_values(tensor)
    if fused.count_beyond(values, largest):
        refuse(values, holds)
    return values


def refuse(values: Tensor, holds: torch.dtype = torch.float32) -> NoReturn:
    """Raise `WireboundError` for values not all within the type `holds`: it tells how many are no finite numbers."""
    unusable = values.numel() - int(torch.isfinite(values).sum())
    if not unusable:
        limit = f"{torch.finfo(holds).max:g}, the largest of {holds}"
        raise WireboundError(f"the gradient has values beyond {limit}: use bf16")
    raise WireboundError(f"{unusable} of {values.numel()} values of the gradient are infinite or not a number")


def finite_scale(scale: Tensor) -> Tensor:
    """Return the scale; raises `WireboundError` where the values were too large to have one in fp32."""
    if not bool(torch.isfinite(scale).all()):
        raise WireboundError("the values of the gradient are too large: their scale exceeds single precision")
    return scale


def kept(share: float, elements: int) -> int:
    """Return how many values a sparse compressor keeps: ⌈share · d⌉, at least one if there is one."""
    return min(elements, max(1, math.ceil(share * elements)))


def rows_and_columns(shape: Sequence[int]) -> tuple[int, int]:
    """Return a tensor (n, a, b, …) as the matrix n × (a·b·…), one row for each output unit; a vector is one row."""
    elements = math.prod(shape)
    return (shape[0], elements // shape[0]) if len(shape) > 1 and shape[0] else (1, elements)


def checked_share(share: float) -> None:
    """Raise `InputError` unless `share` is greater than 0 and at most 1."""
    if not 0 < share <= 1:
        raise InputError(f"share = {share} of values kept must be greater than 0 and at most 1")


def empty(shape: Sequence[int], out: Tensor | None, device: torch.device) -> Tensor:
    """Return a flat fp32 tensor to write to: `out`, or a new one."""
    return torch.empty(math.prod(shape), device=device) if out is None else out.view(-1)


def filled(values: Tensor, shape: Sequence[int], out: Tensor | None) -> Tensor:
    """Return the values as fp32 in a shape, in `out` where there is one."""
    return empty(shape, out, values.device).copy_(values.view(-1)).view(tuple(shape))


def scattered(places: Tensor, values: Tensor, shape: Sequence[int], out: Tensor | None) -> Tensor:
    """Return fp32 zeros of a shape with `values` at flat `places`."""
    dense = empty(shape, out, values.device).zero_()
    dense[places.long()] = values.float()
    return dense.view(tuple(shape))
