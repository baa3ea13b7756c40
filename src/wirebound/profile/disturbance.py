"""Was the machine busy with something else while we measured? Marks runs that should not be trusted."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from wirebound.profile.schema import Scalar
from wirebound.profile.spread import interquartile_range, median

#: On a quiet machine our threads together wait less than this for a core, in seconds per second.
WAITING_LIMIT = 0.10
#: Step times of a quiet machine have an interquartile range below this share of their median.
SPREAD_LIMIT = 0.15


def run_queue_delay_s() -> float | None:
    """Return the seconds that all threads of this process were ready to run but waited for a core, so far.

    Linux only (``/proc/self/task/*/schedstat``, second figure, nanoseconds); None elsewhere.
    """
    try:
        threads = list(Path("/proc/self/task").iterdir())
    except OSError:
        return None
    total = 0
    for thread in threads:
        try:
            total += int((thread / "schedstat").read_text(encoding="ascii").split()[1])
        except (OSError, IndexError, ValueError):
            continue  # a thread that has just ended, or a kernel without these statistics
    return total / 1e9


class DisturbanceWatch:
    """Counts from its making how long our threads wait for a core."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._delay = run_queue_delay_s()

    def waiting_share(self) -> float | None:
        """Return the waiting time of all threads ÷ elapsed time, None where the system does not count it."""
        now = run_queue_delay_s()
        if self._delay is None or now is None:
            return None
        # A thread that ended takes its count along, so the difference may be below zero.
        return max(0.0, now - self._delay) / max(time.perf_counter() - self._began, 1e-9)


def disturbance_warnings(what: str, times_s: Sequence[float], waiting_share: float | None) -> list[str]:
    """Return one warning for each sign that `what` was disturbed: widely spread times, threads that had to wait."""
    warnings = []
    spread = interquartile_range(times_s) / median(times_s) if times_s and median(times_s) > 0 else 0.0
    if spread > SPREAD_LIMIT:
        warnings.append(
            f"{what}: times spread by {spread:.0%} of the median (limit {SPREAD_LIMIT:.0%}): the machine was not quiet"
        )
    if waiting_share is not None and waiting_share > WAITING_LIMIT:
        warnings.append(
            f"{what}: our threads together waited {waiting_share:.2f} s per second for a core"
            f" (limit {WAITING_LIMIT:.2f}): other work was running"
        )
    return warnings


def load_warnings(record: Mapping[str, Scalar]) -> list[str]:
    """Return a warning when other work kept more than half of the cores busy before the measurement."""
    load, cores = record.get("load_1min"), record.get("usable_cores")
    if isinstance(load, float) and isinstance(cores, int) and load > cores / 2:
        return [f"the load average was {load:g} on {cores} cores before the measurement began"]
    return []
