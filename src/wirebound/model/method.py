"""How gradients are synchronized: architecture, collective, schedule, fusion, partition, compression."""

import math
from dataclasses import dataclass, replace
from typing import Literal

from wirebound.errors import InputError, unknown_name
from wirebound.model.compressor import Compressor

MIB = 2**20

Architecture = Literal["all-reduce", "parameter-server"]


@dataclass(frozen=True, slots=True)
class Method:
    """One way to synchronize gradients. Sizes are in bytes, times in seconds.

    `schedule` decides which gradients form a message and when it may start: ``bsp`` one message after backward,
    ``wfbp`` one per tensor, ``horovod`` and ``ddp`` two fusion rules, ``mg-wfbp`` merging where it pays, ``priority``
    partitions in the order in which the next forward pass needs them, ``tictac`` one per tensor, pushed as it is ready
    and pulled from the servers in the order of the next forward pass. `collective` names the all-reduce algorithm
    (see `simulate.all_reduces`). `merge_below_bytes` lets mg-wfbp always merge smaller tensors.
    `servers` are the parameter servers (0: as many as nodes), beside the workers unless `colocated`;
    `push_pull_overlap` in [0, 1] is the share of pull hidden under push of the same message. With `pipelined`, the
    pull of a message runs beside the push of later ones instead, as full-duplex links allow (servers on the workers'
    machines use both directions already and gain nothing). `incast` in [0, 1) is the share of goodput that a server's
    link loses when several workers use it at once.

    `compression` divides the bytes on the wire and costs nothing. A `compressor` instead has its own bytes, way over
    the network and cost; tensors smaller than `compress_from_bytes` stay as they are, and `compressors_by_tensor`
    names tensors that another compressor, or none, encodes. Gathered payloads go between nodes, each of which has
    reduced its own accelerators' gradients first; with the collective ``flat-ring`` all workers gather from each other.
    Servers send the sum uncompressed where its code cannot be summed, unless they encode it again
    (`compressed_pull`).
    """

    name: str
    architecture: Architecture
    schedule: str
    collective: str = "ring"
    fusion_bytes: float = 64 * MIB
    fusion_window_s: float = 5e-3
    bucket_cap_bytes: float = 25 * MIB
    first_bucket_bytes: float = 1 * MIB
    merge_below_bytes: float = 0.0
    partition_bytes: float = math.inf
    credit_bytes: float = math.inf
    servers: int = 0
    colocated: bool = False
    push_pull_overlap: float = 0.0
    pipelined: bool = False
    incast: float = 0.0
    compression: float = 1.0
    compressor: Compressor | None = None
    compress_from_bytes: float = 0.0
    compressors_by_tensor: tuple[tuple[str, Compressor | None], ...] = ()
    compressed_pull: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.compression) and self.compression >= 1):
            raise InputError(f"compression ratio {self.compression} must be a finite number, at least 1")
        if self.compresses and self.compression != 1:
            raise InputError(
                f"a compressor and the compression ratio {self.compression} exclude each other: leave one of them out"
            )
        if not self.compress_from_bytes >= 0:
            raise InputError(f"compression threshold {self.compress_from_bytes} B must not be negative")
        if not 0 <= self.push_pull_overlap <= 1:
            raise InputError(f"push-pull overlap {self.push_pull_overlap} must be between 0 and 1")
        if self.pipelined and self.push_pull_overlap:
            raise InputError("pipelined and a push-pull overlap both overlap push and pull: leave one of them out")
        if self.schedule == "tictac" and self.architecture != "parameter-server":
            raise InputError("the schedule tictac orders pulls: it needs the architecture parameter-server")
        if not 0 <= self.incast < 1:
            raise InputError(f"incast {self.incast} must be at least 0 and less than 1")
        if not self.merge_below_bytes >= 0:
            raise InputError(f"merge threshold {self.merge_below_bytes} B must not be negative")
        if self.servers < 0:
            raise InputError(f"servers = {self.servers} must not be negative")
        for value, what in (
            (self.fusion_bytes, "fusion threshold"),
            (self.bucket_cap_bytes, "bucket cap"),
            (self.first_bucket_bytes, "first bucket cap"),
            (self.partition_bytes, "partition size"),
            (self.credit_bytes, "credit"),
        ):
            if not value > 0:
                raise InputError(f"{what} {value} B must be greater than zero")

    @property
    def has_stages(self) -> bool:
        """Whether messages need the device, or push and pull, followed one by one: the plain step does not do."""
        staged_servers = self.pipelined or self.incast > 0 or self.schedule == "tictac"
        return self.compresses or (self.architecture == "parameter-server" and staged_servers)

    @property
    def compresses(self) -> bool:
        """Whether a compressor encodes any tensor."""
        return self.compressor is not None or any(compressor for _, compressor in self.compressors_by_tensor)


#: The seven techniques of Shi et al. (2020), then the two libraries' defaults.
METHODS = {
    method.name: method
    for method in (
        Method("bsp-ps", "parameter-server", "bsp"),
        Method("bsp-a2a", "all-reduce", "bsp"),
        Method("wfbp-ps", "parameter-server", "wfbp"),
        Method("wfbp-a2a", "all-reduce", "wfbp"),
        Method("mg-wfbp", "all-reduce", "mg-wfbp"),
        Method("bytescheduler-ps", "parameter-server", "priority", partition_bytes=4_000_000, credit_bytes=16_000_000),
        Method("bytescheduler-a2a", "all-reduce", "priority", partition_bytes=4_000_000, credit_bytes=16_000_000),
        Method("ddp", "all-reduce", "ddp"),
        Method("horovod", "all-reduce", "horovod"),
    )
}


#: Orders for parameter servers. P3 (Jayarajan et al. 2019) cuts tensors into slices of 50,000 parameters, pushes the
#: most urgent first, one at a time, and pulls each as soon as it is summed. TicTac: see `wirebound.simulate.tictac`.
ORDERED_METHODS = {
    "p3": Method("p3", "parameter-server", "priority", partition_bytes=200_000, credit_bytes=200_000, pipelined=True),
    "tictac": Method("tictac", "parameter-server", "tictac"),
}

#: The names that `method_named` knows.
METHOD_NAMES = (*METHODS, *ORDERED_METHODS)


def method_named(name: str, **changes: object) -> Method:
    """Return the built-in method `name` with some fields changed.

    Raises `InputError` with the closest name for an unknown one.
    """
    known = METHODS | ORDERED_METHODS
    if name not in known:
        raise unknown_name("method", name, known)
    return replace(known[name], **changes)  # type: ignore[arg-type]
