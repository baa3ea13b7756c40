"""A random rotation that spreads a vector evenly over its elements, block by block (Konečný et al. 2016).

Signs at random, then the Walsh-Hadamard transform, divided by √BLOCK: orthogonal, and known to both sides by its seed.
"""

import math
from functools import cache

import torch
from torch import Tensor

#: Elements that are rotated together; the vector is filled up to a multiple.
BLOCK = 512


@cache
def hadamard(size: int) -> Tensor:
    """Return Sylvester's matrix (size × size), size a power of two, divided by √size: symmetric and orthogonal."""
    matrix = torch.ones(1, 1)
    while len(matrix) < size:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    return matrix / math.sqrt(size)


def rotate(vector: Tensor, random: torch.Generator) -> Tensor:
    """Return the rotated vector, filled up with zeros to a multiple of `BLOCK` before."""
    filled = torch.nn.functional.pad(vector, (0, -len(vector) % BLOCK))
    return ((_signs(len(filled), random) * filled).view(-1, BLOCK) @ hadamard(BLOCK)).view(-1)


def rotate_back(rotated: Tensor, elements: int, random: torch.Generator) -> Tensor:
    """Return the vector of `elements` that `rotate` was given, from the same random numbers."""
    return (_signs(len(rotated), random) * (rotated.view(-1, BLOCK) @ hadamard(BLOCK)).view(-1))[:elements]


def _signs(elements: int, random: torch.Generator) -> Tensor:
    return 2.0 * torch.randint(0, 2, (elements,), generator=random) - 1
