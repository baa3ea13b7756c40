"""How gradients are synchronized: architecture, collective, schedule, fusion, partition, compression."""

import math
from dataclasses import dataclass, replace
from typing import Literal

from wirebound.errors import InputError, unknown_name

MIB = 2**20

Architecture = Literal["all-reduce", "parameter-server"]


@dataclass(frozen=True, slots=True)
class Method:
    """One way to synchronize gradients. Sizes are in bytes, times in seconds.

    `schedule` decides which gradients form a message and when it may start: ``bsp`` one message after backward,
    ``wfbp`` one per tensor, ``horovod`` and ``ddp`` two fusion rules, ``mg-wfbp`` merging where it pays, ``priority``
    partitions in the order in which the next forward pass needs them. `collective` names the all-reduce algorithm
    (see `simulate.all_reduces`). `merge_below_bytes` lets mg-wfbp always merge smaller tensors.
    `servers` are the parameter servers (0: as many as nodes), beside the workers unless `colocated`;
    `push_pull_overlap` in [0, 1] is the share of pull hidden under push. `compression` divides the bytes on the wire
    and costs nothing.
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
    compression: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.compression) and self.compression >= 1):
            raise InputError(f"compression ratio {self.compression} must be a finite number, at least 1")
        if not 0 <= self.push_pull_overlap <= 1:
            raise InputError(f"push-pull overlap {self.push_pull_overlap} must be between 0 and 1")
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


def method_named(name: str, **changes: object) -> Method:
    """Return the built-in method `name` with some fields changed.

    Raises `InputError` with the closest name for an unknown one.
    """
    if name not in METHODS:
        raise unknown_name("method", name, METHODS)
    return replace(METHODS[name], **changes)  # type: ignore[arg-type]
