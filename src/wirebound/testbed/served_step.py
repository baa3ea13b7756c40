"""The step whose messages are pushed to servers and pulled one by one, over connections that rest after each packet.

Where a packet rests longer than about 40 ms (four workers that share 50 Mbit/s), the kernel was seen to send one
segment at a time though it sends two on faster links: many messages of some packets then take longer than predicted.
"""

from collections.abc import Sequence
from dataclasses import replace

from wirebound.model import Cluster, Message, Method, Step, Workload
from wirebound.simulate.messages import PlannedMessage, planned_messages
from wirebound.simulate.priority import next_backward_s
from wirebound.simulate.priority_kernel import priority_order
from wirebound.simulate.step import simulate_step
from wirebound.testbed.calibration import Calibration
from wirebound.testbed.served_connection import Rests, ServedConnection

_STEPS = 3
#: Times that differ by less are the same.
_SAME_S = 1e-9


def served_step(
    workload: Workload, cluster: Cluster, method: Method, *, calibration: Calibration, rate_Bps: float
) -> Step:
    """Return the engine's step with messages that take what the connections' rests allow.

    `method` is one that waits for each message before it sends the next. Rests last into the next step: a few are
    followed, and the last one told.
    """
    cost = calibration.cost(rate_Bps)
    step = simulate_step(workload, cluster, method, include_vector_add=False, cost=cost)
    planned = planned_messages(workload, method, cost)
    connection, rests = calibration.connection(rate_Bps), Rests()
    messages, iteration_s = list(step.messages), step.iteration_s
    for _ in range(_STEPS):
        if method.schedule == "priority":
            messages, rests = _by_priority(planned, method.credit_bytes, connection, rests)
            iteration_s = max(step.compute_s, next_backward_s(workload, messages))
        else:
            messages, rests = _in_turn(planned, connection, rests)
            iteration_s = workload.forward_s + max(workload.backward_s, messages[-1].end_s) + workload.optimizer_s
        rests = rests.since(iteration_s)
    return replace(
        step,
        messages=tuple(messages),
        iteration_s=iteration_s,
        communication_s=sum(message.end_s - message.start_s for message in messages),
        exposed_s=iteration_s - step.compute_s,
        link_utilization=step.node_wire_bytes / (cluster.inter.bandwidth * iteration_s),
    )


def _in_turn(
    planned: Sequence[PlannedMessage], connection: ServedConnection, rests: Rests
) -> tuple[list[Message], Rests]:
    """Exchange each message when it is ready and the one before is back."""
    messages = []
    free_s = 0.0
    for size, ready_s, tensors in planned:
        start_s = max(ready_s, free_s)
        free_s, rests = connection.exchanged(size, start_s, rests)
        messages.append(Message(size, ready_s, start_s, free_s, tensors))
    return messages, rests


def _by_priority(
    planned: Sequence[PlannedMessage], credit_bytes: float, connection: ServedConnection, before: Rests
) -> tuple[list[Message], Rests]:
    """Exchange the most urgent first, as `priority_order` has it.

    What a message takes decides what is sent after it, and that what the later ones take: the step is followed again
    from its beginning until nothing changes. Each time one message more is right.
    """
    ready, urgency = [message.ready_s for message in planned], [message.tensors[-1] for message in planned]
    sizes = [message.size for message in planned]
    seconds = [connection.repeated_s(size) for size in sizes]
    while True:
        messages, rests, found = [], before, list(seconds)
        for index, start_s, _ in priority_order(ready, urgency, sizes, seconds, credit_bytes):
            end_s, rests = connection.exchanged(sizes[index], start_s, rests)
            found[index] = end_s - start_s
            messages.append(Message(sizes[index], ready[index], start_s, end_s, planned[index].tensors))
        if all(abs(now_s - then_s) < _SAME_S for now_s, then_s in zip(found, seconds, strict=True)):
            return messages, rests
        seconds = found
