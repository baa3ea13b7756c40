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


class Stages(NamedTuple):
    """What the device and the servers' links did for one message; seconds since backward began.

    It is encoded until `encoded_s`, pushed from the message's `start_s` to `push_end_s`, pulled from `pull_start_s` to
    the message's `end_s`, and decoded until `decoded_s`. `encode_s` and `decode_s` are the seconds of coding. Where
    there is one transfer, it is the push, and the pull takes no time. `sent_bytes` is what the node's link sends.
    """

    encode_s: float
    encoded_s: float
    push_end_s: float
    pull_start_s: float
    decode_s: float
    decoded_s: float
    sent_bytes: float


@dataclass(frozen=True, slots=True)
class Step:
    """One training step of one worker in steady state.

    Times are in seconds. `communication_s` is the time of all messages, vector additions included, `exposed_s` what of
    it lengthens the step. `wire_bytes_per_worker` counts the bytes that a worker sends in a step, `node_wire_bytes`
    what a node's network link sends; `link_utilization` is the latter over bandwidth × iteration time, 0 where no
    network is used.

    `nominal_ratio` is the bytes of the gradients over those of one worker's payloads, `wire_ratio` the bytes that
    would cross a node's link without compression over those that do (of a single node: its accelerators' bytes).
    `encode_s` and `decode_s` are the seconds of coding on the device. `stages` has each message's, `backward_end_s` and
    `forward_end_s` have the end of each tensor's task; they are empty where the plain step does (see
    `Method.has_stages`), the last also where the next forward pass waits for everything.
    """

    iteration_s: float
    compute_s: float
    communication_s: float
    exposed_s: float
    wire_bytes_per_worker: float
    node_wire_bytes: float
    link_utilization: float
    messages: tuple[Message, ...]
    nominal_ratio: float = 1.0
    wire_ratio: float = 1.0
    encode_s: float = 0.0
    decode_s: float = 0.0
    stages: tuple[Stages, ...] = ()
    backward_end_s: tuple[float, ...] = ()
    forward_end_s: tuple[float, ...] = ()

    @property
    def scaling_factor(self) -> float:
        """T_n / (n·T_1): throughput relative to perfect scaling, 1 for a step that takes no time."""
        return self.compute_s / self.iteration_s if self.iteration_s > 0 else 1.0
