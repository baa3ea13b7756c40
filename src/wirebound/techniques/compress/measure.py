"""How long encoding and decoding take on this machine, over the size of the gradient."""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from wirebound.errors import InputError
from wirebound.techniques.compress.compressor import GradientCompressor

#: 16 KiB to 16 MiB of gradient, each size four times the one before.
DEFAULT_SIZES = tuple(4**power for power in range(7, 13))
#: Columns of the matrices that are encoded; a smaller tensor has one row.
COLUMNS = 1024


class CodingSample(NamedTuple):
    """One repetition: bytes of the uncompressed fp32 gradient, and the seconds of encoding and of decoding it."""

    size: int
    encode_s: float
    decode_s: float


def measure_coding(
    compressor: GradientCompressor,
    sizes: Sequence[int] = DEFAULT_SIZES,
    *,
    repetitions: int = 7,
    seed: int = 0,
    device: str = "cpu",
    tell: Callable[[int], None] = lambda size: None,
) -> list[CodingSample]:
    """Time encode and decode of Gaussian gradients of `sizes` bytes (multiples of 4), `repetitions` times each.

    Decoding writes to a tensor that is there, as into a bucket. The first call of each size is left out: it compiles
    kernels and makes the state. On a GPU the clock is read when
    its work is done. Raises `InputError` for a size that is not a positive multiple of 4.
    """
    wrong = [size for size in sizes if size < 4 or size % 4]
    if wrong or not sizes:
        raise InputError(f"size {wrong[0] if wrong else 'list'} must be a multiple of 4 bytes (32-bit numbers)")
    samples = []
    for size in sizes:
        tell(size)
        elements = size // 4
        shape = (elements // COLUMNS, COLUMNS) if elements % COLUMNS == 0 else (elements,)
        gradient = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(device)
        state, out = compressor.new_state(seed, 0, 0), torch.empty_like(gradient)
        for repetition in range(repetitions + 1):
            began = _now(device)
            payload = compressor.encode(gradient, state)
            encoded = _now(device)
            compressor.decode(payload, shape, out)
            if repetition:
                samples.append(CodingSample(size, encoded - began, _now(device) - encoded))
    return samples


def _now(device: Any) -> float:
    if str(device).startswith("cuda"):
        torch.cuda.synchronize(device)
    return time.perf_counter()


def measure_copy(size: int, *, repetitions: int = 7, device: str = "cpu") -> list[float]:
    """Return the seconds of copying `size` bytes of fp32 numbers to memory that is there, to compare coding with."""
    source = torch.randn(size // 4, device=device)
    out, times = torch.empty_like(source), []
    for repetition in range(repetitions + 1):
        began = _now(device)
        out.copy_(source)
        if repetition:
            times.append(_now(device) - began)
    return times
