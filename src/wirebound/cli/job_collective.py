"""What an answer takes for granted about the all-reduce, and which one carried what."""

from typing import Any

from wirebound.model import Cluster, Method, Step, Workload
from wirebound.simulate.all_reduces import FLAT_RING, candidates, switch_slots
from wirebound.simulate.cost import chosen_collective
from wirebound.units import format_duration


def collective_assumptions(cluster: Cluster, method: Method) -> list[str]:
    """Return what the cost of messages between several nodes takes for granted, one phrase each."""
    per_node, cards = cluster.accelerators_per_node, cluster.nics_per_node
    links = "the nodes' shared links" if cards == 1 else f"the nodes' {cards} network cards, 1/{cards} of it each"
    assumed = []
    if method.architecture != "all-reduce":
        if cards > 1:
            assumed.append(f"servers exchange with workers over {links}; they have as many")
        return assumed
    if method.collective == FLAT_RING:
        if per_node > 1:
            assumed.append("all-reduce is one flat ring of all P workers, which sends 2(P−1)/P·S through each node")
        return assumed
    if per_node > 1:
        assumed.append(
            f"all-reduce is two-level: a ring inside each node, then {_with_article(method.collective)} over {links}"
            " (a flat ring of all P workers would send 2(P−1)/P·S through each link)"
        )
    return [*assumed, *_parameters(method)]


def _with_article(name: str) -> str:
    name = "automatic choice" if name.partition(":")[0] == "auto" else name
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


def _parameters(method: Method) -> list[str]:
    """What the collective's own parameters are, where it has any."""
    family, _, given = method.collective.partition(":")
    if family == "auto":
        return [f"each message takes the fastest of {', '.join(candidates(method.collective))}"]
    if family == "byteps":
        extra = f"{given}, at most one a node" if given else "as many as nodes"
        return [f"extra servers: {extra}; all links are busy all the time; adding vectors on servers is free"]
    if family == "in-network":
        slots, slot_bytes, round_trip = switch_slots(method.collective)
        taken = "twice the latency" if round_trip is None else format_duration(round_trip)
        return [
            f"one switch adds for all nodes, for free, with {slots} slots of {slot_bytes} B, each taken for {taken}"
        ]
    if family == "blueconnect":
        return [
            f"BlueConnect in {f'stages of {given} nodes' if given else 'a stage for each prime factor of the nodes'}"
        ]
    if family == "tree":
        return ["the tree's pipeline fills in no time, and bytes are those of the average node"]
    if family == "pipelined-tree":
        return ["the tree's messages are cut into the best number of pieces"]
    return []


def collective_shares(
    workload: Workload, cluster: Cluster, method: Method, step: Step, *, include_vector_add: bool = True
) -> list[dict[str, Any]]:
    """Return how many messages of a step, and bytes before compression, each all-reduce carried.

    None for servers, and with a compressor, whose payloads travel in their own way.
    """
    if method.architecture != "all-reduce" or method.compresses:
        return []
    chosen = chosen_collective(workload, cluster, method, include_vector_add=include_vector_add)
    rows: dict[str, dict[str, Any]] = {}
    for message in step.messages:
        name = chosen(message.size)
        row = rows.setdefault(name, {"name": name, "messages": 0, "bytes": 0})
        row["messages"] += 1
        row["bytes"] += message.size
    return list(rows.values())
