"""Compiled kernels where they can work (CPU tensors, Numba installed), the same in torch operations everywhere else.

A test holds both to the same bits.
"""

import importlib
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

#: Fewer elements are not worth a second thread.
SMALLEST_SHARED = 262_144


@cache
def _kernels() -> ModuleType | None:
    try:
        return importlib.import_module("wirebound.techniques.compress.kernels")
    except ImportError:
        return None


def kernels_for(tensor: Tensor) -> Any:
    """Return the module of compiled kernels, None where the tensor is elsewhere or Numba is not installed."""
    return _kernels() if tensor.device.type == "cpu" else None


@cache
def _helpers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_name_prefix="wirebound-compress")


def in_pieces(kernel: Callable[..., None], arguments: tuple[Any, ...], blocks: int, elements: int) -> None:
    """Call `kernel(*arguments, start, stop)` for all blocks, on as many threads as torch uses."""
    threads = min(torch.get_num_threads(), blocks) if elements >= SMALLEST_SHARED else 1
    bounds = [blocks * part // threads for part in range(threads + 1)] if threads > 1 else [0, blocks]
    rest = [_helpers().submit(kernel, *arguments, *pair) for pair in pairwise(bounds[1:])]
    kernel(*arguments, bounds[0], bounds[1])
    for piece in rest:
        piece.result()


def count_beyond(values: Tensor, largest: float) -> int:
    """Return how many fp32 values are of larger magnitude, or not a number."""
    kernels = kernels_for(values)
    if kernels is None:
        return int(values.numel() - (values.abs() <= largest).sum())
    blocks = _blocks(values.numel(), kernels.BLOCK)
    found = torch.zeros(blocks, dtype=torch.int64)
    in_pieces(kernels.count_beyond, (values.numpy(), np.float32(largest), found.numpy()), blocks, values.numel())
    return int(found.sum())


def places_at_least(values: Tensor, threshold: Tensor) -> Tensor:
    """Return the places of fp32 values whose magnitude is at least the threshold, in rising order, as int64."""
    kernels = kernels_for(values)
    if kernels is None:
        return (values.abs() >= threshold).nonzero().view(-1)
    blocks = _blocks(values.numel(), kernels.BLOCK)
    counts = torch.zeros(blocks, dtype=torch.int64)
    limit = threshold.numpy()[()]
    in_pieces(kernels.count_at_least, (values.numpy(), limit, counts.numpy()), blocks, values.numel())
    ends = counts.cumsum(0)
    places = torch.empty(int(ends[-1]), dtype=torch.int64)
    arguments = (values.numpy(), limit, (ends - counts).numpy(), places.numpy())
    in_pieces(kernels.places_at_least, arguments, blocks, values.numel())
    return places


def pack_signs(values: Tensor, phase: int) -> tuple[Tensor, int]:
    """Return ⌈d/8⌉ bytes, and how many fp32 values are no finite numbers, found in the same pass over memory.

    Bit i mod 8 of byte i // 8 is 1 where value i is above 0, or is 0 and i + `phase` is even.
    """
    kernels = kernels_for(values)
    if kernels is None:
        places = torch.arange(values.numel(), device=values.device)
        packed = pack_flags((values > 0) | ((values == 0) & ((places + phase) % 2 == 0)))
        return packed, int(values.numel() - torch.isfinite(values).sum())
    packed = torch.empty(math.ceil(values.numel() / 8), dtype=torch.uint8)
    blocks = _blocks(values.numel(), kernels.BLOCK)
    beyond = torch.zeros(blocks, dtype=torch.int64)
    arguments = (values.numpy(), phase % 2, packed.numpy(), beyond.numpy())
    in_pieces(kernels.pack_signs, arguments, blocks, values.numel())
    return packed, int(beyond.sum())


def pack_flags(flags: Tensor) -> Tensor:
    """Return booleans as bits, eight to a byte, the first one lowest; the rest of the last byte is 0."""
    return pack_fields(flags.to(torch.uint8), 1)


def unpack_signs(packed: Tensor, low: float, high: float, values: Tensor) -> None:
    """Fill flat fp32 `values`: `high` where a bit is 1, else `low`."""
    kernels, elements = kernels_for(packed), values.numel()
    if kernels is None:
        values.copy_(torch.where(unpack_fields(packed, 1, elements) > 0, high, low))
        return
    arguments = (packed.numpy(), np.float32(low), np.float32(high), values.numpy())
    in_pieces(kernels.unpack_signs, arguments, _blocks(elements, kernels.BLOCK), elements)


def pack_fields(fields: Tensor, bits: int) -> Tensor:
    """Return integers from 0 to 2^bits − 1 packed without gaps, the lowest bits first, in ⌈d·bits/8⌉ bytes."""
    kernels = kernels_for(fields)
    size = math.ceil(fields.numel() * bits / 8)
    if kernels is not None:
        packed = torch.empty(size, dtype=torch.uint8)
        blocks = _blocks(fields.numel(), kernels.BLOCK)
        in_pieces(kernels.pack_fields, (fields.numpy(), bits, packed.numpy()), blocks, fields.numel())
        return packed
    digits = (fields.long()[:, None] >> torch.arange(bits, device=fields.device)) & 1  # (d, bits)
    padded = torch.zeros(8 * size, dtype=torch.int64, device=fields.device)
    padded[: digits.numel()] = digits.reshape(-1)
    return (padded.view(size, 8) << torch.arange(8, device=fields.device)).sum(1).to(torch.uint8)


def unpack_fields(packed: Tensor, bits: int, elements: int) -> Tensor:
    """Return the int32 integers that `pack_fields` packed."""
    kernels = kernels_for(packed)
    if kernels is not None:
        fields = torch.empty(elements, dtype=torch.int32)
        arguments = (packed.numpy(), bits, fields.numpy())
        in_pieces(kernels.unpack_fields, arguments, _blocks(elements, kernels.BLOCK), elements)
        return fields
    digits = (packed.int()[:, None] >> torch.arange(8, device=packed.device)) & 1  # (bytes, 8)
    digits = digits.reshape(-1)[: elements * bits].view(elements, bits)
    return (digits << torch.arange(bits, device=packed.device)).sum(1).int()


def _blocks(elements: int, block: int) -> int:
    return -(-elements // block)
