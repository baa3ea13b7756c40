"""All-reduces as messages between ranks. Each is a process; `add(share)` are the seconds of adding that share of S."""

import math

from .wires import Port, everyone


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


def recursive_doubling(ranks, size, add):
    """Partners at distances 1, 2, 4 … exchange whole vectors; surplus ranks hand over first and are told at the end.

    A rank goes on when its own vector has arrived as well, as messages of this size do (rendezvous). One that went on
    at once would save a latency where a surplus rank holds its partner up.
    """
    env, P = ranks.env, ranks.count
    core = 1
    while 2 * core <= P:
        core *= 2
    surplus = P - core

    def inside(rank):
        if rank < surplus:
            yield ranks.receive(core + rank, rank)
            yield env.timeout(add(1.0))
        distance = 1
        while distance < core:
            yield ranks.send(rank, rank ^ distance, size) & ranks.receive(rank ^ distance, rank)
            yield env.timeout(add(1.0))
            distance *= 2
        if rank < surplus:
            ranks.send(rank, core + rank, size)

    def outside(rank):
        ranks.send(rank, rank - core, size)
        yield ranks.receive(rank - core, rank)

    workers = [inside(rank) for rank in range(core)] + [outside(rank) for rank in range(core, P)]
    yield everyone(env, workers)


def blueconnect(stages):
    """Rings of p1 ranks, then of p2 ranks that hold the same shard, and so on inwards; the same way out again."""

    def all_reduce(ranks, size, add):
        env, P = ranks.env, ranks.count

        def worker(rank):
            share, stride, way_back = 1.0, 1, []
            for members in stages:
                place = rank // stride % members
                base = rank - place * stride
                after, before = (base + (place + move) % members * stride for move in (1, -1))
                share /= members
                for _step in range(members - 1):
                    ranks.send(rank, after, size * share)
                    yield ranks.receive(before, rank)
                    yield env.timeout(add(share))
                way_back.append((members, after, before, share))
                stride *= members
            for members, after, before, part in reversed(way_back):
                for _step in range(members - 1):
                    ranks.send(rank, after, size * part)
                    yield ranks.receive(before, rank)

        yield everyone(env, [worker(rank) for rank in range(P)])

    return all_reduce


def smallest_factors(number):
    """The prime factors, smallest first."""
    factors = []
    while number > 1:
        factors.append(next(d for d in range(2, number + 1) if number % d == 0))
        number //= factors[-1]
    return factors


def byteps(extra):
    """n machines and k extra servers share the summation so that all their ports are busy equally long.

    A machine sums the share x and each server y, n·x + k·y = 1. A machine sends what others sum, 1 − x, and its own
    result to n − 1 others; a server sends its result to all n: 1 + (n−2)·x = n·y.
    """

    def all_reduce(ranks, size, add):
        env, n = ranks.env, ranks.count
        k = min(extra, n)
        if k == 0:
            x, y = 1 / n, 0.0
        else:
            x = (n / k - 1) / (n - 2 + n * n / k)
            y = (1 - n * x) / k
        servers = [Port(env, ranks.link) for _ in range(k)]
        machine = [port.send(size * (1 - x)) for port in ranks.ports]
        back = [port.send(size * (n - 1) * x) for port in ranks.ports]
        yield everyone(env, machine + back + [port.send(size * n * y) for port in servers])
        yield env.timeout(ranks.link.latency_s)  # the ports have charged one way, this is the other

    return all_reduce


def in_network(slots, slot_bytes, round_trip=None):
    """A switch adds what is in its slots; each is taken for a round trip, so that only so much is under way."""

    def all_reduce(ranks, size, add):
        env, link = ranks.env, ranks.link
        trip = 2 * link.latency_s if round_trip is None else round_trip
        window = slots * slot_bytes

        def worker(port):
            pace = window / trip if trip else float("inf")
            waiting = max(0.0, size / pace - size / port.bandwidth)
            yield env.timeout(waiting)  # for slots to become free, all in all
            yield env.process(port.send(size))

        yield everyone(env, [worker(port) for port in ranks.ports])
        yield env.timeout(link.latency_s)

    return all_reduce


def ring_gather(ranks, size):
    """Every rank passes on what it got: P−1 steps of one rank's whole payload."""
    P = ranks.count

    def worker(rank):
        for _step in range(P - 1):
            ranks.send(rank, (rank + 1) % P, size)
            yield ranks.receive((rank - 1) % P, rank)

    yield everyone(ranks.env, [worker(rank) for rank in range(P)])


def bruck_gather(ranks, size):
    """In round i a rank sends all that it has, at most what is still missing, to the rank 2^i before it."""
    P = ranks.count

    def worker(rank):
        has = 1
        while has < P:
            part = min(has, P - has)
            ranks.send(rank, (rank - has) % P, size * part)
            yield ranks.receive((rank + has) % P, rank)
            has += part

    yield everyone(ranks.env, [worker(rank) for rank in range(P)])


def binomial_broadcast(ranks, size):
    """Who has the vector gives it to someone who has not, until all have."""
    P = ranks.count

    def worker(rank):
        distance = 1
        while distance <= rank:
            distance *= 2
        if rank:
            yield ranks.receive(rank - distance // 2, rank)
        while rank + distance < P:
            yield ranks.send(rank, rank + distance, size)
            distance *= 2

    yield everyone(ranks.env, [worker(rank) for rank in range(P)])


def gtopk_tree(ranks, size):
    """Pairs merge their k largest values into one of them, round by round; then the result goes down the same way.

    A round ends for everyone at once. Where P is no power of two, ranks without a partner could go on sooner.
    """
    P, distance = ranks.count, 1
    while distance < P:
        senders = range(distance, P, 2 * distance)
        yield everyone(ranks.env, [ranks.ports[rank].send(size) for rank in senders])
        distance *= 2
    yield from binomial_broadcast(ranks, size)


def gossip(ranks, size, degree):
    """Every rank exchanges its vector with `degree` neighbours, one after the other."""
    P = ranks.count

    def worker(rank):
        for neighbour in range(1, degree + 1):
            yield ranks.send(rank, (rank + neighbour) % P, size)
            yield ranks.receive((rank - neighbour) % P, rank)

    yield everyone(ranks.env, [worker(rank) for rank in range(P)])


ALL_REDUCES = {
    "ring": ring,
    "halving-doubling": halving_doubling,
    "recursive-doubling": recursive_doubling,
    "tree": double_tree,
}


def all_reduce_by_name(name, ranks):
    """The process that a name such as ``byteps:2`` means; who adds elsewhere is given no time for it."""
    family, _, values = name.partition(":")
    if family == "blueconnect":
        return blueconnect([int(v) for v in values.split("x")] if values else smallest_factors(ranks.count))
    if family == "byteps":
        return byteps(int(values) if values else ranks.count)
    if family == "in-network":
        slots, slot_bytes = (int(v) for v in values.split("x")) if values else (512, 256)
        return in_network(slots, slot_bytes)
    return ALL_REDUCES[name]
