"""PyTorch profiler (Kineto) traces, old and new layouts, of GPUs and of processors.

What is what in them:

- device activity: categories ``kernel``, ``gpu_memcpy``, ``gpu_memset`` (older: ``Kernel``, ``Memcpy``, ``Memset``);
  a kernel with ``nccl`` in its name, in any case, is communication, other kernels are computation; copies are neither;
- host activity: ``cpu_op`` (older: ``Operator``), ``user_annotation``, launches in ``cuda_runtime`` (``Runtime``);
  a launch and what it starts on the device have the same ``correlation``;
- gloo's collectives are annotations (``gloo:all_reduce``) of its own threads; nccl's annotations are launches only;
- ``ts`` and ``dur`` are microseconds, whole or with a fraction counted from ``baseTimeNanoseconds``.
"""

import bisect
import math
from array import array
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wirebound.errors import InputError
from wirebound.profile.traces.events import TraceFile
from wirebound.profile.traces.intervals import BusyTime, Interval
from wirebound.profile.traces.kineto_names import (
    AUTOGRAD,
    COMMUNICATION,
    GLOO,
    LAUNCH,
    OPTIMIZER,
    STEP,
    category_kind,
    name_class,
    step_number,
)
from wirebound.profile.traces.summary import Collective, collective_kind, element_type

#: More distinct names than this are looked at anew each time.
_MOST_NAMES = 100_000


@dataclass(slots=True)
class HostOperation:
    """A host operation that starts a collective: times in µs, and what its arguments tell."""

    start_us: float
    end_us: float
    name: str
    kind: str
    size: int | None
    dtype: str | None
    thread: int | str | None


@dataclass(slots=True)
class KinetoTrace:
    """What one trace holds, events grouped by what they are, times in µs of the trace's own clock.

    `kernels` is when the device computed, `operations` when the host did. `started` … are device activities in three
    columns: start, end and launch (their own start where no launch is known); `computing` says which of them compute.
    `backward` has the starts of autograd's operations. `base_us` is what all times count from, `device` the name of the
    device where there is one, `cut_off_at` the byte where the file ends too early.
    """

    path: Path
    rank: int | None = None
    world_size: int | None = None
    backend: str | None = None
    base_us: float = 0.0
    device: str | None = None
    cut_off_at: int | None = None
    kernels: BusyTime = field(default_factory=BusyTime)
    operations: BusyTime = field(default_factory=BusyTime)
    started: "array[float]" = field(default_factory=lambda: array("d"))
    ended: "array[float]" = field(default_factory=lambda: array("d"))
    launched: "array[float]" = field(default_factory=lambda: array("d"))
    computing: "array[int]" = field(default_factory=lambda: array("b"))
    backward: "array[float]" = field(default_factory=lambda: array("d"))
    optimizer: list[Interval] = field(default_factory=list)
    step_marks: dict[str, Interval] = field(default_factory=dict)
    host_operations: list[HostOperation] = field(default_factory=list)
    collectives: list[Collective] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def on_device(self) -> bool:
        """Whether device activity was recorded."""
        return len(self.started) > 0


def read_kineto(path: Path) -> KinetoTrace:
    """Read one trace; raises `InputError` when the file is none, or has no event with a time."""
    file = TraceFile(path, skip_flows=True)
    collector = _Collector(KinetoTrace(path))
    for event in file.events():
        collector.add(event)
    return collector.finish(file)


class _Collector:
    def __init__(self, trace: KinetoTrace) -> None:
        self.trace = trace
        self._classes: dict[str, int] = {}
        self._categories: dict[Any, str] = {}
        self._launch_ids, self._launch_times = array("q"), array("d")
        self._correlations = array("q")
        self._device_steps: dict[str, Interval] = {}
        self._communication: list[tuple[float, float, str, dict[str, Any], Any, int]] = []
        self._odd = 0
        # Of collectives only: all other figures are unions and moments, which a second copy does not change.
        self._seen: set[tuple[str, float, float, str]] = set()
        self._repeated = 0
        self.timed = 0

    def add(self, event: dict[str, Any]) -> None:
        if event.get("ph") != "X":
            return
        category = event.get("cat")
        try:
            kind = self._categories[category]
        except (KeyError, TypeError):
            kind = category_kind(category)
            if isinstance(category, str) and len(self._categories) < _MOST_NAMES:
                self._categories[category] = kind
        if not kind:
            return
        start: Any = event.get("ts")
        duration: Any = event.get("dur", 0)
        name: Any = event.get("name")
        if type(start) not in (int, float) or type(duration) not in (int, float) or type(name) is not str:
            try:
                start, duration, name = float(start), float(duration), str(name)
            except (TypeError, ValueError, OverflowError):
                self._odd += 1
                return
        if not (0 <= duration < 1e15 and -1e18 < start < 1e18):  # also NaN, which JSON does not have
            self._odd += 1
            return
        self.timed += 1
        end = start + duration
        try:
            what = self._classes[name]
        except KeyError:
            what = name_class(name)
            if len(self._classes) < _MOST_NAMES:
                self._classes[name] = what
        if kind == "operation":
            if what:
                self._operation(event, name, what, start, end)
            if not what & (COMMUNICATION | STEP):
                self.trace.operations.add(start, end)
        elif kind == "launch":
            if what & LAUNCH:
                correlation = _integer(_arguments(event).get("correlation"))
                if correlation:
                    self._launch_ids.append(correlation)
                    self._launch_times.append(start)
        elif kind == "annotation":
            if what:
                self._operation(event, name, what, start, end)
        elif kind == "device annotation":
            if what & STEP:
                self._device_steps.setdefault(step_number(name), (start, end))
        else:
            self._activity(event, name, what, kind, start, end)

    def _activity(self, event: dict[str, Any], name: str, what: int, kind: str, start: float, end: float) -> None:
        trace, arguments = self.trace, _arguments(event)
        correlation = _integer(arguments.get("correlation"))
        communicates = bool(what & COMMUNICATION) and kind == "kernel"
        if communicates:
            if self._repeats(event, name, start, end):
                return
            stream = arguments.get("stream", event.get("tid"))
            self._communication.append((start, end, name, arguments, stream, correlation))
        elif kind == "kernel":
            trace.kernels.add(start, end)
        trace.started.append(start)
        trace.ended.append(end)
        trace.computing.append(kind == "kernel" and not communicates)
        self._correlations.append(correlation)

    def _operation(self, event: dict[str, Any], name: str, what: int, start: float, end: float) -> None:
        trace = self.trace
        if what & STEP:
            number = step_number(name)
            known = trace.step_marks.get(number)
            if known is None or known[1] - known[0] < end - start:
                trace.step_marks[number] = (start, end)
        elif what & COMMUNICATION:
            if self._repeats(event, name, start, end):
                return
            arguments = _arguments(event)
            size, dtype = _buffer(arguments)
            label = arguments.get("Collective name")
            kind = collective_kind(label if isinstance(label, str) else name)
            thread = event.get("tid")
            thread = thread if isinstance(thread, int | str) else None
            trace.host_operations.append(HostOperation(start, end, name, kind, size, dtype, thread))
        elif what & OPTIMIZER:
            trace.optimizer.append((start, end))
        elif what & AUTOGRAD:
            trace.backward.append(start)

    def _repeats(self, event: dict[str, Any], name: str, start: float, end: float) -> bool:
        """Whether this event of a collective was there before: no thread and no stream begins one twice at once."""
        key = (name, start, end, f"{event.get('pid')} {event.get('tid')}")
        if key in self._seen:
            self._repeated += 1
            return True
        self._seen.add(key)
        return False

    def finish(self, file: TraceFile) -> KinetoTrace:
        trace = self.trace
        if not self.timed:
            cut = "" if file.cut_off_at is None else f"is cut off at byte {file.cut_off_at} and "
            raise InputError(f"{file.path}: {cut}has no operation, kernel or annotation with a time: nothing to import")
        _read_header(trace, file.header)
        trace.warnings += file.warnings
        trace.cut_off_at = file.cut_off_at
        if self._repeated:
            trace.warnings.append(
                f"{self._repeated} event(s) of collectives repeat others with the same name, ts, dur, pid and tid:"
                " dropped, so that each counts once; was the trace written twice?"
            )
        if self._odd:
            trace.warnings.append(f"{self._odd} event(s) without a usable time left out")
        trace.host_operations.sort(key=lambda operation: operation.start_us)
        launches = dict(zip(self._launch_ids, self._launch_times, strict=True))
        trace.launched = array(
            "d",
            (
                min(launches.get(correlation, start), start)
                for correlation, start in zip(self._correlations, trace.started, strict=True)
            ),
        )
        if not trace.step_marks:
            trace.step_marks = self._device_steps
        if self._communication:
            self._device_collectives(launches)
        else:
            _host_collectives(trace)
        trace.collectives.sort(key=lambda collective: collective.start_us)
        return trace

    def _device_collectives(self, launches: dict[int, float]) -> None:
        """Collectives from kernels; sizes from their arguments, or from the host operation that launched them."""
        trace = self.trace
        starts = [operation.start_us for operation in trace.host_operations]
        for start, end, name, arguments, stream, correlation in self._communication:
            size, dtype = _buffer(arguments)
            label = arguments.get("Collective name")
            kind = collective_kind(label if isinstance(label, str) else name)
            launch = launches.get(correlation)
            if launch is not None and (size is None or kind == "unknown"):
                for operation in reversed(trace.host_operations[: bisect.bisect_right(starts, launch)][-8:]):
                    if launch <= operation.end_us:
                        kind = operation.kind if kind == "unknown" else kind
                        if size is None and operation.size is not None:
                            size, dtype = operation.size, operation.dtype
            stream = stream if isinstance(stream, int | str) else None
            ranks = _count(arguments.get("Group size")) or None
            trace.collectives.append(Collective(kind, size, start, end - start, stream, dtype, launch, ranks))


def _host_collectives(trace: KinetoTrace) -> None:
    """Collectives of a trace without communication kernels: gloo's annotations are transfers, nccl's only launches."""
    waiting: dict[str, deque[float]] = {}
    for operation in trace.host_operations:  # in the order of their starts
        if operation.name.startswith("c10d::"):
            waiting.setdefault(operation.kind, deque()).append(operation.start_us)
            continue
        gloo = bool(name_class(operation.name) & GLOO)
        if not gloo and not operation.name.startswith("nccl:"):
            continue
        requests = waiting.get(operation.kind)
        launch = requests.popleft() if requests else None  # gloo starts them in the order of the requests
        trace.collectives.append(
            Collective(
                operation.kind,
                operation.size,
                operation.start_us,
                operation.end_us - operation.start_us if gloo else None,
                operation.thread,
                operation.dtype,
                launch,
            )
        )


def _arguments(event: dict[str, Any]) -> dict[str, Any]:
    arguments = event.get("args")
    return arguments if isinstance(arguments, dict) else {}


def _integer(value: object) -> int:
    return value if type(value) is int and 0 < value < 2**63 else 0


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 2**60 else None


def _buffer(arguments: dict[str, Any]) -> tuple[int | None, str | None]:
    """Bytes and type of a collective's buffer: the larger of what goes in and out, as nccl-tests counts."""
    counts = [_count(arguments.get("In msg nelems")), _count(arguments.get("Out msg nelems"))]
    elements = max((count for count in counts if count is not None), default=None)
    type_name = arguments.get("dtype")
    if elements is None:
        elements, type_name = _recorded_shape(arguments)
    known = element_type(type_name)
    if elements is None or known is None:
        return None, None
    return elements * known[0], known[1]


def _recorded_shape(arguments: dict[str, Any]) -> tuple[int | None, object]:
    """Elements and type from the shapes that ``record_shapes`` leaves; for lists of tensors it leaves no type."""
    shapes, types = arguments.get("Input Dims"), arguments.get("Input type", arguments.get("Input Types"))
    if not (isinstance(shapes, list) and isinstance(types, list) and shapes and types):
        return None, None
    shape, type_name = shapes[0], types[0]
    if not isinstance(shape, list) or not all(_count(extent) is not None for extent in shape):
        return None, None
    return math.prod(shape), type_name


def _read_header(trace: KinetoTrace, header: dict[str, Any]) -> None:
    info = header.get("distributedInfo")
    info = info if isinstance(info, dict) else {}
    rank, size, backend = info.get("rank"), info.get("world_size"), info.get("backend")
    trace.rank = _count(rank)
    trace.world_size = _count(size) or None
    trace.backend = backend if isinstance(backend, str) else None
    base = header.get("baseTimeNanoseconds")
    trace.base_us = base / 1000 if type(base) is int and abs(base) < 2**63 else 0.0
    devices = header.get("deviceProperties")
    if isinstance(devices, list) and devices and isinstance(devices[0], dict):
        name = devices[0].get("name")
        trace.device = name if isinstance(name, str) else None
