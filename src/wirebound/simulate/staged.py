"""The step whose messages have stages: encode on the device, push and pull on the wire, decode on the device."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

from wirebound.model import Cluster, Message, Method, Stages, Step, Workload
from wirebound.simulate.coding import CodedMessage, Coding
from wirebound.simulate.device import FifoRun, PriorityRun, run_fifo, run_priority
from wirebound.simulate.messages import PlannedMessage, planned_messages
from wirebound.simulate.tictac import run_tictac


def staged_step(
    workload: Workload,
    cluster: Cluster,
    method: Method,
    *,
    earlier_s: float,
    compute_s: float,
    include_vector_add: bool = True,
) -> Step:
    """Simulate one training step with compressors, pipelined servers or incast; several workers.

    `earlier_s` are the seconds of accumulated passes before this one, `compute_s` those of the whole step without
    communication. Encoding and decoding are no compute: they count as exposed communication where they lengthen the
    step. The step ends when everything is decoded and the optimizer is done; with the schedules ``priority`` and
    ``tictac`` the next forward pass waits tensor by tensor instead. Raises `InputError` as `Coding` and
    `planned_messages` do.
    """
    coding = Coding(workload, cluster, method, include_vector_add=include_vector_add)
    planned = planned_messages(workload, method, coding.planning_cost)
    coded = coding.messages(planned)
    forward_end: list[float] = []
    run: FifoRun | PriorityRun
    if method.schedule in ("priority", "tictac"):
        run = _run_into_next_forward(workload, method, planned, coded)
        order, forward_end = run.order, run.forward_end
        # Layer by layer sums round differently: never report a step shorter than its compute.
        iteration_s = max(compute_s, earlier_s + forward_end[0])
    else:
        whole = replace(method, partition_bytes=math.inf)
        run = run_fifo(
            [tensor.gap_s for tensor in workload.tensors],
            _complete_with(planned, planned_messages(workload, whole, coding.planning_cost)),
            [message.encode_s for message in coded],
            [message.push_s for message in coded],
            [message.pull_s for message in coded],
            [message.decode_s for message in coded],
        )
        order = list(range(len(planned)))
        last_s = max(run.backward_end[-1], run.decoded[-1])
        iteration_s = earlier_s + workload.forward_s + last_s + workload.optimizer_s
    messages = tuple(
        Message(planned[i].size, run.ready[i], run.start[i], run.end[i], planned[i].tensors) for i in order
    )
    stages = tuple(
        Stages(
            coded[i].encode_s,
            run.encoded[i],
            run.push_end[i],
            run.pull_start[i],
            coded[i].decode_s,
            run.decoded[i],
            coded[i].sent_bytes,
        )
        for i in order
    )
    worker_bytes, node_bytes = coding.sent(planned)
    carried = cluster.inter.bandwidth * cluster.nics_per_node * iteration_s
    return Step(
        iteration_s=iteration_s,
        compute_s=compute_s,
        communication_s=busy_s(
            sorted(
                [(message.start_s, stage.push_end_s) for message, stage in zip(messages, stages, strict=True)]
                + [(stage.pull_start_s, message.end_s) for message, stage in zip(messages, stages, strict=True)]
            )
        ),
        exposed_s=iteration_s - compute_s,
        wire_bytes_per_worker=worker_bytes,
        node_wire_bytes=node_bytes,
        link_utilization=node_bytes / carried if carried > 0 else 0.0,
        messages=messages,
        nominal_ratio=coding.nominal_ratio,
        wire_ratio=coding.wire_ratio(planned),
        encode_s=sum(message.encode_s for message in coded),
        decode_s=sum(message.decode_s for message in coded),
        stages=stages,
        backward_end_s=tuple(run.backward_end),
        forward_end_s=tuple(forward_end),
    )


def _complete_with(pieces: Sequence[PlannedMessage], messages: Sequence[PlannedMessage]) -> list[int]:
    """The tensor with which each piece may go: the last one of the message that it was cut from."""
    ends = [message.tensors[-1] for message in messages]
    return [ends[bisect_left(ends, piece.tensors[-1])] for piece in pieces]


def _run_into_next_forward(
    workload: Workload, method: Method, planned: Sequence[PlannedMessage], coded: Sequence[CodedMessage]
) -> PriorityRun:
    """Both passes of a schedule that communicates under the next forward pass."""
    gaps = [tensor.gap_s for tensor in workload.tensors]
    updates, forwards = workload.optimizer_gaps_s, workload.forward_gaps_s
    first = [message.tensors[0] for message in planned]
    last = [message.tensors[-1] for message in planned]
    stages = (
        [message.encode_s for message in coded],
        [message.push_s for message in coded],
        [message.pull_s for message in coded],
        [message.decode_s for message in coded],
    )
    if method.schedule == "tictac":
        return run_tictac(gaps, updates, forwards, first, last, *stages)
    sizes = [message.size for message in planned]
    return run_priority(gaps, updates, forwards, first, last, sizes, method.credit_bytes, *stages)


def busy_s(intervals: Sequence[tuple[float, float]]) -> float:
    """Seconds that the union of these intervals covers; they are sorted by their start."""
    busy = free_s = 0.0
    for start_s, end_s in intervals:
        if start_s >= free_s:
            busy += end_s - start_s
        elif end_s > free_s:
            busy += end_s - free_s
        free_s = max(free_s, end_s)
    return busy
