"""A thread that reads the counters of this process every few milliseconds while something else goes on."""

import threading
import time
from dataclasses import dataclass

from wirebound.errors import InputError
from wirebound.profile.counters import RunQueueDelay, link_counter, process_cpu_s

#: Between two readings, in seconds: finer costs more than it shows, coarser hides what happens within a step.
SHORTEST_S, LONGEST_S = 0.002, 0.010


def check_interval(interval_s: float) -> None:
    """Raise `InputError` for an interval between readings that is out of range."""
    if not SHORTEST_S <= interval_s <= LONGEST_S:
        raise InputError(
            f"an interval of {1e3 * interval_s:g} ms must be {1e3 * SHORTEST_S:g} ms at least, and"
            f" {1e3 * LONGEST_S:g} ms at most"
        )


@dataclass(frozen=True, slots=True)
class Reading:
    """The counters at one moment of the processor's timer; None for what this system does not count."""

    moment_s: float
    cpu_s: float
    sent_bytes: int | None
    waiting_s: float | None


class Sampler:
    """Reads the counters every `interval_s` seconds while it is `on`; the first and last readings are made at once.

    The reader's own processor time is left out of what it tells. A reading may come late where all cores are busy:
    each has the moment at which it was really made. Raises `InputError` for an interval out of range.
    """

    def __init__(self, interval_s: float) -> None:
        check_interval(interval_s)
        self.interval_s = interval_s
        self.readings: list[Reading] = []
        self._link = link_counter()
        self._run_queue = RunQueueDelay()
        self._own_s = 0.0
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    @property
    def link_counter(self) -> str | None:
        """What counts the bytes, None where nothing does."""
        return None if self._link is None else self._link.name

    def __enter__(self) -> "Sampler":
        return self

    def __exit__(self, *_: object) -> None:
        self.off()
        if self._link is not None:
            self._link.close()
        self._run_queue.close()

    def on(self) -> None:
        """Begin to read, with a new list of readings."""
        self.off()
        self.readings = []
        self._ended = threading.Event()
        self._read()
        self._thread = threading.Thread(target=self._sample, args=(self._ended,), name="counters", daemon=True)
        self._thread.start()

    def off(self) -> None:
        """Read once more and stop; does nothing where nothing is read."""
        if self._thread is None:
            return
        self._ended.set()
        self._thread.join()
        self._thread = None
        self._read()

    def _sample(self, ended: threading.Event) -> None:
        began, due = self._own_s, time.perf_counter()
        while True:
            due = max(due + self.interval_s, time.perf_counter())
            stop = ended.wait(max(0.0, due - time.perf_counter()))
            self._own_s = began + time.thread_time()
            if stop:
                return
            self._read()

    def _read(self) -> None:
        self.readings.append(
            Reading(
                time.perf_counter(),
                process_cpu_s() - self._own_s,
                None if self._link is None else self._link.sent_bytes(),
                self._run_queue.seconds() if self._run_queue.available else None,
            )
        )
