"""Structured updates (Konečný et al. 2016): a client may only move its weights in a random subspace, w = w₀ + P·z.

The seed of P is known to both sides, so the shorter z is all that is sent. Columns of P are orthonormal: a step in z is
the part of the usual step that lies in the subspace.
"""

import math
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from wirebound.errors import InputError
from wirebound.techniques.compress.gradient import checked_share, kept


class Subspace(Protocol):
    """`expand` is P·z, `project` is Pᵀ·v, for z of `size` elements and v of as many as there are weights."""

    size: int

    def expand(self, z: Tensor) -> Tensor: ...
    def project(self, v: Tensor) -> Tensor: ...


class RandomMask:
    """⌈share · d⌉ weights at random places may change."""

    def __init__(self, elements: int, share: float, random: torch.Generator) -> None:
        checked_share(share)
        self.elements, self.size = elements, kept(share, elements)
        self.places = torch.randperm(elements, generator=random)[: self.size]

    def expand(self, z: Tensor) -> Tensor:
        """Return P·z: z at its places, 0 elsewhere."""
        return torch.zeros(self.elements).index_copy_(0, self.places, z)

    def project(self, v: Tensor) -> Tensor:
        """Return Pᵀ·v: the values at the places."""
        return v[self.places]


class LowRank:
    """The change of each matrix n × m is A·B with A (n × rank) drawn at random and B (rank × m) trained and sent.

    A convolution (n, c, h, w) is the matrix n × (c·h·w). Vectors, and matrices that would not get smaller, are whole.
    """

    def __init__(self, shapes: Sequence[tuple[int, ...]], rank: int, random: torch.Generator) -> None:
        if rank < 1:
            raise InputError(f"rank = {rank} must be at least 1")
        self.sizes = [math.prod(shape) for shape in shapes]
        self.factors: list[Tensor | None] = []
        for shape in shapes:
            if len(shape) < 2 or rank >= shape[0]:
                self.factors.append(None)
            else:
                self.factors.append(torch.linalg.qr(torch.randn(shape[0], rank, generator=random)).Q)
        self.sent = [
            size if a is None else size // a.shape[0] * a.shape[1]
            for size, a in zip(self.sizes, self.factors, strict=True)
        ]
        self.size = sum(self.sent)

    def expand(self, z: Tensor) -> Tensor:
        """Return the changes A·B of all matrices, end to end."""
        pieces = zip(torch.split(z, self.sent), self.factors, strict=True)
        return torch.cat([b if a is None else (a @ b.view(a.shape[1], -1)).view(-1) for b, a in pieces])

    def project(self, v: Tensor) -> Tensor:
        """Return Aᵀ·G for the gradient G of each matrix, end to end."""
        pieces = zip(torch.split(v, self.sizes), self.factors, strict=True)
        return torch.cat([g if a is None else (a.T @ g.view(a.shape[0], -1)).view(-1) for g, a in pieces])
