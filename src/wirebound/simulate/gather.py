"""Cost of the collectives beside all-reduce: gather, scatter, broadcast, and the merging tree of gTop-k.

Leaf functions, in the units of `wirebound.simulate.collectives`. `size` is what one worker holds before an all-gather
(its payload), and the whole vector in the others.
"""


def all_gather(size: float, workers: int, latency: float, bandwidth: float) -> float:
    """Seconds until all have the `size` bytes of each worker: ⌈log2 P⌉·α + (P−1)·S/B (Bruck et al. 1997).

    Every round doubles what each worker has, for any P; with a power of two, recursive doubling takes the same time
    (Thakur et al. 2005).
    """
    rounds, reached = 0, 1
    while reached < workers:
        rounds, reached = rounds + 1, 2 * reached
    return rounds * latency + (workers - 1) * size / bandwidth


def ring_all_gather(size: float, workers: int, latency: float, bandwidth: float) -> float:
    """Seconds until all have the `size` bytes of each worker, passed on along a ring: (P−1)α + (P−1)·S/B."""
    return (workers - 1) * latency + (workers - 1) * size / bandwidth


def all_gather_sent_bytes(size: float, workers: int) -> float:
    """Bytes that each worker of an all-gather sends, in a ring as with doubling: (P−1)·S."""
    return (workers - 1) * size


def ring_reduce_scatter(size: float, workers: int, latency: float, bandwidth: float) -> float:
    """Seconds until each worker of a ring has 1/P of the sum: (P−1)α + (P−1)/P · S/B (Patarasuk and Yuan 2009)."""
    return (workers - 1) * latency + (workers - 1) / workers * size / bandwidth


def halving_reduce_scatter(size: float, workers: int, latency: float, bandwidth: float) -> float:
    """Seconds until each worker has 1/P of the sum: log2 P·α + (P−1)/P · S/B (recursive halving, Thakur et al. 2005).

    Where P is not a power of two, the P − 2^⌊log2 P⌋ workers too many first give their whole vector to a partner and
    get their share from it at the end, 2α + (1 + 1/P)·S/B on top; and the P shares are halved as evenly as they can be,
    so that the larger parts take ⌈P/2⌉ + ⌈⌈P/2⌉/2⌉ + … of S/P.
    """
    rounds, power, shares, carried = 0, 1, workers, 0
    while 2 * power <= workers:
        rounds, power = rounds + 1, 2 * power
        shares = (shares + 1) // 2
        carried += shares
    seconds = rounds * latency + carried / workers * size / bandwidth
    if power != workers:
        seconds += 2 * latency + (1 + 1 / workers) * size / bandwidth
    return seconds


def reduce_scatter_sent_bytes(size: float, workers: int) -> float:
    """Bytes that each worker of a ring reduce-scatter sends: (P−1)/P · S."""
    return (workers - 1) / workers * size


def tree_broadcast(size: float, workers: int, latency: float, bandwidth: float) -> float:
    """Seconds until all have the root's vector, along a binomial tree: ⌈log2 P⌉·(α + S/B) (Thakur et al. 2005)."""
    rounds, reached = 0, 1
    while reached < workers:
        rounds, reached = rounds + 1, 2 * reached
    return rounds * (latency + size / bandwidth)


def scattered_broadcast(size: float, workers: int, latency: float, bandwidth: float) -> float:
    """Seconds until all have the root's long vector: (⌈log2 P⌉ + P − 1)α + 2(P−1)/P · S/B.

    The root scatters it down a binomial tree, then a ring gathers it everywhere (van de Geijn; Thakur et al. 2005).
    """
    rounds, reached = 0, 1
    while reached < workers:
        rounds, reached = rounds + 1, 2 * reached
    return (rounds + workers - 1) * latency + 2 * (workers - 1) / workers * size / bandwidth


def gtopk_tree(size: float, workers: int, latency: float, bandwidth: float) -> float:
    """Seconds to merge the sparse vectors of all workers and give all the result: 2·⌈log2 P⌉·(α + S/B).

    `size` is the payload of one sparse vector, k values and k indices; a merge of two keeps the k largest, so every
    message of the tree has the same size. Half the rounds merge, half broadcast the result (gTop-k, Shi et al. 2019,
    for a power of two; otherwise some workers have no partner in some rounds).
    """
    rounds, reached = 0, 1
    while reached < workers:
        rounds, reached = rounds + 1, 2 * reached
    return 2 * rounds * (latency + size / bandwidth)


def gtopk_tree_sent_bytes(size: float, workers: int) -> float:
    """Bytes that the busiest worker of a gTop-k tree sends, the root in its broadcast: ⌈log2 P⌉·S."""
    rounds, reached = 0, 1
    while reached < workers:
        rounds, reached = rounds + 1, 2 * reached
    return rounds * size
