"""When did each message travel? Kept only for those who ask."""

import time
from typing import Literal, NamedTuple

#: An all-reduce is one transfer; with parameter servers a message is pushed, then pulled.
Kind = Literal["all-reduce", "push", "pull"]


class MessageRecord(NamedTuple):
    """One transfer as this process saw it: `size` in bytes, times in seconds of the monotonic clock.

    `ready_s` is when the last of its gradients was there. An all-reduce starts once this process has handed it over and
    the one before has ended, so the wait for a late worker belongs to it. A push ends when the system has taken the
    last byte; a pull starts when the server announces the result. `step` counts from 0. `tensors` are the parameters
    whose gradients it carries, wholly or in part.
    """

    kind: Kind
    step: int
    size: int
    ready_s: float
    start_s: float
    end_s: float
    tensors: tuple[str, ...]


class Recorder:
    """Collects the messages of one process; any thread may add. `clock` is shared by all processes of a machine."""

    clock = staticmethod(time.monotonic)

    def __init__(self) -> None:
        self.messages: list[MessageRecord] = []

    def add(self, record: MessageRecord) -> None:
        """Keep one message."""
        self.messages.append(record)
