"""A job under a consistency protocol: what its exchange costs, from the simulation of one step."""

import dataclasses
from dataclasses import dataclass

from wirebound.errors import InputError
from wirebound.model import Cluster, Method, Workload
from wirebound.model.compute_time import ComputeTime
from wirebound.simulate.collectives import hierarchical_all_reduce
from wirebound.simulate.consistency import ConsistencyResult, simulate_consistency
from wirebound.simulate.consistency_protocols import Consistency
from wirebound.simulate.gossip import gossip
from wirebound.simulate.step import simulate_step


@dataclass(frozen=True, slots=True)
class Exchange:
    """One step of a job as its protocol sees it: seconds of compute, of an exchange alone, and of the servers' work."""

    compute_s: float
    exchange_s: float
    server_s: float


def exchange_of(
    workload: Workload,
    cluster: Cluster,
    method: Method,
    consistency: Consistency,
    *,
    include_vector_add: bool = True,
    accumulation: int = 1,
) -> Exchange:
    """Return what a step of the job computes and exchanges under a protocol.

    BSP and local SGD exchange all together: the communication that the method exposes in `simulate_step` (for local
    SGD, which averages models and not gradients, a method that overlaps nothing, such as bsp-a2a, is the honest one).

    SSP and ASP need parameter servers. A lone exchange is the step's exposed communication where every node had a
    server, so that servers are nobody's bottleneck; k servers of their own then each receive S/k of an update, so they
    are busy with it for S/(k·B) (push and pull use the two directions of a link). Servers on the workers' machines
    have no queue: an exchange already takes as long as all of them together need for one of each worker.

    With gossip a node exchanges with its neighbours after its step (`gossip.gossip`), uncovered by compute; inside
    the node its accelerators all-reduce first, without vector additions. The method then gives the ratio only.

    Raises `InputError` for SSP or ASP without parameter servers, for SSP, ASP or gossip with a compressor, and for
    gossip with more neighbours than there are other nodes.
    """
    nodes, cards = cluster.nodes, cluster.nics_per_node
    degree = consistency.degree(nodes)
    if isinstance(consistency.parameter, int) and degree is not None and consistency.parameter >= nodes > 1:
        raise InputError(f"{consistency} on {nodes} nodes: each has only {nodes - 1} others; write gossip:complete")
    if method.compresses and (consistency.rule(nodes).shared_model or degree is not None):
        raise InputError(
            f"{consistency} is not simulated with a compressor: leave it out, or use bsp or local-sgd, which are"
        )
    own_servers = method.architecture == "parameter-server" and not method.colocated
    if consistency.rule(nodes).shared_model:
        if method.architecture != "parameter-server":
            raise InputError(
                f"{consistency} needs parameter servers, and method {method.name!r} is an all-reduce, in which all"
                " must take part: use bsp-ps or wfbp-ps"
            )
        alone = dataclasses.replace(method, servers=max(method.servers, nodes)) if own_servers else method
    else:
        alone = method
    step = simulate_step(workload, cluster, alone, include_vector_add=include_vector_add, accumulation=accumulation)
    exchange_s, server_s = step.exposed_s, 0.0
    if degree is not None:
        wire = workload.size / method.compression
        exchange_s = 0.0
        if nodes > 1:
            exchange_s = gossip(wire, degree, cluster.inter.latency_s, cluster.inter.effective_bandwidth * cards)
        if cluster.accelerators_per_node > 1:
            intra = cluster.intra
            exchange_s = hierarchical_all_reduce(
                wire, cluster.accelerators_per_node, intra.latency_s, intra.effective_bandwidth, exchange_s
            )
    elif alone is not method:
        goodput = cluster.inter.effective_bandwidth * cards * (1 - method.incast)
        server_s = step.node_wire_bytes / ((method.servers or nodes) * goodput)
    return Exchange(step.compute_s, exchange_s, server_s)


def simulate_job(
    workload: Workload,
    cluster: Cluster,
    method: Method,
    consistency: Consistency,
    compute: ComputeTime,
    *,
    include_vector_add: bool = True,
    accumulation: int = 1,
    steps: int | None = None,
    warm_up: int | None = None,
    seed: int = 0,
) -> ConsistencyResult:
    """Simulate a job whose workers follow a consistency protocol; see `simulate_consistency` and `exchange_of`.

    `compute` gives the spread and the stragglers among the accelerators; its mean becomes that of the step. The
    accelerators of a node go in step, and the nodes follow the protocol among themselves.

    Raises `InputError` for SSP or ASP without parameter servers, and as `simulate_consistency` does.
    """
    exchange = exchange_of(
        workload,
        cluster,
        method,
        consistency,
        include_vector_add=include_vector_add,
        accumulation=accumulation,
    )
    return simulate_consistency(
        cluster.workers,
        dataclasses.replace(compute, mean_s=exchange.compute_s),
        exchange.exchange_s,
        consistency,
        steps=steps,
        warm_up=warm_up,
        seed=seed,
        server_s=exchange.server_s,
        group=cluster.accelerators_per_node,
    )
