"""One message on an otherwise idle cluster, played out: its seconds, and the bytes that left each port."""

from dataclasses import dataclass

import simpy

from .collectives import all_reduce_by_name
from .job import interpolated_add
from .servers import colocated_servers, separate_servers
from .wires import Port, Ranks, everyone

#: What a library's automatic choice takes the fastest of.
LIBRARIES = {"auto:gloo": ["ring", "halving-doubling"], "auto:mpi": ["ring", "recursive-doubling", "halving-doubling"]}


@dataclass(frozen=True)
class Exchange:
    seconds: float
    worker_bytes: float
    node_bytes: float


class Network:
    """The cluster under one method. Messages go one at a time, so each finds it idle: equal sizes are played once."""

    def __init__(self, cluster, method, add_table=()):
        self.cluster = cluster
        self.method = method
        self.add_table = add_table
        self._known = {}

    def exchange(self, size) -> Exchange:
        """Play a message of `size` bytes before compression."""
        if size not in self._known:
            names = LIBRARIES.get(self.method.collective, [self.method.collective])
            self._known[size] = min((self._play(size, name) for name in names), key=lambda e: e.seconds)
        return self._known[size]

    def seconds(self, size):
        return self.exchange(size).seconds

    def _play(self, size, collective):
        if collective == "flat-ring" and self.method.architecture == "all-reduce":
            return self._play_flat(size)
        env = simpy.Environment()
        cluster, X = self.cluster, self.cluster.accelerators_per_node
        inside, between = Ranks(env, X, cluster.intra), Ranks(env, cluster.nodes, cluster.inter)
        wire = size / self.method.compression
        cards = cluster.nics_per_node  # each carries its part at the same time as the others

        def everything():
            # every node does the same at the same time, so one node's accelerators stand for all
            if X > 1:
                yield everyone(env, [half_ring(inside, rank, wire, self._add(size), True) for rank in range(X)])
            if cluster.nodes > 1:
                yield env.process(self._between(env, between, wire / cards, self._add(size / X), collective))
            if X > 1:
                yield everyone(env, [half_ring(inside, rank, wire, self._add(size), False) for rank in range(X)])

        env.process(everything())
        env.run()
        node = between.busiest_sent * cards
        return Exchange(env.now, inside.busiest_sent + node / X, node)

    def _between(self, env, nodes, wire, add, collective):
        method = self.method
        if method.architecture == "all-reduce":
            return all_reduce_by_name(collective, nodes)(nodes, wire, add)
        if method.colocated:
            return colocated_servers(env, nodes, self.cluster.inter, wire)
        servers = method.servers or nodes.count
        return separate_servers(env, nodes, self.cluster.inter, servers, wire, method.push_pull_overlap)

    def _play_flat(self, size):
        """One ring over all accelerators, in rounds; the last of each node sends through the node's cards."""
        env, cluster = simpy.Environment(), self.cluster
        X, P = cluster.accelerators_per_node, cluster.accelerators_per_node * cluster.nodes
        block = size / self.method.compression / P
        inside = [Port(env, cluster.intra) for _ in range(X - 1 if cluster.nodes > 1 else X)] if X > 1 else []
        card = [Port(env, cluster.inter)] if cluster.nodes > 1 else []
        add = self._add(size)

        def rounds():
            for step in range(2 * (P - 1)):
                hops = [port.send(block) for port in inside] + [
                    port.send(block / cluster.nics_per_node) for port in card
                ]
                yield everyone(env, hops)
                if step < P - 1:
                    yield env.timeout(add(1 / P))

        env.process(rounds())
        env.run()
        return Exchange(env.now, 2 * (P - 1) * block, cluster.nics_per_node * sum(port.sent for port in card))

    def _add(self, size):
        """Seconds of adding a share of a vector of `size` bytes, never compressed."""
        return lambda share: interpolated_add(self.add_table, size * share)


def half_ring(ranks, rank, size, add, reducing):
    """One accelerator's part in a ring that only reduces, or only spreads: P−1 steps of S/P."""
    P = ranks.count
    for _step in range(P - 1):
        ranks.send(rank, (rank + 1) % P, size / P)
        yield ranks.receive((rank - 1) % P, rank)
        if reducing:
            yield ranks.env.timeout(add(1 / P))
