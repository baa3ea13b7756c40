"""Which messages a step sends, and when each is ready: applies a rule of `schedules` to a workload."""

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from wirebound.errors import InputError, unknown_name
from wirebound.model import Method, Workload
from wirebound.simulate.cost import Cost
from wirebound.simulate.schedules import bsp_ends, ddp_ends, horovod_ends, mg_wfbp_ends, partition_sizes, wfbp_ends


class PlannedMessage(NamedTuple):
    """`size` bytes before compression, ready `ready_s` seconds after backward began; indices of its `tensors`."""

    size: float
    ready_s: float
    tensors: tuple[int, ...]


def _bsp(workload: Workload, method: Method, cost: Cost | None) -> list[int]:
    return bsp_ends(len(workload.tensors))


def _wfbp(workload: Workload, method: Method, cost: Cost | None) -> list[int]:
    return wfbp_ends(len(workload.tensors))


def _horovod(workload: Workload, method: Method, cost: Cost | None) -> list[int]:
    gaps = [t.gap_s for t in workload.tensors]
    return horovod_ends(gaps, workload.sizes, method.fusion_window_s, method.fusion_bytes)


def _ddp(workload: Workload, method: Method, cost: Cost | None) -> list[int]:
    return ddp_ends(workload.sizes, method.first_bucket_bytes, method.bucket_cap_bytes)


def _mg_wfbp(workload: Workload, method: Method, cost: Cost | None) -> list[int]:
    """Plan with the affine cost through the two ends of the true one: α = cost(0), β from the whole gradient."""
    if cost is None:
        raise InputError(
            f"the messages of {method.name} depend on the network: give its workers and bandwidth (--gpus, --bandwidth)"
        )
    startup = cost(0.0)
    seconds_per_byte = max(0.0, cost(float(workload.size)) - startup) / workload.size
    return mg_wfbp_ends(workload.ready_s, workload.sizes, startup, seconds_per_byte, method.merge_below_bytes)


#: The schedules by name, as in `Method.schedule`: each returns the ends of its messages (see `schedules`).
SCHEDULES: dict[str, Callable[[Workload, Method, Cost | None], list[int]]] = {
    "bsp": _bsp,
    "wfbp": _wfbp,
    "horovod": _horovod,
    "ddp": _ddp,
    "mg-wfbp": _mg_wfbp,
    "priority": _wfbp,  # whole tensors, cut into partitions; `priority` decides their order on the wire
    "tictac": _wfbp,  # `tictac` decides the order of the pulls
}


def planned_messages(workload: Workload, method: Method, cost: Cost | None = None) -> list[PlannedMessage]:
    """Return the messages of one step in the order in which they become ready.

    A message is ready with its last tensor. It is cut into pieces of `method.partition_bytes`. `cost` (see
    `cost.message_cost`) is needed only by schedules that look at the network. Raises `InputError` for an unknown
    schedule, or where `cost` is needed and missing.
    """
    if method.schedule not in SCHEDULES:
        raise unknown_name("schedule", method.schedule, SCHEDULES)
    ends = SCHEDULES[method.schedule](workload, method, cost)
    ready, sizes, limit = workload.ready_s, workload.sizes, method.partition_bytes
    messages = []
    for first, end in itertools.pairwise((0, *ends)):
        tensors: tuple[int, ...]
        if end - first == 1:  # the common case, cheaper than a range
            total, tensors = sizes[first], (first,)
        else:
            total, tensors = sum(sizes[first:end]), tuple(range(first, end))
        if total <= limit:
            messages.append(PlannedMessage(total, ready[end - 1], tensors))
        else:
            pieces = partition_sizes(total, limit)
            carried = _tensors_of_pieces(pieces, sizes, first, end)
            messages += [PlannedMessage(p, ready[end - 1], t) for p, t in zip(pieces, carried, strict=True)]
    return messages


def _tensors_of_pieces(pieces: list[float], sizes: Sequence[int], first: int, end: int) -> list[tuple[int, ...]]:
    """Which tensors each piece carries a part of, the pieces lying end to end over the tensors `first` to `end` − 1."""
    carried = []
    tensor, tensor_end, position = first, float(sizes[first]), 0.0
    for piece in pieces:
        position += piece
        start = tensor
        while tensor_end < position and tensor + 1 < end:  # rounded pieces may reach past the last tensor
            tensor += 1
            tensor_end += sizes[tensor]
        carried.append(tuple(range(start, tensor + 1)))
        if tensor_end == position and tensor + 1 < end:
            tensor += 1
            tensor_end += sizes[tensor]
    return carried
