"""Which synchronization architecture is the fastest for one message: rows over size, workers, latency, bandwidth."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from wirebound.errors import InputError
from wirebound.model import Cluster, Link, Method
from wirebound.model.cluster import FREE_LINK
from wirebound.simulate.all_reduces import candidates
from wirebound.simulate.cost import exchange_cost, exchange_sent_bytes

#: What is compared where nothing else is asked for; of equals the first wins. Extra servers are as many as nodes.
ARCHITECTURES: dict[str, Method] = {
    "ring": Method("ring", "all-reduce", "bsp", collective="ring"),
    "halving-doubling": Method("halving-doubling", "all-reduce", "bsp", collective="halving-doubling"),
    "recursive-doubling": Method("recursive-doubling", "all-reduce", "bsp", collective="recursive-doubling"),
    "pipelined-tree": Method("pipelined-tree", "all-reduce", "bsp", collective="pipelined-tree"),
    "blueconnect": Method("blueconnect", "all-reduce", "bsp", collective="blueconnect"),
    "parameter-server": Method("parameter-server", "parameter-server", "bsp"),
    "colocated-parameter-server": Method("colocated-parameter-server", "parameter-server", "bsp", colocated=True),
    "byteps": Method("byteps", "all-reduce", "bsp", collective="byteps"),
    "in-network": Method("in-network", "all-reduce", "bsp", collective="in-network"),
}

#: Times closer than this share are equal, so that rounding draws no borders.
_SAME = 1e-9


class ArchitectureCost(NamedTuple):
    """One message of `size` bytes through one architecture.

    `latency_s` and `bandwidth` (bytes per second) are those of a card between nodes, `seconds` the time of the
    exchange without vector additions, and the bytes those that a worker and that a node's cards send.
    """

    architecture: str
    size: float
    workers: int
    latency_s: float
    bandwidth: float
    seconds: float
    worker_sent_bytes: float
    node_sent_bytes: float


def compare_architectures(
    size: float,
    cluster: Cluster,
    architectures: Mapping[str, Method] = ARCHITECTURES,
    *,
    latency_per_partner: bool = False,
) -> list[ArchitectureCost]:
    """Return a row for each architecture that carries a message of `size` bytes on the wire, in the order given.

    Of a method only the architecture, the collective and the servers matter. The engine charges an exchange with
    servers the latency once for each way, however many they are, as if a machine's messages to all its partners set out
    at once. With `latency_per_partner` they set out one after the other, so that the latency counts once for each: it
    is the time that a message takes of a machine, rather than of the wire. The truth lies between. Raises `InputError`
    for an unknown collective.
    """
    return [_row(name, size, cluster, method, latency_per_partner) for name, method in architectures.items()]


def _partners(cluster: Cluster, method: Method, collective: str) -> int:
    """With how many machines the busiest one exchanges messages each way; 1 where rounds are counted already."""
    nodes = cluster.nodes
    if method.architecture != "all-reduce":
        return nodes - 1 if method.colocated else max(nodes, method.servers)
    family, _, servers = collective.partition(":")
    return nodes - 1 + min(int(servers or nodes), nodes) if family == "byteps" else 1


def _row(name: str, size: float, cluster: Cluster, method: Method, latency_per_partner: bool) -> ArchitectureCost:
    priced = [(exchange_cost(cluster, method, one)(size), one) for one in candidates(method.collective)]
    seconds, collective = min(priced, key=lambda pair: pair[0])
    if latency_per_partner and cluster.nodes > 1:
        seconds += 2 * (_partners(cluster, method, collective) - 1) * cluster.inter.latency_s
    worker, node = exchange_sent_bytes(size, cluster, method, collective)
    inter = cluster.inter
    return ArchitectureCost(
        name, size, cluster.workers, inter.latency_s, inter.effective_bandwidth, seconds, worker, node
    )


def architecture_grid(
    sizes: Sequence[float],
    workers: Sequence[int],
    latencies: Sequence[float],
    bandwidths: Sequence[float],
    architectures: Mapping[str, Method] = ARCHITECTURES,
    *,
    accelerators_per_node: int = 1,
    intra: Link = FREE_LINK,
    nics_per_node: int = 1,
    latency_per_partner: bool = False,
) -> list[ArchitectureCost]:
    """Return the rows of all combinations: sizes in bytes, latencies in seconds, bandwidths in bytes per second.

    `latency_per_partner` is that of `compare_architectures`. Raises `InputError` for workers that do not fill their
    nodes, a bad link, or an unknown collective.
    """
    rows = []
    for count in workers:
        if count < 1 or count % accelerators_per_node:
            raise InputError(f"workers = {count} must be a multiple of the {accelerators_per_node} of a node")
        for latency in latencies:
            for bandwidth in bandwidths:
                cluster = Cluster(
                    count // accelerators_per_node,
                    Link(bandwidth, latency),
                    accelerators_per_node,
                    intra,
                    nics_per_node,
                )
                for size in sizes:
                    rows += compare_architectures(size, cluster, architectures, latency_per_partner=latency_per_partner)
    return rows


def winners(rows: Iterable[ArchitectureCost]) -> list[ArchitectureCost]:
    """Return the fastest row for each size, number of workers, latency and bandwidth; of equals the first.

    Equal are times within a billionth of each other.
    """
    best: dict[tuple[float, int, float, float], ArchitectureCost] = {}
    for row in rows:
        key = (row.size, row.workers, row.latency_s, row.bandwidth)
        if key not in best or row.seconds < best[key].seconds * (1 - _SAME):
            best[key] = row
    return list(best.values())
