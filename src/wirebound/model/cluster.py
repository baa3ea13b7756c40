"""Nodes, the accelerators in them, and the links between them."""

import math
from dataclasses import dataclass

from wirebound.errors import InputError


@dataclass(frozen=True, slots=True)
class Link:
    """A point-to-point path: `latency_s` seconds per message, `bandwidth` bytes per second (infinite: costs nothing).

    `utilization` is the share of the nominal bandwidth that the transport really reaches, greater than 0, at most 1.
    """

    bandwidth: float
    latency_s: float = 0.0
    utilization: float = 1.0

    def __post_init__(self) -> None:
        if not self.bandwidth > 0:
            raise InputError(f"bandwidth {self.bandwidth} B/s must be greater than zero")
        if not (math.isfinite(self.latency_s) and self.latency_s >= 0):
            raise InputError(f"latency {self.latency_s} s must be finite and not negative")
        if not 0 < self.utilization <= 1:
            raise InputError(f"utilization {self.utilization} must be greater than 0 and at most 1")

    @property
    def effective_bandwidth(self) -> float:
        """Bytes per second that the transport really reaches."""
        return self.bandwidth * self.utilization


#: A link that costs nothing, for accelerators inside a node when no intra-node bandwidth is given.
FREE_LINK = Link(bandwidth=math.inf)


@dataclass(frozen=True, slots=True)
class Cluster:
    """`nodes` machines with `accelerators_per_node` workers each, which share the node's network cards.

    `inter` is the link of one card; a node has `nics_per_node` of them, each for as many of its accelerators.
    """

    nodes: int
    inter: Link
    accelerators_per_node: int = 1
    intra: Link = FREE_LINK
    nics_per_node: int = 1

    def __post_init__(self) -> None:
        for value, what in (
            (self.nodes, "nodes"),
            (self.accelerators_per_node, "accelerators per node"),
            (self.nics_per_node, "network cards per node"),
        ):
            if value < 1:
                raise InputError(f"{what} = {value} must be at least 1")
        if self.accelerators_per_node % self.nics_per_node:
            raise InputError(
                f"network cards per node = {self.nics_per_node} must divide the {self.accelerators_per_node}"
                " accelerators per node: each card serves as many"
            )

    @property
    def workers(self) -> int:
        """All accelerators of the cluster."""
        return self.nodes * self.accelerators_per_node
