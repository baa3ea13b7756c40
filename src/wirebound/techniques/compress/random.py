"""Random numbers that depend on nothing but their place: Philox4x32 (Salmon et al., SC 2011).

Element i of tensor T of worker w in step t, with a seed, has word i mod 4 of Philox with the counter (i // 4, t, T, 0)
and the key (seed, w): the same on every device, for any number of threads, and after a restart.
Seven rounds are the fewest with which it passed all statistical tests of its authors (BigCrush); the usual ten would
take two fifths more time.
"""

import torch
from torch import Tensor

from wirebound.techniques.compress import fused

#: Of Philox; the kernels have the same.
ROUNDS = 7

_LOW = 0xFFFFFFFF

#: seed, worker, step, tensor; each is taken modulo 2^32.
Stream = tuple[int, int, int, int]


def philox(
    counter: tuple[Tensor, Tensor, Tensor, Tensor], key: tuple[int, int], rounds: int = ROUNDS
) -> tuple[Tensor, ...]:
    """Return the four output words of each counter; all words are int64 tensors from 0 to 2^32 − 1.

    A product is taken modulo 2^64, so that masking its shifted bits gives the high word although int64 has a sign.
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(rounds):
        a, b = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1, c2, c3 = ((b >> 32) & _LOW) ^ c1 ^ k0, b & _LOW, ((a >> 32) & _LOW) ^ c3 ^ k1, a & _LOW
        k0, k1 = (k0 + 0x9E3779B9) & _LOW, (k1 + 0xBB67AE85) & _LOW
    return c0, c1, c2, c3


def words(first: int, count: int, stream: Stream, device: torch.device) -> Tensor:
    """Return the 32 random bits of elements `first` (a multiple of 4) and following, as int64."""
    start, stop = first // 4, (first + count + 3) // 4
    found = torch.empty(4 * (stop - start), dtype=torch.int64, device=device)
    kernels = fused.kernels_for(found)
    if kernels is not None:
        kernels.random_words(stream_words(stream), found.numpy(), start, stop)
        return found[:count]
    seed, worker, step, tensor = (number & _LOW for number in stream)
    places = torch.arange(start, stop, device=device) & _LOW
    same = torch.zeros_like(places)
    output = philox((places, same + step, same + tensor, same), (seed, worker))
    return torch.stack(output, 1).reshape(-1)[:count]


def uniform(count: int, stream: Stream, device: torch.device, out: Tensor | None = None) -> Tensor:
    """Return one fp32 number in [0, 1), a multiple of 2^-24, for each of `count` elements; in `out` if given."""
    numbers = torch.empty(count, device=device) if out is None else out
    kernels = fused.kernels_for(numbers)
    if kernels is None:
        return numbers.copy_((words(0, count, stream, device) >> 8).float() * 2.0**-24)
    blocks = -(-count // kernels.BLOCK)
    fused.in_pieces(kernels.random_numbers, (stream_words(stream), numbers.numpy()), blocks, count)
    return numbers


def stream_words(stream: Stream) -> object:
    """Return the stream as the unsigned words that kernels take."""
    import numpy as np

    return np.array([number & _LOW for number in stream], dtype=np.uint64)


def distinct(count: int, below: int, stream: Stream, device: torch.device) -> Tensor:
    """Return `count` different integers from 0 to `below` − 1 in rising order, every set of them equally likely.

    As many are drawn as are missing, until none is; from more than half of all it is the others that are drawn.
    """
    if 2 * count > below:
        chosen = torch.ones(below, dtype=torch.bool, device=device)
        chosen[distinct(below - count, below, stream, device)] = False
        return chosen.nonzero().view(-1)
    found = torch.empty(0, dtype=torch.int64, device=device)
    drawn = 0
    while found.numel() < count:
        missing = count - found.numel()
        numbers = (words(drawn, missing, stream, device) * below) >> 32
        found = torch.unique(torch.cat([found, numbers]))
        drawn += -(-missing // 4) * 4
    return found
