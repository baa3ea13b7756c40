"""What one message costs on a cluster: chooses the formulas of `collectives` and `servers` and puts them together."""

from collections.abc import Callable

from wirebound.errors import unknown_name
from wirebound.model import Cluster, Method, Workload
from wirebound.simulate.collectives import (
    ALL_REDUCES,
    AllReduce,
    hierarchical_all_reduce,
    ring_additions,
    ring_sent_bytes,
    vector_add,
)
from wirebound.simulate.servers import (
    colocated_parameter_server,
    colocated_parameter_server_sent_bytes,
    parameter_server,
    parameter_server_sent_bytes,
)

#: Seconds of a message of so many bytes (before compression).
Cost = Callable[[float], float]


def all_reduce_named(name: str) -> AllReduce:
    """Return the all-reduce algorithm `name`; raises `InputError` with the closest name for an unknown one."""
    if name not in ALL_REDUCES:
        raise unknown_name("collective", name, ALL_REDUCES)
    return ALL_REDUCES[name]


def message_cost(workload: Workload, cluster: Cluster, method: Method, *, include_vector_add: bool = True) -> Cost:
    """Return the function from a message's bytes (before compression) to its seconds on an otherwise idle network.

    The accelerators of a node first reduce among themselves in a ring, then the nodes exchange over their shared
    links, then the node spreads the result. One node alone uses no network and no server. The compression ratio
    divides the bytes on every link. Vector additions are of whole, uncompressed vectors (Zhang et al. 2020): in a flat
    ring (N−1)·add(S/N), in a hierarchy (X−1)·add(S/X) inside the node and (Y−1)·add(S/(X·Y)) between nodes, each
    accelerator adding its own shard. They are counted where the workload has them measured. With parameter servers
    only those inside the node are: the servers add on other machines, which the workload's table says nothing about.

    Raises `InputError` for an unknown collective.
    """
    all_reduce = all_reduce_named(method.collective)
    between = _between_nodes(cluster, method, all_reduce)
    per_node, compression = cluster.accelerators_per_node, method.compression
    intra_latency, intra_bandwidth = cluster.intra.latency_s, cluster.intra.effective_bandwidth
    add = _additions(workload, cluster, method, all_reduce) if include_vector_add and workload.vector_add else None
    known: dict[float, float] = {}

    def seconds(size: float) -> float:
        if size in known:  # networks repeat few tensor sizes many times
            return known[size]
        wire = size / compression
        time = between(wire)
        if per_node > 1:
            time = hierarchical_all_reduce(wire, per_node, intra_latency, intra_bandwidth, time)
        if add is not None:
            time += add(size)
        known[size] = time
        return time

    return seconds


def _between_nodes(cluster: Cluster, method: Method, all_reduce: AllReduce) -> Cost:
    """Seconds between nodes, for bytes on the wire."""
    nodes, latency, bandwidth = cluster.nodes, cluster.inter.latency_s, cluster.inter.effective_bandwidth
    if nodes == 1:
        return lambda wire: 0.0
    if method.architecture == "all-reduce":
        return lambda wire: all_reduce.seconds(wire, nodes, latency, bandwidth)
    if method.colocated:
        return lambda wire: colocated_parameter_server(wire, nodes, latency, bandwidth)
    servers, overlap = method.servers or nodes, method.push_pull_overlap
    return lambda wire: parameter_server(wire, nodes, servers, latency, bandwidth, overlap)


def _additions(workload: Workload, cluster: Cluster, method: Method, all_reduce: AllReduce) -> Cost:
    """Seconds of the accelerators' vector additions, for bytes before compression."""
    nodes, per_node = cluster.nodes, cluster.accelerators_per_node
    table = sorted(workload.vector_add)
    table_bytes = tuple(size for size, _ in table)
    table_s = tuple(seconds for _, seconds in table)

    def seconds(size: float) -> float:
        additions = ring_additions(size, per_node) if per_node > 1 else []
        if nodes > 1 and method.architecture == "all-reduce":
            additions += all_reduce.additions(size / per_node, nodes)
        return sum(count * vector_add(piece, table_bytes, table_s) for count, piece in additions if count)

    return seconds


def sent_bytes(workload: Workload, cluster: Cluster, method: Method) -> tuple[float, float]:
    """Return the bytes that one worker sends in a step over all its links, and those that its node's link sends.

    Raises `InputError` for an unknown collective.
    """
    nodes, per_node = cluster.nodes, cluster.accelerators_per_node
    wire = workload.size / method.compression
    if nodes == 1:
        node = 0.0
    elif method.architecture == "all-reduce":
        node = all_reduce_named(method.collective).sent_bytes(wire, nodes)
    elif method.colocated:
        node = colocated_parameter_server_sent_bytes(wire, nodes)
    else:
        node = parameter_server_sent_bytes(wire)
    return ring_sent_bytes(wire, per_node) + node / per_node, node
