"""What the device and the link do when: intervals of one or more steps, worked out from a simulated step."""

import itertools
import json
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from wirebound.errors import InputError
from wirebound.model import Cluster, Method, Step, Workload
from wirebound.simulate.priority import next_forward_ends_s
from wirebound.simulate.step import earlier_passes_s

Resource = Literal["device", "link", "push", "pull"]
Kind = Literal["forward", "backward", "encode", "decode", "optimizer", "message"]

#: Schedules whose communication runs under the next forward pass.
_INTO_NEXT_FORWARD = ("priority", "tictac")


class Interval(NamedTuple):
    """One task of one resource, in seconds since the timeline began.

    `tensors` are the indices of the workload's tensors that it is about, the first and the last. `sent_bytes` is what
    the node's link sends in it.
    """

    resource: Resource
    kind: Kind
    name: str
    start_s: float
    end_s: float
    tensors: tuple[int, int]
    sent_bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class Timeline:
    """`steps` steps of `period_s` seconds each, in steady state; the node can send `bandwidth` bytes per second.

    Intervals are sorted by resource and start; those of one resource do not overlap, and none is without length.
    """

    name: str
    intervals: tuple[Interval, ...]
    period_s: float
    steps: int
    bandwidth: float

    @property
    def resources(self) -> tuple[Resource, ...]:
        """The resources that do anything, in the order in which they are drawn."""
        used = {interval.resource for interval in self.intervals}
        order: tuple[Resource, ...] = ("device", "link", "push", "pull")
        return tuple(resource for resource in order if resource in used)


def timeline_of(
    step: Step, workload: Workload, cluster: Cluster, method: Method, *, accumulation: int = 1, steps: int = 1
) -> Timeline:
    """Return the timeline of a step that `simulate_step` gave for the same arguments, `steps` times over.

    It begins with a forward pass; with the schedules ``priority`` and ``tictac``, which communicate under the next
    forward pass, with the backward pass that communicates. Where servers have stages of their own the link is drawn
    as ``push`` and ``pull``. Raises `InputError` for fewer than one step.
    """
    if steps < 1:
        raise InputError(f"steps = {steps} must be at least 1")
    one = [*_device(step, workload, method, accumulation), *_wire(step, workload, method, accumulation)]
    found = list(one)
    for number in range(1, steps):
        shift_s = number * step.iteration_s
        found += [
            interval._replace(start_s=interval.start_s + shift_s, end_s=interval.end_s + shift_s) for interval in one
        ]
    bandwidth = cluster.inter.bandwidth * cluster.nics_per_node
    found.sort(key=_RESOURCE_START_END)
    return Timeline(workload.name, tuple(_apart(found)), step.iteration_s, steps, bandwidth)


_RESOURCE_START_END = operator.itemgetter(0, 3, 4)


def _apart(intervals: list[Interval]) -> Iterator[Interval]:
    """Leave out what has no length, and take back overlaps by rounding."""
    resource, free_s = "", 0.0
    for interval in intervals:
        if interval.resource != resource:
            resource, free_s = interval.resource, 0.0
        if interval.end_s > max(interval.start_s, free_s):
            yield interval if interval.start_s >= free_s else interval._replace(start_s=free_s)
            free_s = interval.end_s


def _backward_begins_s(workload: Workload, method: Method, accumulation: int) -> float:
    """When the backward pass that communicates begins, in the timeline of one step."""
    if method.schedule in _INTO_NEXT_FORWARD:
        return 0.0
    return earlier_passes_s(workload, accumulation) + workload.forward_s


def _device(step: Step, workload: Workload, method: Method, accumulation: int) -> Iterator[Interval]:
    begin_s = _backward_begins_s(workload, method, accumulation)
    ends = step.backward_end_s or workload.ready_s
    for index, (tensor, end_s) in enumerate(zip(workload.tensors, ends, strict=True)):
        yield _task("backward", tensor.name, begin_s + end_s - tensor.gap_s, tensor.gap_s, index)
    for message, stage in zip(step.messages, step.stages, strict=False):
        name, span = _message_name(workload, message.tensors), (message.tensors[0], message.tensors[-1])
        for kind, seconds, end_s in (
            ("encode", stage.encode_s, stage.encoded_s),
            ("decode", stage.decode_s, stage.decoded_s),
        ):
            yield Interval("device", kind, name, begin_s + end_s - seconds, begin_s + end_s, span)  # type: ignore[arg-type]
    if method.schedule in _INTO_NEXT_FORWARD:
        yield from _next_forward(step, workload)
        now = step.iteration_s - earlier_passes_s(workload, accumulation)
        for _ in range(accumulation - 1):
            yield from _whole_pass("backward", workload, now)
            now += workload.backward_s
            yield from _forward(workload, now)
            now += workload.forward_s
    else:
        now = 0.0
        for _ in range(accumulation - 1):
            yield from _forward(workload, now)
            yield from _whole_pass("backward", workload, now + workload.forward_s)
            now += workload.forward_s + workload.backward_s
        yield from _forward(workload, now)
        last = len(workload.tensors) - 1
        start_s = step.iteration_s - workload.optimizer_s
        yield Interval("device", "optimizer", "optimizer", start_s, step.iteration_s, (0, last))


def _task(kind: Kind, name: str, start_s: float, seconds: float, tensor: int) -> Interval:
    return Interval("device", kind, name, start_s, start_s + seconds, (tensor, tensor))


def _whole_pass(kind: Kind, workload: Workload, start_s: float) -> Iterator[Interval]:
    """A backward pass that communicates nothing."""
    for index, (tensor, end_s) in enumerate(zip(workload.tensors, workload.ready_s, strict=True)):
        yield _task(kind, tensor.name, start_s + end_s - tensor.gap_s, tensor.gap_s, index)


def _forward(workload: Workload, start_s: float) -> Iterator[Interval]:
    """A forward pass that waits for nothing; its tensors' tasks in the order of the layers, last tensor first."""
    now = start_s
    for index in range(len(workload.tensors) - 1, -1, -1):
        seconds = workload.forward_gaps_s[index]
        yield _task("forward", workload.tensors[index].name, now, seconds, index)
        now += seconds


def _next_forward(step: Step, workload: Workload) -> Iterator[Interval]:
    """The forward pass that waits for each tensor, and the updates in it (see `priority.next_backward_s`)."""
    ends = step.forward_end_s or next_forward_ends_s(workload, step.messages)
    for index in range(len(ends) - 1, -1, -1):
        update_s, seconds, end_s = workload.optimizer_gaps_s[index], workload.forward_gaps_s[index], ends[index]
        name = workload.tensors[index].name
        yield _task("optimizer", name, end_s - seconds - update_s, update_s, index)
        yield _task("forward", name, end_s - seconds, seconds, index)


def _wire(step: Step, workload: Workload, method: Method, accumulation: int) -> Iterator[Interval]:
    begin_s = _backward_begins_s(workload, method, accumulation)
    has_pulls = any(
        stage.pull_start_s < message.end_s for message, stage in zip(step.messages, step.stages, strict=False)
    )
    for number, message in enumerate(step.messages):
        name, span = _message_name(workload, message.tensors), (message.tensors[0], message.tensors[-1])
        sent = step.stages[number].sent_bytes if step.stages else step.node_wire_bytes * message.size / workload.size
        start_s, end_s = begin_s + message.start_s, begin_s + message.end_s
        if has_pulls:
            stage = step.stages[number]
            yield Interval("push", "message", name, start_s, begin_s + stage.push_end_s, span, sent)
            yield Interval("pull", "message", name, begin_s + stage.pull_start_s, end_s, span)
        else:
            end_s = begin_s + step.stages[number].push_end_s if step.stages else end_s
            yield Interval("link", "message", name, start_s, end_s, span, sent)


def _message_name(workload: Workload, tensors: tuple[int, ...]) -> str:
    first, last = workload.tensors[tensors[0]].name, workload.tensors[tensors[-1]].name
    return first if len(tensors) == 1 else f"{first} … {last}"


def link_utilization_over_time(timeline: Timeline, bin_s: float) -> tuple[float, ...]:
    """Return the link's utilization in each bin of `bin_s` seconds: bytes sent ÷ (nominal bandwidth × time).

    A message's bytes are spread evenly over its time on the wire. The last bin may be shorter than the others. Raises
    `InputError` for a bin that is not longer than 0, or for more than a million of them.
    """
    whole_s = timeline.period_s * timeline.steps
    if not bin_s > 0 or whole_s / bin_s > 1e6:
        raise InputError(f"bin of {bin_s} s must be greater than 0 and at least a millionth of the timeline")
    edges = [index * bin_s for index in range(int(whole_s / bin_s) + 1) if index * bin_s < whole_s] + [whole_s]
    sent = [0.0] * (len(edges) - 1)
    for interval in timeline.intervals:
        if interval.sent_bytes == 0:
            continue
        rate = interval.sent_bytes / (interval.end_s - interval.start_s)
        index = min(int(interval.start_s / bin_s), len(sent) - 1)
        while index < len(sent) and edges[index] < interval.end_s:
            inside_s = min(edges[index + 1], interval.end_s) - max(edges[index], interval.start_s)
            sent[index] += rate * max(0.0, inside_s)
            index += 1
    widths = [end - start for start, end in itertools.pairwise(edges)]
    return tuple(bytes_sent / (timeline.bandwidth * width) for bytes_sent, width in zip(sent, widths, strict=True))


def trace_events(timeline: Timeline, *, bins: int = 200) -> dict[str, Any]:
    """Return the timeline as a trace-event document, which Perfetto and chrome://tracing open.

    One thread for each resource, complete events (``X``) in microseconds, and a counter of the link's utilization in
    `bins` bins.
    """
    lanes = {resource: lane for lane, resource in enumerate(timeline.resources, start=1)}
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": f"one worker of {timeline.name}"}},
        *(
            {"ph": "M", "name": "thread_name", "pid": 1, "tid": lane, "args": {"name": resource}}
            for resource, lane in lanes.items()
        ),
        *(
            {"ph": "M", "name": "thread_sort_index", "pid": 1, "tid": lane, "args": {"sort_index": lane}}
            for lane in lanes.values()
        ),
    ]
    for interval in timeline.intervals:
        event: dict[str, Any] = {
            "ph": "X",
            "name": interval.name,
            "cat": interval.kind,
            "ts": interval.start_s * 1e6,
            "dur": (interval.end_s - interval.start_s) * 1e6,
            "pid": 1,
            "tid": lanes[interval.resource],
            "args": {"kind": interval.kind},
        }
        if interval.sent_bytes:
            event["args"]["sent_bytes"] = interval.sent_bytes
        events.append(event)
    whole_s = timeline.period_s * timeline.steps
    if len(lanes) > 1 and whole_s > 0:
        bin_s = whole_s / bins
        for index, share in enumerate(link_utilization_over_time(timeline, bin_s)):
            counter = {"ph": "C", "name": "link utilization", "pid": 1, "ts": index * bin_s * 1e6}
            events.append(counter | {"args": {"percent": 100 * share}})
    return {"displayTimeUnit": "ms", "traceEvents": events}


def trace_text(timeline: Timeline) -> str:
    """Return `trace_events` as JSON text, one event a line."""
    document = trace_events(timeline)
    lines = ",\n".join(json.dumps(event, ensure_ascii=False, allow_nan=False) for event in document["traceEvents"])
    return f'{{"displayTimeUnit": "ms", "traceEvents": [\n{lines}\n]}}\n'
