"""One message on an otherwise idle cluster, played out: its seconds, and the bytes that left each port."""

from dataclasses import dataclass

import simpy

from .collectives import ALL_REDUCES
from .job import interpolated_add
from .servers import colocated_servers, separate_servers
from .wires import Ranks, everyone


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
            self._known[size] = self._play(size)
        return self._known[size]

    def seconds(self, size):
        return self.exchange(size).seconds

    def _play(self, size):
        env = simpy.Environment()
        cluster, X = self.cluster, self.cluster.accelerators_per_node
        inside, between = Ranks(env, X, cluster.intra), Ranks(env, cluster.nodes, cluster.inter)
        wire = size / self.method.compression

        def everything():
            # every node does the same at the same time, so one node's accelerators stand for all
            if X > 1:
                yield everyone(env, [half_ring(inside, rank, wire, self._add(size), True) for rank in range(X)])
            if cluster.nodes > 1:
                yield env.process(self._between(env, between, wire, self._add(size / X)))
            if X > 1:
                yield everyone(env, [half_ring(inside, rank, wire, self._add(size), False) for rank in range(X)])

        env.process(everything())
        env.run()
        node = between.busiest_sent
        return Exchange(env.now, inside.busiest_sent + node / X, node)

    def _between(self, env, nodes, wire, add):
        method = self.method
        if method.architecture == "all-reduce":
            return ALL_REDUCES[method.collective](nodes, wire, add)
        if method.colocated:
            return colocated_servers(env, nodes, self.cluster.inter, wire)
        servers = method.servers or nodes.count
        return separate_servers(env, nodes, self.cluster.inter, servers, wire, method.push_pull_overlap)

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
