"""All-reduces as messages between ranks. Each is a process; `add(share)` are the seconds of adding that share of S."""

import math

from .wires import everyone


def ring(ranks, size, add):
    """P−1 steps that reduce, P−1 that spread; in each a rank passes the block on that it got in the step before."""
    env, P = ranks.env, ranks.count

    def worker(rank):
        for step in range(2 * (P - 1)):
            ranks.send(rank, (rank + 1) % P, size / P)
            yield ranks.receive((rank - 1) % P, rank)
            if step < P - 1:
                yield env.timeout(add(1 / P))

    yield everyone(env, [worker(rank) for rank in range(P)])


def halving_doubling(ranks, size, add):
    """Partners exchange halves of what they have left, then double what they know; surplus ranks hand over first."""
    env, P = ranks.env, ranks.count
    core = 1
    while 2 * core <= P:
        core *= 2
    surplus = P - core

    def inside(rank):
        share, distance = 1.0, core // 2
        if rank < surplus:
            yield ranks.receive(core + rank, rank)
            yield env.timeout(add(1.0))
        while distance:
            share /= 2
            ranks.send(rank, rank ^ distance, size * share)
            yield ranks.receive(rank ^ distance, rank)
            yield env.timeout(add(share))
            distance //= 2
        distance = 1
        while distance < core:
            ranks.send(rank, rank ^ distance, size * share)
            yield ranks.receive(rank ^ distance, rank)
            share, distance = 2 * share, 2 * distance
        if rank < surplus:
            ranks.send(rank, core + rank, size)

    def outside(rank):
        ranks.send(rank, rank - core, size)
        yield ranks.receive(rank - core, rank)

    workers = [inside(rank) for rank in range(core)] + [outside(rank) for rank in range(core, P)]
    yield everyone(env, workers)


def double_tree(ranks, size, add):
    """Two binary trees with half of the vector each, cut so finely that the blocks flow like a liquid.

    The first block needs ⌈log2 P⌉ hops to the root and as many back; behind it every port sends its share of the
    2(P−1)·S bytes that the edges of the trees carry. A rank adds where it is an inner node: in one tree, one block
    from each child.
    """
    env, P = ranks.env, ranks.count
    edges = 2 * (P - 1)  # both trees, half a vector each way on every edge
    children = min(2, P - 1)

    def worker(rank):
        for _hop in range(2 * math.ceil(math.log2(P)) - 1):  # the port charges the latency of the last hop
            yield env.timeout(ranks.ports[rank].latency)
        for _child in range(children):
            yield env.timeout(add(1 / 2))
        yield env.process(ranks.ports[rank].send(edges * 2 * (size / 2) / P))

    yield everyone(env, [worker(rank) for rank in range(P)])


ALL_REDUCES = {"ring": ring, "halving-doubling": halving_doubling, "tree": double_tree}
