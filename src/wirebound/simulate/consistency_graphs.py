"""Graphs on which workers gossip: who listens to whom, and how fast their models mix.

With mixing weights 1/(d + 1) for a worker and its d neighbours, W is doubly stochastic, and disagreement shrinks by
ρ an iteration, the largest modulus among the eigenvalues other than the one for agreement. The spectral gap
1 − ρ is the price in iterations of talking to few (Lian et al. 2017, D-PSGD).

All graphs look the same from every worker. Ring, lattice, complete and exponential graph are circulant: worker i
listens to i + o for fixed offsets o, and W has the eigenvalues (1 + Σ_o ω^(q·o)) / (d + 1), ω = e^(2πi/P), q = 0 … P−1.
"""

import cmath
import math
from collections.abc import Callable

from wirebound.errors import unknown_name

#: Offsets that a worker listens to, for each number of workers; without 0, each once.
Offsets = Callable[[int], list[int]]


def ring_offsets(workers: int) -> list[int]:
    """The two nearest; degree 2."""
    return lattice_offsets(workers, 2)


def lattice_offsets(workers: int, degree: int) -> list[int]:
    """The degree/2 nearest on either side of a ring; at most all others."""
    reach = min(degree // 2, workers - 1)
    return sorted({offset % workers for m in range(1, reach + 1) for offset in (m, -m)} - {0})


def complete_offsets(workers: int) -> list[int]:
    """Everybody else; degree P − 1."""
    return list(range(1, workers))


def exponential_offsets(workers: int) -> list[int]:
    """1, 2, 4, … places back; degree ⌈log2 P⌉; directed (the static graph of Ying et al. 2021)."""
    return sorted(-(2**m) % workers for m in range((workers - 1).bit_length()))


def torus_sides(workers: int) -> tuple[int, int]:
    """The most square a × b = P with a ≤ b; a prime number of workers makes a ring."""
    short = next(side for side in range(math.isqrt(workers), 0, -1) if workers % side == 0)
    return short, workers // short


#: Circulant graph → its offsets. The torus is the product of two rings.
CIRCULANT: dict[str, Offsets] = {
    "ring": ring_offsets,
    "complete": complete_offsets,
    "exponential": exponential_offsets,
}
GRAPHS = ("ring", "torus", "exponential", "complete")


def neighbours(graph: str | int, workers: int) -> tuple[tuple[int, ...], ...]:
    """Return for each of P workers those whose values it waits for.

    `graph` is one of `GRAPHS`, or an even degree: that many nearest on a ring. Raises `InputError` for an unknown one.
    """
    if graph == "torus":
        short, long = torus_sides(workers)
        rows, columns = ring_offsets(short), ring_offsets(long)
        return tuple(
            tuple(
                [(row + o) % short * long + column for o in rows] + [row * long + (column + o) % long for o in columns]
            )
            for row in range(short)
            for column in range(long)
        )
    offsets = _offsets(graph, workers)
    return tuple(tuple((worker + offset) % workers for offset in offsets) for worker in range(workers))


def degree_of(graph: str | int, workers: int) -> int:
    """Return the number of neighbours of each worker."""
    if graph == "torus":
        return sum(len(ring_offsets(side)) for side in torus_sides(workers))
    return len(_offsets(graph, workers))


def diameter(peers: tuple[tuple[int, ...], ...]) -> int:
    """Return the iterations until what one worker knows has reached every other; 0 for one worker alone."""
    known, frontier, steps = {0}, [0], 0
    while frontier := [peer for worker in frontier for peer in peers[worker] if peer not in known]:
        frontier = list(dict.fromkeys(frontier))
        known.update(frontier)
        steps += 1
    return steps


def spectral_gap(graph: str | int, workers: int) -> float:
    """Return 1 − ρ of the mixing matrix with equal weights, in (0, 1]; 1 where one iteration makes all agree.

    Ring: 2/3 · (1 − cos(2π/P)) from 4 workers on. Exponential: 2/(1 + ⌈log2 P⌉) for even P (Ying et al. 2021).
    Raises `InputError` for an unknown graph.
    """
    if degree_of(graph, workers) == workers - 1:
        return 1.0
    if graph == "torus":
        return 1 - _torus_second(*torus_sides(workers))
    offsets = _offsets(graph, workers)
    # The eigenvalues of q and P − q are conjugates of each other.
    return 1 - max(
        abs(1 + sum(cmath.exp(2j * cmath.pi * q * offset / workers) for offset in offsets)) / (len(offsets) + 1)
        for q in range(1, workers // 2 + 1)
    )


def mixing_iterations(gap: float, reduction: float = 10.0) -> float:
    """Return the iterations of averaging alone until disagreement is `reduction` times smaller; at least 1."""
    return 1.0 if gap >= 1 else max(1.0, math.log(reduction) / -math.log1p(-gap))


def _offsets(graph: str | int, workers: int) -> list[int]:
    if isinstance(graph, int):
        return lattice_offsets(workers, graph)
    if graph not in CIRCULANT:
        raise unknown_name("graph", graph, GRAPHS)
    return CIRCULANT[graph](workers)


def _torus_second(short: int, long: int) -> float:
    """ρ of the torus, whose eigenvalues are (1 + a + b) / (d + 1), a and b being those of the two rings' links."""

    def links(side: int, q: int) -> float:
        return len(ring_offsets(side)) * math.cos(2 * math.pi * q / side)

    slowest = links(short, 0) + links(long, 1)
    if short > 1:  # along the short side; the slower one only where that has two workers, who share one link
        slowest = max(slowest, links(short, 1) + links(long, 0))
    most_alternating = links(short, short // 2) + links(long, long // 2)
    return max(1 + slowest, abs(1 + most_alternating)) / (1 + links(short, 0) + links(long, 0))
