"""What a trace says about communication: the document of `wirebound import` for traces."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wirebound.profile.traces.source import shown

#: Words in the names of operations and kernels, without `_` and `-`, and the collective that they stand for.
_KINDS = {
    "reducescatter": "reduce_scatter",
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "alltoall": "all_to_all",
    "broadcast": "broadcast",
    "bcast": "broadcast",
    "sendrecv": "send_recv",
    "gather": "gather",
    "scatter": "scatter",
    "reduce": "reduce",
    "barrier": "barrier",
    "send": "send_recv",
    "recv": "send_recv",
}

#: Bytes of an element by the name of its type in PyTorch, C++ and Horovod, and the name that profiles use for it.
_TYPES: Mapping[str, tuple[int, str | None]] = {
    "double": (8, "fp64"),
    "float64": (8, "fp64"),
    "float": (4, "fp32"),
    "float32": (4, "fp32"),
    "half": (2, "fp16"),
    "float16": (2, "fp16"),
    "bfloat16": (2, "bf16"),
    "float8_e4m3fn": (1, "fp8"),
    "float8_e5m2": (1, "fp8"),
    "complexfloat": (8, None),
    "long": (8, None),
    "long int": (8, None),
    "int64": (8, None),
    "uint64": (8, None),
    "int": (4, None),
    "int32": (4, None),
    "uint32": (4, None),
    "short": (2, None),
    "int16": (2, None),
    "uint16": (2, None),
    "char": (1, None),
    "signed char": (1, None),
    "unsigned char": (1, None),
    "byte": (1, None),
    "int8": (1, None),
    "uint8": (1, None),
    "bool": (1, None),
}


def collective_kind(name: str) -> str:
    """Return the collective that an operation, kernel or annotation is by its name, ``unknown`` for others."""
    plain = re.sub(r"[^a-z]", "", name.lower().partition("(")[0])
    return next((kind for word, kind in _KINDS.items() if word in plain), "unknown")


def element_type(name: object) -> tuple[int, str | None] | None:
    """Return the bytes of an element of this type and the type's name in profiles; None for unknown types."""
    if not isinstance(name, str):
        return None
    return _TYPES.get(name.lower().removeprefix("c10::"))


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective operation on one rank, times in microseconds of the trace's clock.

    `size` is its buffer in bytes and `dtype` its type, None where the trace does not say; `duration_us` includes
    waiting for the other ranks, and is None where only its launch was traced. `launch_us` is when the host asked for
    it, `ranks` how many took part, None where that is not told. `transfer_us` is the time without waiting, where
    traces of several ranks tell it.
    """

    kind: str
    size: int | None
    start_us: float
    duration_us: float | None
    stream: int | str | None
    dtype: str | None = None
    launch_us: float | None = None
    ranks: int | None = None
    transfer_us: float | None = None

    @property
    def end_us(self) -> float:
        """When it ended."""
        return self.start_us + (self.duration_us or 0.0)

    def document(self) -> dict[str, Any]:
        """Return it as `wirebound import` prints it."""
        stream = shown(self.stream) if isinstance(self.stream, str) else self.stream
        document = {
            "kind": self.kind,
            "bytes": self.size,
            "duration_us": None if self.duration_us is None else round(self.duration_us, 3),
            "stream": stream,
        }
        if self.transfer_us is not None:
            document |= {
                "transfer_us": round(self.transfer_us, 3),
                "waiting_us": round((self.duration_us or 0.0) - self.transfer_us, 3),
            }
        return document


@dataclass(frozen=True, slots=True)
class TraceSummary:
    """One rank's trace: `steps` whole training steps; times are lengths of unions of intervals in microseconds.

    `computation_us` and `overlap_us` are None where the trace records no computation at all.
    """

    format: str
    rank: int | None
    world_size: int | None
    steps: int
    communication_us: float
    computation_us: float | None
    overlap_us: float | None
    collectives: tuple[Collective, ...]
    warnings: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """Return the summary as `wirebound import --json` prints it."""
        overlap, busy = self.overlap_us, self.communication_us
        return {
            "format": self.format,
            "rank": self.rank,
            "world_size": self.world_size,
            "steps": self.steps,
            "communication_us": round(busy, 3),
            "computation_us": None if self.computation_us is None else round(self.computation_us, 3),
            "overlap_us": None if overlap is None else round(overlap, 3),
            "exposed_communication_us": None if overlap is None else round(busy - overlap, 3),
            "overlap_percent": None if overlap is None else round(100 * overlap / busy, 3) if busy > 0 else 0.0,
            "collectives": [collective.document() for collective in self.collectives],
            "warnings": list(self.warnings),
        }
