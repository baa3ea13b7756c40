"""What one message costs on a cluster: chooses the formulas of `collectives` and `servers` and puts them together."""

from collections.abc import Callable, Sequence

from wirebound.model import Cluster, Method, Workload
from wirebound.simulate.all_reduces import FLAT_RING, all_reduce_named, candidates
from wirebound.simulate.collectives import (
    hierarchical_all_reduce,
    ring_additions,
    ring_sent_bytes,
    vector_add,
)
from wirebound.simulate.hierarchical import flat_ring_all_reduce
from wirebound.simulate.servers import (
    colocated_parameter_server,
    colocated_parameter_server_sent_bytes,
    parameter_server,
    parameter_server_sent_bytes,
)

#: Seconds of a message of so many bytes (before compression).
Cost = Callable[[float], float]


def message_cost(workload: Workload, cluster: Cluster, method: Method, *, include_vector_add: bool = True) -> Cost:
    """Return the function from a message's bytes (before compression) to its seconds on an otherwise idle network.

    The accelerators of a node first reduce among themselves in a ring, then the nodes exchange over their network
    cards, then the node spreads the result. Each of m cards carries 1/m of a message, so that with as many cards as
    accelerators the exchange is that of a torus; servers have as many. The collective ``flat-ring`` is one ring over
    all accelerators instead. One node alone uses no network and no server. The compression ratio divides the bytes on
    every link.

    Vector additions are of whole, uncompressed vectors (Zhang et al. 2020): in a flat ring (N−1)·add(S/N), in a
    hierarchy (X−1)·add(S/X) inside the node and (Y−1)·add(S/(X·Y)) between nodes, each accelerator adding its own
    shard. They are counted where the workload has them measured. With servers and with a switch that adds, only those
    inside the node are: the others happen on other machines, which the workload's table says nothing about.

    With the collective ``auto`` a message takes what its fastest candidate takes.

    Raises `InputError` for an unknown collective.
    """
    costs = list(_costs(workload, cluster, method, include_vector_add).values())
    if len(costs) == 1:
        return _remembered(costs[0])
    return _remembered(lambda size: min(cost(size) for cost in costs))


def chosen_collective(
    workload: Workload, cluster: Cluster, method: Method, *, include_vector_add: bool = True
) -> Callable[[float], str]:
    """Return the function from a message's bytes (before compression) to the name of the collective that carries it.

    It is `method.collective` but for ``auto``: then the fastest candidate, of equals the first. Raises `InputError`
    for an unknown collective.
    """
    costs = _costs(workload, cluster, method, include_vector_add)
    known: dict[float, str] = {}

    def chosen(size: float) -> str:
        if size not in known:
            known[size] = min(costs, key=lambda name: costs[name](size))
        return known[size]

    return chosen


def exchange_cost(cluster: Cluster, method: Method, collective: str) -> Cost:
    """Return the function from bytes on the wire to seconds over all links of the cluster, without vector additions.

    `collective` is a name of `all_reduces` other than ``auto``; it matters where `method` is an all-reduce. Raises
    `InputError` for an unknown one.
    """
    nodes, per_node, cards = cluster.nodes, cluster.accelerators_per_node, cluster.nics_per_node
    intra_latency, intra_bandwidth = cluster.intra.latency_s, cluster.intra.effective_bandwidth
    if _is_flat(method, collective):
        latency, bandwidth = cluster.inter.latency_s, cluster.inter.effective_bandwidth
        return lambda wire: flat_ring_all_reduce(
            wire, nodes, per_node, cards, intra_latency, intra_bandwidth, latency, bandwidth
        )
    between = _between_nodes(cluster, method, collective)
    if per_node == 1:
        return between
    return lambda wire: hierarchical_all_reduce(wire, per_node, intra_latency, intra_bandwidth, between(wire / cards))


def exchange_sent_bytes(wire: float, cluster: Cluster, method: Method, collective: str) -> tuple[float, float]:
    """Return the bytes that one worker sends over all its links, and those that its node's cards send together.

    Of a message of `wire` bytes; `collective` as in `exchange_cost`. Raises `InputError` for an unknown collective.
    """
    nodes, per_node = cluster.nodes, cluster.accelerators_per_node
    if _is_flat(method, collective):
        sent = ring_sent_bytes(wire, cluster.workers)
        return sent, sent if nodes > 1 else 0.0
    if nodes == 1:
        node = 0.0
    elif method.architecture == "all-reduce":
        node = all_reduce_named(collective).sent_bytes(wire, nodes)
    elif method.colocated:
        node = colocated_parameter_server_sent_bytes(wire, nodes)
    else:
        node = parameter_server_sent_bytes(wire)
    return ring_sent_bytes(wire, per_node) + node / per_node, node


def sent_bytes(
    workload: Workload,
    cluster: Cluster,
    method: Method,
    messages: Sequence[float] = (),
    *,
    include_vector_add: bool = True,
) -> tuple[float, float]:
    """Return the bytes that one worker sends in a step over all its links, and those that its node's cards send.

    `messages` are the bytes (before compression) of the step's messages, for the collective ``auto``, which chooses
    for each; without them all gradients are one. Raises `InputError` for an unknown collective.
    """
    names = _collectives(method)
    carried = {names[0]: float(workload.size)}
    if len(names) > 1:
        chosen = chosen_collective(workload, cluster, method, include_vector_add=include_vector_add)
        carried = {}
        for size in messages or (workload.size,):
            carried[chosen(size)] = carried.get(chosen(size), 0.0) + size
    sent = [exchange_sent_bytes(size / method.compression, cluster, method, name) for name, size in carried.items()]
    return sum(worker for worker, _ in sent), sum(node for _, node in sent)


def _collectives(method: Method) -> tuple[str, ...]:
    """The collectives that a message may take; raises `InputError` for an unknown one, whatever the architecture."""
    names = candidates(method.collective)
    return names if method.architecture == "all-reduce" else names[:1]


def _costs(workload: Workload, cluster: Cluster, method: Method, include_vector_add: bool) -> dict[str, Cost]:
    """Seconds for bytes before compression, by each collective that a message may take."""
    with_add = include_vector_add and bool(workload.vector_add)
    return {name: _cost(workload, cluster, method, name, with_add) for name in _collectives(method)}


def _cost(workload: Workload, cluster: Cluster, method: Method, collective: str, with_add: bool) -> Cost:
    exchange, compression = exchange_cost(cluster, method, collective), method.compression
    if not with_add:
        return lambda size: exchange(size / compression)
    add = _additions(workload, cluster, method, collective)
    return lambda size: exchange(size / compression) + add(size)


def _remembered(cost: Cost) -> Cost:
    """The same cost, worked out once for each size: networks repeat few tensor sizes many times."""
    known: dict[float, float] = {}

    def seconds(size: float) -> float:
        if size not in known:
            known[size] = cost(size)
        return known[size]

    return seconds


def _is_flat(method: Method, collective: str) -> bool:
    return method.architecture == "all-reduce" and collective == FLAT_RING


def _between_nodes(cluster: Cluster, method: Method, collective: str) -> Cost:
    """Seconds between nodes, for bytes on the wire of one card."""
    nodes, latency, bandwidth = cluster.nodes, cluster.inter.latency_s, cluster.inter.effective_bandwidth
    if nodes == 1:
        return lambda wire: 0.0
    if method.architecture == "all-reduce":
        exchange = all_reduce_named(collective).seconds
        return lambda wire: exchange(wire, nodes, latency, bandwidth)
    if method.colocated:
        return lambda wire: colocated_parameter_server(wire, nodes, latency, bandwidth)
    servers, overlap = method.servers or nodes, method.push_pull_overlap
    return lambda wire: parameter_server(wire, nodes, servers, latency, bandwidth, overlap)


def _additions(workload: Workload, cluster: Cluster, method: Method, collective: str) -> Cost:
    """Seconds of the accelerators' vector additions, for bytes before compression."""
    nodes, per_node = cluster.nodes, cluster.accelerators_per_node
    table = sorted(workload.vector_add)
    table_bytes = tuple(size for size, _ in table)
    table_s = tuple(seconds for _, seconds in table)
    is_flat = _is_flat(method, collective)
    between = None
    if nodes > 1 and method.architecture == "all-reduce" and not is_flat:
        between = all_reduce_named(collective).additions

    def seconds(size: float) -> float:
        if is_flat:
            additions = ring_additions(size, nodes * per_node)
        else:
            additions = ring_additions(size, per_node) if per_node > 1 else []
            if between is not None:
                additions += between(size / per_node, nodes)
        return sum(count * vector_add(piece, table_bytes, table_s) for count, piece in additions if count)

    return seconds
