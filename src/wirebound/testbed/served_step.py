"""The step whose messages are pushed to servers and pulled one by one, over connections that rest after each packet.

A shaper lets a packet of a connection pass at once and makes the connection rest for as long as its bytes take. So a
small message after a large one waits: its pull goes the way of the large one's last packet, which has only just
passed. Each direction of a worker's connection is followed from message to message.

Where a packet rests longer than about 40 ms (four workers that share 50 Mbit/s), the kernel was seen to send one
segment at a time though it sends two on faster links: many messages of some packets then take longer than predicted.
"""

from collections.abc import Sequence
from dataclasses import replace

from wirebound.model import Cluster, Message, Method, Step, Workload
from wirebound.simulate.step import simulate_step
from wirebound.testbed.calibration import Calibration

_STEPS = 3


class Direction:
    """What a worker sends a server, or the other way, over one connection; times are in seconds."""

    def __init__(self, calibration: Calibration, rate_Bps: float) -> None:
        self._bytes_per_s = rate_Bps * calibration.share / max(calibration.ranks, calibration.servers)
        self._burst, self._later = calibration.burst_bytes, calibration.later_bursts
        self._whole = calibration.whole_bursts and calibration.burst_bytes > 0
        self._free_s = 0.0

    def passed_s(self, size: float, now_s: float) -> float:
        """Return when the last of `size` bytes passes the shaper, handed over at `now_s`."""
        if not self._whole:  # a bucket of tokens, which fills while nothing is sent
            self._free_s = max(self._free_s, now_s - self._burst / self._bytes_per_s) + size / self._bytes_per_s
            return max(now_s, self._free_s)
        passes_s, packet = now_s, self._burst
        while size > 0:
            passes_s = max(now_s, self._free_s)
            self._free_s = passes_s + min(size, packet) / self._bytes_per_s
            size, packet = size - packet, self._later * self._burst
        return passes_s

    def begin_again(self, after_s: float) -> None:
        """Count the time from `after_s` on."""
        self._free_s -= after_s


def served_step(
    workload: Workload, cluster: Cluster, method: Method, *, calibration: Calibration, rate_Bps: float
) -> Step:
    """Return the engine's step with messages that take what the connections' rests allow; first come, first served.

    `method` is one that waits for each message before it sends the next. Rests last into the next step: a few are
    followed, and the last one told.
    """
    step = simulate_step(workload, cluster, method, include_vector_add=False, cost=calibration.cost(rate_Bps))
    ways = push, pull = Direction(calibration, rate_Bps), Direction(calibration, rate_Bps)
    messages, iteration_s = list(step.messages), step.iteration_s
    for _ in range(_STEPS):
        messages = _exchanged(step.messages, push, pull, calibration)
        last_s = max(workload.backward_s, messages[-1].end_s)
        iteration_s = workload.forward_s + last_s + workload.optimizer_s
        for way in ways:
            way.begin_again(iteration_s)
    return replace(
        step,
        messages=tuple(messages),
        iteration_s=iteration_s,
        communication_s=sum(message.end_s - message.start_s for message in messages),
        exposed_s=iteration_s - step.compute_s,
        link_utilization=step.node_wire_bytes / (cluster.inter.bandwidth * iteration_s),
    )


def _exchanged(planned: Sequence[Message], push: Direction, pull: Direction, calibration: Calibration) -> list[Message]:
    """Push each message when it is ready and the one before is back, and pull it."""
    messages = []
    free_s = 0.0
    for message in planned:
        share = message.size / calibration.servers
        start_s = max(message.ready_s, free_s)
        pushed_s = push.passed_s(share, start_s) + calibration.latency_s
        free_s = pull.passed_s(share, pushed_s) + calibration.latency_s
        messages.append(message._replace(start_s=start_s, end_s=free_s))
    return messages
