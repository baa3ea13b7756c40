"""The algorithms themselves, on vectors of whole numbers: their rounds and bytes against the equations."""

import heapq
import itertools
import math

import pytest

from wirebound.simulate.all_reduces import all_reduce_named, prime_factors
from wirebound.simulate.collectives import (
    double_tree_additions,
    double_tree_all_reduce,
    halving_doubling_all_reduce,
    recursive_doubling_additions,
    recursive_doubling_all_reduce,
    recursive_doubling_sent_bytes,
)
from wirebound.simulate.gather import (
    all_gather,
    all_gather_sent_bytes,
    gtopk_tree,
    gtopk_tree_sent_bytes,
    halving_reduce_scatter,
    reduce_scatter_sent_bytes,
    ring_all_gather,
    ring_reduce_scatter,
    scattered_broadcast,
    tree_broadcast,
)
from wirebound.simulate.trees import double_tree_busiest_sent_bytes, pipelined_double_tree_all_reduce


class Network:
    """Workers with a vector each. A round's messages travel together; the longest of them sets the round's bytes."""

    def __init__(self, workers, elements):
        self.vectors = [[(worker + 1) * (place + 1) for place in range(elements)] for worker in range(workers)]
        self.sums = [sum(column) for column in zip(*self.vectors, strict=True)]
        self.rounds, self.bytes = 0, 0
        self.sent, self.added = [0] * workers, [[] for _ in range(workers)]

    def exchange(self, messages, *, add):
        """Send (source, target, places) all at once; `add` to what the target has, or replace it."""
        messages = [(source, target, list(places)) for source, target, places in messages]
        carried = [[self.vectors[source][place] for place in places] for source, _, places in messages]
        for (source, target, places), values in zip(messages, carried, strict=True):
            self.sent[source] += len(places)
            for place, value in zip(places, values, strict=True):
                self.vectors[target][place] = self.vectors[target][place] + value if add else value
            if add:
                self.added[target].append(len(places))
        self.rounds += 1
        self.bytes += max(len(places) for _, _, places in messages)

    def all_have_the_sums(self):
        return all(vector == self.sums for vector in self.vectors)


def exchanges(network, seconds, workers, elements):
    """The rounds and bytes that an equation counts are those of the run."""
    assert seconds(elements, workers, 1.0, math.inf) == network.rounds
    assert seconds(elements, workers, 0.0, 1.0) == pytest.approx(network.bytes)


def give_to_partners(network, workers, power, elements, *, back):
    pairs = [(extra, extra - power) for extra in range(power, workers)]
    if pairs:
        network.exchange([(*(pair[::-1] if back else pair), range(elements)) for pair in pairs], add=not back)


@pytest.mark.parametrize("workers", [2, 3, 4, 5, 8, 13])
def test_recursive_doubling(workers):
    elements = 12
    network, power = Network(workers, elements), 2 ** (workers.bit_length() - 1)
    give_to_partners(network, workers, power, elements, back=False)
    distance = 1
    while distance < power:
        network.exchange([(w, w ^ distance, range(elements)) for w in range(power)], add=True)
        distance *= 2
    give_to_partners(network, workers, power, elements, back=True)
    assert network.all_have_the_sums()
    exchanges(network, recursive_doubling_all_reduce, workers, elements)
    assert recursive_doubling_sent_bytes(elements, workers) == max(network.sent)
    ((count, size),) = recursive_doubling_additions(elements, workers)
    assert [size] * count == network.added[0]


@pytest.mark.parametrize("workers", [2, 4, 6, 8, 11])
def test_halving_doubling_takes_the_rounds_of_its_exchanges(workers):
    elements = 64
    network, power = Network(workers, elements), 2 ** (workers.bit_length() - 1)
    give_to_partners(network, workers, power, elements, back=False)
    spans, distance, history = [(0, elements)] * power, power // 2, []
    while distance:
        halves = []
        for worker, (low, high) in enumerate(spans):
            middle = (low + high) // 2
            halves.append((middle, high) if worker & distance else (low, middle))
        network.exchange([(w, w ^ distance, range(*halves[w ^ distance])) for w in range(power)], add=True)
        history.append((distance, halves))
        spans, distance = halves, distance // 2
    for distance, halves in reversed(history):
        network.exchange([(w, w ^ distance, range(*halves[w])) for w in range(power)], add=False)
        spans = [(min(a, b), max(c, d)) for (a, c), (b, d) in ((spans[w], spans[w ^ distance]) for w in range(power))]
        history = [(d, [spans[w] if d == distance * 2 else h[w] for w in range(power)]) for d, h in history]
    give_to_partners(network, workers, power, elements, back=True)
    assert network.all_have_the_sums()
    exchanges(network, halving_doubling_all_reduce, workers, elements)
    if power == workers:
        assert halving_reduce_scatter(elements, workers, 1.0, math.inf) == network.rounds / 2
        assert halving_reduce_scatter(elements, workers, 0.0, 1.0) == network.bytes / 2


def ring_stages(network, groups, spans, *, reduce):
    """Rings in parallel, one a group of workers; each worker's span is cut into one piece for each member."""
    length = len(groups[0])
    for step in range(length - 1):
        messages = []
        for group in groups:
            for position, worker in enumerate(group):
                low, high = spans[worker]
                piece = (high - low) // length
                index = (position - step - (1 if reduce else 0)) % length
                start = low + index * piece
                messages.append((worker, group[(position + 1) % length], range(start, start + piece)))
        network.exchange(messages, add=reduce)


def run_blueconnect(workers, factors, elements):
    """Reduce stage by stage into ever smaller shards, then gather them back in reverse order."""
    network = Network(workers, elements)
    spans, stages, stride = [(0, elements)] * workers, [], 1
    for factor in factors:
        starts = [w for w in range(workers) if w // stride % factor == 0]
        groups = [[start + member * stride for member in range(factor)] for start in starts]
        ring_stages(network, groups, spans, reduce=True)
        stages.append((groups, spans))
        spans = list(spans)
        for group in groups:
            for position, worker in enumerate(group):
                low, high = stages[-1][1][worker]
                piece = (high - low) // factor
                spans[worker] = (low + position * piece, low + (position + 1) * piece)
        stride *= factor
    for groups, before in reversed(stages):
        ring_stages(network, groups, before, reduce=False)
    return network


@pytest.mark.parametrize("stages", [(2,), (5,), (2, 2), (4, 2), (2, 3), (3, 2, 2), (2, 2, 2, 2)])
def test_blueconnect(stages):
    workers = math.prod(stages)
    elements = workers * 3
    network = run_blueconnect(workers, stages, elements)
    assert network.all_have_the_sums()
    algorithm = all_reduce_named("blueconnect:" + "x".join(map(str, stages)))
    exchanges(network, algorithm.seconds, workers, elements)
    assert algorithm.sent_bytes(elements, workers) == pytest.approx(max(network.sent))
    additions = [size for count, size in algorithm.additions(elements, workers) for _ in range(count)]
    assert additions == pytest.approx(network.added[0])
    if tuple(sorted(stages)) == tuple(prime_factors(workers)):
        exchanges(network, all_reduce_named("blueconnect").seconds, workers, elements)


@pytest.mark.parametrize("workers", [2, 3, 6])
def test_ring_reduce_scatter_is_the_first_half_of_a_ring(workers):
    elements = workers * 4
    network = Network(workers, elements)
    ring_stages(network, [list(range(workers))], [(0, elements)] * workers, reduce=True)
    piece = elements // workers
    for worker, vector in enumerate(network.vectors):
        own = slice(worker * piece, (worker + 1) * piece)
        assert vector[own] == network.sums[own]
    exchanges(network, ring_reduce_scatter, workers, elements)
    assert reduce_scatter_sent_bytes(elements, workers) == pytest.approx(max(network.sent))


def halved(blocks, workers):
    """Blocks split over a power of two of workers, as evenly as can be: the blocks of each worker's part by round."""
    if workers == 1:
        return [[blocks]]
    middle = (len(blocks) + 1) // 2
    parts = halved(blocks[:middle], workers // 2) + halved(blocks[middle:], workers // 2)
    return [[blocks, *part] for part in parts]


@pytest.mark.parametrize("workers", [2, 3, 4, 5, 6, 7, 8, 11, 13])
def test_halving_reduce_scatter(workers):
    piece, power = 4, 2 ** (workers.bit_length() - 1)
    elements = workers * piece
    network, parts = Network(workers, elements), halved(range(workers), power)
    helpers = [worker for worker in range(power) if len(parts[worker][-1]) == 2]
    pairs = list(zip(range(power, workers), helpers, strict=True))

    def places(blocks):
        return [block * piece + offset for block in blocks for offset in range(piece)]

    if pairs:
        network.exchange([(extra, helper, range(elements)) for extra, helper in pairs], add=True)
    for depth in range(1, power.bit_length()):
        distance = power >> depth
        network.exchange([(w, w ^ distance, places(parts[w ^ distance][depth])) for w in range(power)], add=True)
    if pairs:
        network.exchange([(helper, extra, places(parts[helper][-1][1:])) for extra, helper in pairs], add=False)
    own = {worker: parts[worker][-1][0] for worker in range(power)}
    own |= {extra: parts[helper][-1][1] for extra, helper in pairs}
    assert sorted(own.values()) == list(range(workers))
    for worker, block in own.items():
        assert all(network.vectors[worker][place] == network.sums[place] for place in places([block]))
    exchanges(network, halving_reduce_scatter, workers, elements)


@pytest.mark.parametrize("workers", [2, 3, 4, 5, 7, 8, 12])
def test_all_gather_by_doubling_and_along_a_ring(workers):
    payload = 5
    have, rounds, sent = [{worker} for worker in range(workers)], 0, 0
    while len(have[0]) < workers:  # Bruck: everyone sends what it has, but no more than is missing
        reach = len(have[0])
        count = min(reach, workers - reach)
        moving = [{(worker + offset) % workers for offset in range(count)} for worker in range(workers)]
        assert all(blocks <= own for blocks, own in zip(moving, have, strict=True))
        have = [have[worker] | moving[(worker + reach) % workers] for worker in range(workers)]
        rounds, sent = rounds + 1, sent + count * payload
    assert all(len(own) == workers for own in have)
    assert all_gather(payload, workers, 1.0, math.inf) == rounds
    assert all_gather(payload, workers, 0.0, 1.0) == sent == all_gather_sent_bytes(payload, workers)
    assert ring_all_gather(payload, workers, 1.0, math.inf) == workers - 1
    assert ring_all_gather(payload, workers, 0.0, 1.0) == sent


def binomial_rounds(workers):
    """Rounds of (source, target) that spread from worker 0, those who have it sending to one who has not."""
    have = 1
    while have < workers:
        yield [(source, source + have) for source in range(have) if source + have < workers]
        have *= 2


@pytest.mark.parametrize("workers", [2, 3, 5, 8, 9])
def test_broadcasts(workers):
    elements = workers * 2
    network = Network(workers, elements)
    root = list(network.vectors[0])
    for pairs in binomial_rounds(workers):
        network.exchange([(source, target, range(elements)) for source, target in pairs], add=False)
    assert all(vector == root for vector in network.vectors)
    exchanges(network, tree_broadcast, workers, elements)


@pytest.mark.parametrize("workers", [2, 4, 8, 16])
def test_scattered_broadcast(workers):
    elements = workers * 2
    network = Network(workers, elements)
    root, piece = list(network.vectors[0]), 2
    distance = workers // 2
    while distance:  # halves of what a worker holds go to one who holds nothing yet
        holders = range(0, workers, 2 * distance)
        far = [(w, w + distance, range((w + distance) * piece, (w + 2 * distance) * piece)) for w in holders]
        network.exchange(far, add=False)
        distance //= 2
    for step in range(workers - 1):
        moving = [((worker - step) % workers, worker) for worker in range(workers)]
        network.exchange(
            [(w, (w + 1) % workers, range(index * piece, (index + 1) * piece)) for index, w in moving], add=False
        )
    assert all(vector == root for vector in network.vectors)
    exchanges(network, scattered_broadcast, workers, elements)


@pytest.mark.parametrize("workers", [2, 3, 4, 6, 8, 13])
def test_gtopk_tree(workers):
    """Merge sparse vectors of k entries in pairs, keep the k largest, and broadcast: rounds and messages."""
    k, payload = 3, 24
    held = [{(worker * 7 + entry * 5) % 16: worker + entry + 1 for entry in range(k)} for worker in range(workers)]
    sent, rounds = [0] * workers, 0
    for pairs in reversed(list(binomial_rounds(workers))):
        for parent, child in pairs:
            merged = {i: held[parent].get(i, 0) + held[child].get(i, 0) for i in held[parent] | held[child]}
            held[parent] = dict(sorted(merged.items(), key=lambda item: (-item[1], item[0]))[:k])
            sent[child] += payload
        rounds += 1
    for pairs in binomial_rounds(workers):
        for source, target in pairs:
            held[target] = held[source]
            sent[source] += payload
        rounds += 1
    assert all(sparse == held[0] and len(sparse) == k for sparse in held)
    assert gtopk_tree(payload, workers, 1.0, math.inf) == rounds
    assert gtopk_tree(payload, workers, 0.0, 1.0) == rounds * payload
    assert gtopk_tree_sent_bytes(payload, workers) == max(sent)


def binary_tree(workers):
    """Parent of each worker in a binary tree whose inner workers are the even ones, root 0 with a single child."""
    parents = {}
    for worker in range(1, workers):
        bit = worker & -worker
        parent = (worker ^ bit) | (bit << 1)
        parents[worker] = parent if parent < workers else worker ^ bit
    return parents


def two_trees(workers):
    """Two such trees, the second mirrored or, with an odd number, shifted, so that no worker is inner in both."""
    first = binary_tree(workers)
    if workers % 2:
        return first, {(child + 1) % workers: (parent + 1) % workers for child, parent in first.items()}
    return first, {workers - 1 - child: workers - 1 - parent for child, parent in first.items()}


def run_double_tree(workers, pieces, latency, piece_s):
    """Send pieces of real numbers up and down two trees; each worker sends one message at a time.

    Returns when the last worker has the last sum, and the pieces that each worker sent. Of what waits, the earliest
    ready goes first.
    """
    trees = two_trees(workers)
    children = [{w: [c for c, p in tree.items() if p == w] for w in range(workers)} for tree in trees]
    value = {(t, w, m): (w + 1) * (m + 1 + 100 * t) for t in range(2) for w in range(workers) for m in range(pieces)}
    wanted = {(t, m): sum(value[t, w, m] for w in range(workers)) for t in range(2) for m in range(pieces)}
    missing = {(t, w, m): len(children[t][w]) for t, w, m in value}
    has_sum, free, sent = {}, [0.0] * workers, [0] * workers
    events, order = [], itertools.count()

    def send(now, tree, source, target, piece, upward):
        heapq.heappush(events, (now, next(order), "ready", tree, source, target, piece, upward))

    def reduced(now, tree, worker, piece):
        if worker in trees[tree]:
            send(now, tree, worker, trees[tree][worker], piece, True)
        else:
            spread(now, tree, worker, piece)

    def spread(now, tree, worker, piece):
        has_sum[tree, worker, piece] = now
        for child in children[tree][worker]:
            send(now, tree, worker, child, piece, False)

    for tree, worker, piece in sorted(value, key=lambda key: key[2]):
        if not missing[tree, worker, piece]:
            reduced(0.0, tree, worker, piece)
    while events:
        now, _, kind, tree, source, target, piece, upward = heapq.heappop(events)
        if kind == "ready" and free[source] > now:
            heapq.heappush(events, (free[source], next(order), kind, tree, source, target, piece, upward))
        elif kind == "ready":
            free[source] = now + latency + piece_s
            sent[source] += 1
            heapq.heappush(events, (free[source], next(order), "there", tree, source, target, piece, upward))
        elif upward:
            value[tree, target, piece] += value[tree, source, piece]
            missing[tree, target, piece] -= 1
            if not missing[tree, target, piece]:
                reduced(now, tree, target, piece)
        else:
            value[tree, target, piece] = value[tree, source, piece]
            spread(now, tree, target, piece)
    assert all(value[t, w, m] == wanted[t, m] for t, w, m in value)
    return max(has_sum.values()), sent


@pytest.mark.parametrize("workers", range(2, 24))
def test_a_double_tree_sums_and_sends_what_the_equations_count(workers):
    pieces, size = 3, 12.0
    _, sent = run_double_tree(workers, pieces, 1.0, 1.0)
    piece = size / 2 / pieces
    assert max(sent) * piece == pytest.approx(double_tree_busiest_sent_bytes(size, workers))
    assert sum(sent) / workers * piece == pytest.approx(double_tree_all_reduce(size, workers, 0.0, 1.0))
    depths = [max(len(list(path(tree, worker))) for worker in range(workers)) for tree in two_trees(workers)]
    assert 2 * max(depths) == double_tree_all_reduce(0.0, workers, 1.0, 1.0)
    inner = [set(tree.values()) - (set(range(workers)) - set(tree)) for tree in two_trees(workers)]
    assert not inner[0] & inner[1]
    children = [parent for tree in two_trees(workers) for parent in tree.values()]
    most = max(children.count(worker) for worker in range(workers))
    assert double_tree_additions(size, workers) == [(most, size / 2)]


def path(tree, worker):
    while worker in tree:
        worker = tree[worker]
        yield worker


@pytest.mark.parametrize("workers", [2, 3, 4, 5, 8, 16, 31])
@pytest.mark.parametrize("size", [0.0, 4.0, 64.0, 1024.0])
def test_a_double_tree_takes_about_as_long_as_its_equation_says(workers, size):
    """The best run over the number of pieces, with α = 1 s and 1 B/s: never shorter than the equation.

    Runs take longer because a worker's copies for two children leave one after the other, which only the first piece
    notices: by up to 3/8 where there is only one, and little for long vectors.
    """
    best = min(run_double_tree(workers, m, 1.0, size / 2 / m)[0] for m in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48))
    found = pipelined_double_tree_all_reduce(size, workers, 1.0, 1.0)
    assert found <= best * (1 + 1e-12)
    assert best <= found * (1.4 if size < 64 else 1.15)
