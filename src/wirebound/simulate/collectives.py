"""Cost of one all-reduce; every function states its equation.

Leaf functions over floats and sequences: none calls another function of this package, so that a compiler such as
Numba takes each one as it is. `size` is in bytes on the wire, `latency` in seconds per message, `bandwidth` in bytes
per second that the transport really reaches; results are in seconds or bytes.

To add an all-reduce, write its three functions, here or in a module of their own, and add one line to `ALL_REDUCES`;
one that has parameters of its own goes to `all_reduces.FAMILIES`.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from wirebound.simulate.trees import double_tree_busiest_sent_bytes, pipelined_double_tree_all_reduce


def ring_all_reduce(size: float, workers: int, latency: float, bandwidth: float) -> float:
    """Seconds of a ring all-reduce: 2(P−1)α + 2(P−1)/P · S/B (Patarasuk and Yuan 2009)."""
    return 2 * (workers - 1) * latency + 2 * (workers - 1) / workers * size / bandwidth


def ring_sent_bytes(size: float, workers: int) -> float:
    """Bytes that each worker of a ring sends: 2(P−1)/P · S."""
    return 2 * (workers - 1) / workers * size


def ring_additions(size: float, workers: int) -> list[tuple[int, float]]:
    """Vector additions of one worker of a ring, as (count, bytes of each vector): P−1 of S/P (Zhang et al. 2020)."""
    return [(workers - 1, size / workers)]


def halving_doubling_all_reduce(size: float, workers: int, latency: float, bandwidth: float) -> float:
    """Seconds of recursive halving and doubling: 2·log2 P·α + 2(P−1)/P · S/B (Thakur et al. 2005).

    Where P is not a power of two, the P − 2^⌊log2 P⌋ workers too many first give their whole vector to a partner and
    get the result back at the end: the remaining power of two runs as above, and 2α + 2S/B come on top.
    """
    rounds, power = 0, 1
    while 2 * power <= workers:
        rounds, power = rounds + 1, 2 * power
    seconds = 2 * rounds * latency + 2 * (power - 1) / power * size / bandwidth
    if power != workers:
        seconds += 2 * latency + 2 * size / bandwidth
    return seconds


def halving_doubling_sent_bytes(size: float, workers: int) -> float:
    """Bytes that the busiest worker sends: 2(P−1)/P · S, plus S where P is not a power of two."""
    power = 1
    while 2 * power <= workers:
        power *= 2
    return 2 * (power - 1) / power * size + (0.0 if power == workers else size)


def halving_doubling_additions(size: float, workers: int) -> list[tuple[int, float]]:
    """Vector additions of the busiest worker: S/2, S/4, … S/P, and S first where P is not a power of two."""
    additions = []
    power = 1
    while 2 * power <= workers:
        power *= 2
        additions.append((1, size / power))
    if power != workers:
        additions.append((1, size))
    return additions


def recursive_doubling_all_reduce(size: float, workers: int, latency: float, bandwidth: float) -> float:
    """Seconds of recursive doubling, the choice for short messages: log2 P·(α + S/B) (Thakur et al. 2005).

    In each round everyone exchanges the whole vector with a partner twice as far away. Where P is not a power of two,
    the workers too many give their vector to a partner and get the result back, as in `halving_doubling_all_reduce`.
    """
    rounds, power = 0, 1
    while 2 * power <= workers:
        rounds, power = rounds + 1, 2 * power
    if power != workers:
        rounds += 2
    return rounds * (latency + size / bandwidth)


def recursive_doubling_sent_bytes(size: float, workers: int) -> float:
    """Bytes that the busiest worker sends: log2 P·S, plus S where P is not a power of two."""
    rounds, power = 0, 1
    while 2 * power <= workers:
        rounds, power = rounds + 1, 2 * power
    return rounds * size + (0.0 if power == workers else size)


def recursive_doubling_additions(size: float, workers: int) -> list[tuple[int, float]]:
    """Vector additions of the busiest worker: log2 P of S, and one more where P is not a power of two."""
    rounds, power = 0, 1
    while 2 * power <= workers:
        rounds, power = rounds + 1, 2 * power
    if power != workers:
        rounds += 1
    return [(rounds, size)]


def double_tree_all_reduce(size: float, workers: int, latency: float, bandwidth: float) -> float:
    """Seconds of a pipelined double binary tree: ≈ 2·⌈log2 P⌉·α + 2(P−1)/P · S/B (Sanders et al. 2009, NCCL 2.4).

    At P = 2 it moves S; for many workers the bytes approach 2·S. They are those that a worker sends on average, and the
    pipeline fills in no time: `trees.pipelined_double_tree_all_reduce` leaves neither out.
    """
    rounds, reached = 0, 1
    while reached < workers:
        rounds, reached = rounds + 1, 2 * reached
    return 2 * rounds * latency + 2 * (workers - 1) / workers * size / bandwidth


def double_tree_additions(size: float, workers: int) -> list[tuple[int, float]]:
    """Vector additions of one worker: it is an inner node of one tree only, and adds that half from two children."""
    return [(min(2, workers - 1), size / 2)]


def hierarchical_all_reduce(
    size: float, per_node: int, intra_latency: float, intra_bandwidth: float, inter_s: float
) -> float:
    """Seconds of a two-level all-reduce in which the X accelerators of a node share one network card.

    A ring inside each node reduces and spreads, around an all-reduce between the Y nodes that takes `inter_s` seconds
    for all `size` bytes: 2(X−1)α₁ + 2(X−1)/X · S/B₁ + inter. The X shards of S/X bytes cross the same card, so with a
    ring inter = 2(Y−1)α₂ + 2(Y−1)/Y · S/B₂, not the S/X of a torus that has a card for each accelerator.
    """
    intra_s = 2 * (per_node - 1) * intra_latency + 2 * (per_node - 1) / per_node * size / intra_bandwidth
    return intra_s + inter_s


def vector_add(size: float, table_bytes: Sequence[float], table_s: Sequence[float]) -> float:
    """Seconds of adding two vectors of `size` bytes: linear between measured sizes, flat outside them.

    `table_bytes` ascend. The measured table of Zhang et al. (2020) is noisy and not monotone; it is taken as it is.
    """
    last = len(table_bytes) - 1
    if size <= table_bytes[0]:
        return table_s[0]
    if size >= table_bytes[last]:
        return table_s[last]
    low, high = 0, last
    while high - low > 1:
        middle = (low + high) // 2
        if table_bytes[middle] <= size:
            low = middle
        else:
            high = middle
    share = (size - table_bytes[low]) / (table_bytes[high] - table_bytes[low])
    return table_s[low] + share * (table_s[high] - table_s[low])


class AllReduce(NamedTuple):
    """One algorithm: its seconds, the bytes that the busiest worker sends, and that worker's vector additions."""

    seconds: Callable[[float, int, float, float], float]
    sent_bytes: Callable[[float, int], float]
    additions: Callable[[float, int], list[tuple[int, float]]]


#: The all-reduce algorithms by name, as in `Method.collective`; `all_reduces` knows more names.
ALL_REDUCES = {
    "ring": AllReduce(ring_all_reduce, ring_sent_bytes, ring_additions),
    "halving-doubling": AllReduce(halving_doubling_all_reduce, halving_doubling_sent_bytes, halving_doubling_additions),
    "recursive-doubling": AllReduce(
        recursive_doubling_all_reduce, recursive_doubling_sent_bytes, recursive_doubling_additions
    ),
    "tree": AllReduce(double_tree_all_reduce, ring_sent_bytes, double_tree_additions),
    "pipelined-tree": AllReduce(
        pipelined_double_tree_all_reduce, double_tree_busiest_sent_bytes, double_tree_additions
    ),
}
