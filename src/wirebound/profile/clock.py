"""When did what happen in a training step? The processor's own timer, or events on a CUDA stream."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any


class Clock(ABC):
    """Marks moments while a step runs, and tells the times between them once it has ended."""

    #: How times are taken, as a profile names it.
    name: str
    #: The type of the device whose work is timed, as PyTorch names it.
    device_type: str

    @abstractmethod
    def mark(self) -> Any:
        """Mark this moment of the device's work; never waits for the device."""

    @abstractmethod
    def seconds(self, marks: Sequence[Any]) -> list[float]:
        """Return the seconds from the first mark to each of `marks`, waiting for the device; marks are used up."""


class CpuClock(Clock):
    """The processor's timer: what was called before the mark is done by then."""

    name = "cpu-timer"
    device_type = "cpu"

    def mark(self) -> float:
        """Return the timer's reading in seconds."""
        return time.perf_counter()

    def seconds(self, marks: Sequence[float]) -> list[float]:
        """Return the seconds from the first mark to each."""
        return [mark - marks[0] for mark in marks]


class CudaClock(Clock):
    """Events on the current CUDA stream: each completes when all the work that was issued before it is done.

    The host runs ahead of the device, so its timer would tell when work was issued, not when it was done. Hooks of a
    gradient run with the stream that computes it as the current one, so the event marks that gradient's readiness.
    `event_factory` returns an event with `record()` and `elapsed_time(later)` in milliseconds, `synchronize()` waits
    until the device has done all that was issued: `torch.cuda`'s own unless others are given.
    """

    name = "cuda-events"

    def __init__(
        self,
        event_factory: Callable[[], Any] | None = None,
        synchronize: Callable[[], None] | None = None,
        *,
        device_type: str = "cuda",
    ) -> None:
        if event_factory is None or synchronize is None:
            import torch

            event_factory = event_factory or _timing_event
            synchronize = synchronize or torch.cuda.synchronize
        self._event_factory, self._synchronize = event_factory, synchronize
        self._unused: list[Any] = []
        self.device_type = device_type

    def mark(self) -> Any:
        """Record an event on the current stream and return it."""
        event = self._unused.pop() if self._unused else self._event_factory()
        event.record()
        return event

    def seconds(self, marks: Sequence[Any]) -> list[float]:
        """Wait for the device, once, and return the seconds from the first event to each."""
        self._synchronize()
        seconds = [marks[0].elapsed_time(mark) / 1e3 for mark in marks]
        self._unused += marks  # creating an event costs more than recording one
        return seconds


def _timing_event() -> Any:
    import torch

    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def clock_of(device_type: str) -> Clock:
    """Return the clock for a type of device: events for ``cuda``, the processor's timer for all others."""
    return CudaClock() if device_type == "cuda" else CpuClock()
