"""The definition of a training step: what is ready when, what the network does, how long the step takes.

Plain Python, event by event; standard library only, so that it runs in a browser as well. Gradients are ready at
`Workload.ready_s`, a rule of `schedules` makes messages of them, `cost` prices each, and the network carries one at a
time.
"""

from collections.abc import Sequence

from wirebound.errors import InputError
from wirebound.model import Cluster, Message, Method, Step, Workload
from wirebound.simulate.cost import Cost, message_cost, sent_bytes
from wirebound.simulate.messages import PlannedMessage, planned_messages
from wirebound.simulate.priority import next_backward_s, priority_transfers
from wirebound.simulate.staged import staged_step


def earlier_passes_s(workload: Workload, accumulation: int) -> float:
    """Seconds of the passes before the last of `accumulation`: forward and backward, and nothing else."""
    return (accumulation - 1) * (workload.forward_s + workload.backward_s)


def accumulated_compute_s(workload: Workload, accumulation: int) -> float:
    """Seconds of compute in a step that runs forward and backward `accumulation` times, then the optimizer."""
    earlier_s = earlier_passes_s(workload, accumulation)
    return earlier_s + workload.forward_s + workload.backward_s + workload.optimizer_s


def fifo_transfers(planned: Sequence[PlannedMessage], cost: Cost) -> list[Message]:
    """Send messages in the order in which they become ready, one at a time; times since backward began.

    Each starts when it is ready and the one before it has ended, so that the last end is the closed form
    max over i of (ready_i + Σ_{j≥i} cost_j).
    """
    messages = []
    free_s = 0.0
    for size, ready_s, tensors in planned:
        start_s = ready_s if ready_s > free_s else free_s
        free_s = start_s + cost(size)
        messages.append(Message(size, ready_s, start_s, free_s, tensors))
    return messages


def simulate_step(
    workload: Workload,
    cluster: Cluster,
    method: Method,
    *,
    include_vector_add: bool = True,
    accumulation: int = 1,
    cost: Cost | None = None,
) -> Step:
    """Simulate one training step in steady state.

    A step is forward, backward, what communication is left, optimizer: with every schedule but ``priority``,
    iteration = forward + max(backward, end of the last message) + optimizer. With ``priority`` communication may run
    under the next forward pass, and the iteration is the steady-state period (see `priority.next_backward_s`).
    One worker alone does not communicate.

    With a compressor the device encodes and decodes between the gradients, and with pipelined servers push and pull are
    stages: see `staged.staged_step`.

    `include_vector_add` counts the additions of the all-reduce where the workload has them measured (see
    `cost.message_cost`). With `accumulation` = k a step computes forward and backward k times and communicates in the
    last backward pass only; its `compute_s` is the time of these k passes, so that the scaling factor compares with one
    worker that accumulates as often. A `cost` of one's own, from a message's bytes to its seconds on an idle network
    (measured, say), takes the place of the cluster's links; methods with stages have none.

    Raises `InputError` for an unknown schedule or collective, an accumulation below 1, or a `cost` for stages.
    """
    if accumulation < 1:
        raise InputError(f"accumulation {accumulation} must be at least 1")
    forward_s, backward_s, optimizer_s = workload.forward_s, workload.backward_s, workload.optimizer_s
    earlier_s = earlier_passes_s(workload, accumulation)
    compute_s = accumulated_compute_s(workload, accumulation)
    if cluster.workers == 1:
        return Step(compute_s, compute_s, 0.0, 0.0, 0.0, 0.0, 0.0, ())

    if method.has_stages:
        if cost is not None:
            raise InputError(
                f"the method {method.name} has stages, which a cost of one's own does not price: leave it out"
            )
        return staged_step(
            workload, cluster, method, earlier_s=earlier_s, compute_s=compute_s, include_vector_add=include_vector_add
        )
    if cost is None:
        cost = message_cost(workload, cluster, method, include_vector_add=include_vector_add)
    planned = planned_messages(workload, method, cost)
    if method.schedule == "priority":
        messages = priority_transfers(planned, cost, method.credit_bytes)
        # Layer by layer sums round differently: never report a step shorter than its compute.
        iteration_s = max(compute_s, earlier_s + next_backward_s(workload, messages))
    else:
        messages = fifo_transfers(planned, cost)
        iteration_s = earlier_s + forward_s + max(backward_s, messages[-1].end_s) + optimizer_s

    worker_bytes, node_bytes = sent_bytes(
        workload, cluster, method, [message.size for message in messages], include_vector_add=include_vector_add
    )
    carried = cluster.inter.bandwidth * cluster.nics_per_node * iteration_s
    return Step(
        iteration_s=iteration_s,
        compute_s=compute_s,
        communication_s=sum(message.end_s - message.start_s for message in messages),
        exposed_s=iteration_s - compute_s,
        wire_bytes_per_worker=worker_bytes,
        node_wire_bytes=node_bytes,
        link_utilization=node_bytes / carried if carried > 0 else 0.0,
        messages=tuple(messages),
        nominal_ratio=method.compression,
        wire_ratio=method.compression,
    )
