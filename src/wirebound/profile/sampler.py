"""A thread that reads the counters of this process every few milliseconds while something else goes on."""

import threading
import time
from dataclasses import dataclass

from wirebound.errors import InputError
from wirebound.profile.counters import ProcessCounter, link_counter

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
    """A thread reads the counters every `interval_s` seconds between `on` and `off`.

    The reader's own processor time is left out of what it tells. A reading may come late where all cores are busy:
    each has the moment at which it was really made. Raises `InputError` for an interval out of range.
    """

    def __init__(self, interval_s: float) -> None:
        check_interval(interval_s)
        self.interval_s = interval_s
        self.readings: list[Reading] = []
        self._link = link_counter()
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

    def on(self) -> None:
        """Begin to read, with a new list of readings; returns once the first is made."""
        self.off()
        self.readings = []
        self._ended, begun = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._sample, args=(self._ended, begun), name="counters", daemon=True)
        self._thread.start()
        begun.wait()

    def off(self) -> None:
        """Read once more and stop; does nothing where nothing is read."""
        if self._thread is not None:
            self._ended.set()
            self._thread.join()
            self._thread = None

    def _sample(self, ended: threading.Event, begun: threading.Event) -> None:
        times = ProcessCounter()
        due = time.perf_counter()
        try:
            while True:
                stop = ended.is_set()
                sent = None if self._link is None else self._link.sent_bytes()
                now = times.read()
                self.readings.append(Reading(time.perf_counter(), now.cpu_s, sent, now.waiting_s))
                begun.set()
                if stop:
                    return
                # After a late reading the next is not made at once: so short a span would tell no rate.
                due = max(due + self.interval_s, time.perf_counter() + self.interval_s / 2)
                ended.wait(max(0.0, due - time.perf_counter()))
        finally:
            begun.set()
            times.close()
