"""Horovod timelines (``HOROVOD_TIMELINE``): negotiation and processing of each tensor, as rank 0 saw them.

A list of events, often without its closing bracket. ``pid`` is a tensor, named by a ``process_name`` event; ``B`` and
``E`` begin and end nested activities: ``NEGOTIATE_ALLREDUCE``, then ``ALLREDUCE`` with ``MEMCPY_IN_FUSION_BUFFER``,
``NCCL_ALLREDUCE`` and the like inside; the last ``E`` has the tensor's type and shape. Ticks named 0, 1, … during a
negotiation say when each rank was ready. Tensors that were fused have the same transfer, each in its own row.
"""

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wirebound.errors import InputError
from wirebound.profile.traces.events import TraceFile
from wirebound.profile.traces.intervals import total, union
from wirebound.profile.traces.summary import Collective, TraceSummary, collective_kind, element_type

_OPERATION = re.compile(r"(ALLREDUCE|ALLGATHER|BROADCAST|ALLTOALL|REDUCESCATTER|ADASUM|ADASUM_ALLREDUCE)")
_TRANSFER = re.compile(r"(?:NCCL|MPI|GLOO|CCL|DDL|MLSL|ADASUM)_?\w*(?:REDUCE|GATHER|CAST|ALLTOALL|SCATTER)")
#: Tensors of one fused message are logged one after the other, within this many µs.
_FUSED_US = 100.0


@dataclass(slots=True)
class HorovodOperation:
    """One collective of one tensor, µs: `ready_us` on rank 0, then `start_us` to `end_us` of the transfer."""

    tensor: int | str
    kind: str
    ready_us: float
    start_us: float = math.inf
    end_us: float = -math.inf
    done_us: float = 0.0
    fused: bool = False
    size: int | None = None
    dtype: str | None = None


@dataclass(slots=True)
class HorovodTimeline:
    """What one timeline holds; operations in the order in which they ended."""

    path: Path
    names: dict[int | str, str] = field(default_factory=dict)
    operations: list[HorovodOperation] = field(default_factory=list)
    ranks: int | None = None
    warnings: list[str] = field(default_factory=list)


def read_horovod(path: Path) -> HorovodTimeline:
    """Read a timeline; raises `InputError` when the file is none."""
    file, timeline, reader = TraceFile(path), HorovodTimeline(path), _Reader()
    for event in file.events():
        reader.add(event)
    timeline.names, timeline.operations = reader.names, reader.operations
    timeline.ranks = None if reader.highest_rank is None else reader.highest_rank + 1
    timeline.warnings += file.warnings
    open_activities = sum(map(bool, reader.stacks.values()))
    if open_activities:
        timeline.warnings.append(f"{open_activities} tensor(s) have an operation that never ends: left out")
    if reader.odd:
        timeline.warnings.append(f"{reader.odd} event(s) without a usable time, or that end nothing, left out")
    return timeline


class _Reader:
    def __init__(self) -> None:
        self.names: dict[int | str, str] = {}
        self.operations: list[HorovodOperation] = []
        self.stacks: dict[int | str, list[tuple[str, float]]] = {}
        self.current: dict[int | str, HorovodOperation] = {}
        self.highest_rank: int | None = None
        self.odd = 0

    def add(self, event: dict[str, Any]) -> None:
        phase, tensor, name, arguments = event.get("ph"), event.get("pid"), event.get("name"), event.get("args")
        if not isinstance(tensor, int | str):
            return
        if phase == "M":
            if name == "process_name" and isinstance(arguments, dict):
                self.names[tensor] = str(arguments.get("name"))
            return
        moment = event.get("ts")
        if type(moment) not in (int, float) or not -1e18 < moment < 1e18:  # type: ignore[operator]
            self.odd += phase in ("B", "E", "X")
            return
        time = float(moment)  # type: ignore[arg-type]
        stack = self.stacks.setdefault(tensor, [])
        if phase == "B":
            self._begin(tensor, str(name), time, stack)
        elif phase == "E" and stack:
            self._end(tensor, time, stack, arguments)
        elif phase == "E":
            self.odd += 1
        elif phase in ("X", "i") and isinstance(name, str) and name.isdecimal() and len(name) < 7:
            self._tick(tensor, int(name), time, stack)

    def _begin(self, tensor: int | str, name: str, time: float, stack: list[tuple[str, float]]) -> None:
        if not stack:
            if name.startswith("NEGOTIATE_"):
                self.current[tensor] = HorovodOperation(tensor, collective_kind(name), time)
            elif _OPERATION.fullmatch(name):
                kind = "all_reduce" if "ADASUM" in name else collective_kind(name)
                self.current.setdefault(tensor, HorovodOperation(tensor, kind, time)).kind = kind
        stack.append((name, time))

    def _tick(self, tensor: int | str, rank: int, time: float, stack: list[tuple[str, float]]) -> None:
        self.highest_rank = max(rank, self.highest_rank or 0)
        if rank == 0 and stack and stack[-1][0].startswith("NEGOTIATE_") and tensor in self.current:
            self.current[tensor].ready_us = time

    def _end(self, tensor: int | str, time: float, stack: list[tuple[str, float]], arguments: object) -> None:
        name, began = stack.pop()
        operation = self.current.get(tensor)
        if operation is None:
            return
        if stack and _TRANSFER.match(name):
            operation.start_us, operation.end_us = min(operation.start_us, began), max(operation.end_us, time)
        elif stack and name == "MEMCPY_IN_FUSION_BUFFER":
            operation.fused = True
        elif not stack and _OPERATION.fullmatch(name):
            if operation.end_us < operation.start_us:  # nothing inside tells the transfer
                operation.start_us, operation.end_us = began, time
            operation.done_us = time
            operation.size, operation.dtype = _buffer(arguments)
            self.operations.append(operation)
            del self.current[tensor]


def _buffer(arguments: object) -> tuple[int | None, str | None]:
    """Bytes and type from ``{"dtype": "float32", "shape": "[64, 3, 7, 7]"}``."""
    if not isinstance(arguments, dict):
        return None, None
    known, shape = element_type(arguments.get("dtype")), arguments.get("shape")
    if known is None or not isinstance(shape, str) or not re.fullmatch(r"\[[\d, ]*\]", shape):
        return None, None
    return math.prod(int(extent) for extent in re.findall(r"\d+", shape)) * known[0], known[1]


def messages(operations: list[HorovodOperation]) -> list[list[HorovodOperation]]:
    """Return the operations by the message that carried them, in order of time: fused ones share a transfer."""
    groups: list[list[HorovodOperation]] = []
    for operation in sorted(operations, key=lambda operation: (operation.start_us, operation.end_us)):
        first = groups[-1][0] if groups else None
        if (
            first is not None
            and operation.fused
            and first.fused
            and operation.kind == first.kind
            and operation.start_us < min(first.end_us, first.start_us + _FUSED_US)
            and abs(operation.end_us - first.end_us) < _FUSED_US
        ):
            groups[-1].append(operation)
        else:
            groups.append([operation])
    return groups


def summarize(timeline: HorovodTimeline, steps: int) -> TraceSummary:
    """Return the sums of a timeline: the union of its transfers; computation is not recorded, so None.

    Raises `InputError` when nothing in it is Horovod's.
    """
    if not timeline.operations and not timeline.warnings:
        raise InputError(f"{timeline.path}: has no finished ALLREDUCE or other operation of Horovod: nothing to import")
    warnings = list(timeline.warnings)
    if not timeline.operations:
        warnings.append("no finished operation of Horovod: nothing was recorded before the file ends")
    warnings.append("a Horovod timeline records no computation: overlap cannot be told")
    found = []
    for group in messages(timeline.operations):
        sizes = [operation.size for operation in group]
        start, end = min(o.start_us for o in group), max(o.end_us for o in group)
        found.append(
            Collective(
                kind=group[0].kind,
                size=None if None in sizes else sum(size or 0 for size in sizes),
                start_us=start,
                duration_us=end - start,
                stream=None,
                dtype=group[0].dtype,
                launch_us=max(o.ready_us for o in group),
            )
        )
    unsized = sum(collective.size is None for collective in found)
    if unsized:
        warnings.append(f"{unsized} of {len(found)} collectives do not tell their size")
    return TraceSummary(
        format="horovod",
        rank=0,
        world_size=timeline.ranks,
        steps=steps,
        communication_us=total(union((c.start_us, c.end_us) for c in found)),
        computation_us=None,
        overlap_us=None,
        collectives=tuple(found),
        warnings=tuple(warnings),
    )
