"""The seven techniques by name, built from plain data."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn
from torch.optim import Optimizer

from wirebound.errors import InputError, unknown_name
from wirebound.techniques.allreduce import AllReduce
from wirebound.techniques.merge import mg_wfbp
from wirebound.techniques.priority_allreduce import PriorityAllReduce
from wirebound.techniques.priority_server import PriorityServers
from wirebound.techniques.process_group import Meeting
from wirebound.techniques.recorder import Recorder
from wirebound.techniques.server_worker import ParameterServers
from wirebound.techniques.synchronizer import Synchronizer, backward_order

TECHNIQUES = ("bsp-ps", "bsp-a2a", "wfbp-ps", "wfbp-a2a", "mg-wfbp", "bytescheduler-ps", "bytescheduler-a2a")


@dataclass(frozen=True, slots=True)
class Choices:
    """What a technique may be told; each uses what concerns it.

    `groups`: the tensors of each message of mg-wfbp. `order`: the tensors as their gradients become ready, for wfbp.
    `priority`: the tensors as the next forward pass uses them, for bytescheduler. `partition_bytes` is None for the
    technique's own default (whole messages; 4,000,000 B for bytescheduler). `pipelined`: bsp-ps and wfbp-ps push the
    next message while earlier ones are pulled.
    """

    groups: Sequence[Sequence[str]] | None = None
    order: Sequence[str] | None = None
    priority: Sequence[str] | None = None
    partition_bytes: float | None = None
    credit_bytes: float = 16_000_000
    pipelined: bool = False
    unused_parameters: bool = False


def needs_servers(technique: str) -> bool:
    """Tell whether a technique uses parameter servers; raises `InputError` for an unknown name."""
    if technique not in TECHNIQUES:
        raise unknown_name("technique", technique, TECHNIQUES)
    return technique.endswith("-ps")


def synchronizer(
    technique: str,
    model: nn.Module,
    optimizer: Optimizer,
    meeting: Meeting,
    choices: Choices | None = None,
    recorder: Recorder | None = None,
) -> Synchronizer:
    """Connect to the other processes and return the synchronizer of one of `TECHNIQUES` for `model`.

    Every worker calls this with the same arguments; servers call `server.serve(meeting.with_servers(),
    meeting.workers)` at the same time. Raises `InputError` for an unknown technique or one whose choices are missing.
    """
    choices = choices or Choices()
    flags = {"unused_parameters": choices.unused_parameters, "recorder": recorder}
    order = backward_order(model) if choices.order is None else choices.order
    groups = [list(order)] if technique.startswith("bsp") else [[name] for name in order]
    if technique == "mg-wfbp":
        if choices.groups is None:
            raise InputError("mg-wfbp needs groups of parameter names: plan them with wirebound messages")
        return mg_wfbp(model, meeting.among_workers(), choices.groups, **flags)  # type: ignore[arg-type]
    if technique.startswith("bytescheduler"):
        partition_bytes = 4_000_000 if choices.partition_bytes is None else choices.partition_bytes
        parts = {"partition_bytes": partition_bytes, "credit_bytes": choices.credit_bytes, **flags}
        parts["timeout_s"] = meeting.timeout_s
        if needs_servers(technique):
            return PriorityServers(model, optimizer, meeting.with_servers(), meeting.workers, choices.priority, **parts)
        group, orders = meeting.among_workers(), meeting.among_workers(for_orders=True)
        return PriorityAllReduce(model, optimizer, group, orders, choices.priority, **parts)
    if needs_servers(technique):
        return ParameterServers(
            model,
            meeting.with_servers(),
            meeting.workers,
            groups,
            partition_bytes=math.inf if choices.partition_bytes is None else choices.partition_bytes,
            pipelined=choices.pipelined,
            timeout_s=meeting.timeout_s,
            **flags,  # type: ignore[arg-type]
        )
    return AllReduce(model, meeting.among_workers(), groups, **flags)  # type: ignore[arg-type]
