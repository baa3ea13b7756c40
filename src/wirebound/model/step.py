"""The result of simulating one training step."""

from dataclasses import dataclass
from typing import NamedTuple


class Message(NamedTuple):
    """One transfer: `size` bytes before compression; `ready_s`, `start_s`, `end_s` in seconds since backward began.

    `tensors` are the indices of the workload's tensors that it carries, wholly or in part.
    """

    size: float
    ready_s: float
    start_s: float
    end_s: float
    tensors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One training step of one worker in steady state.

    Times are in seconds. `communication_s` is the time that the network is busy, `exposed_s` what of it lengthens the
    step. `wire_bytes_per_worker` counts the bytes that a worker sends in a step, `node_wire_bytes` what a node's
    network link sends; `link_utilization` is the latter over bandwidth × iteration time, 0 where no network is used.
    """

    iteration_s: float
    compute_s: float
    communication_s: float
    exposed_s: float
    wire_bytes_per_worker: float
    node_wire_bytes: float
    link_utilization: float
    messages: tuple[Message, ...]

    @property
    def scaling_factor(self) -> float:
        """T_n / (n·T_1): throughput relative to perfect scaling, 1 for a step that takes no time."""
        return self.compute_s / self.iteration_s if self.iteration_s > 0 else 1.0
