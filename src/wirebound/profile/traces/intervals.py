"""Unions of time intervals. An interval is (start, end); a union is a sorted list of intervals that do not touch."""

from array import array
from collections.abc import Iterable, Sequence

Interval = tuple[float, float]


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the union: sorted, intervals that overlap or touch joined, empty ones left out."""
    joined: list[Interval] = []
    first, last = 0.0, -1.0
    for start, end in sorted(intervals):
        if end <= start:
            continue
        if last < first or start > last:
            if last > first:
                joined.append((first, last))
            first, last = start, end
        elif end > last:
            last = end
    if last > first:
        joined.append((first, last))
    return joined


def total(joined: Iterable[Interval]) -> float:
    """Return the length of a union."""
    return sum((end - start for start, end in joined), 0.0)


def overlap(a: Sequence[Interval], b: Sequence[Interval]) -> float:
    """Return the length that two unions have in common."""
    common, i, j = 0.0, 0, 0
    while i < len(a) and j < len(b):
        common += max(0.0, min(a[i][1], b[j][1]) - max(a[i][0], b[j][0]))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return common


def within(joined: Sequence[Interval], start: float, end: float) -> float:
    """Return how much of start–end a union covers."""
    return overlap(joined, [(start, end)]) if end > start else 0.0


class BusyTime:
    """Collects intervals in little memory: 16 bytes each, joined whenever `join_at` of them have come together."""

    def __init__(self, join_at: int = 200_000) -> None:
        self._starts, self._ends = array("d"), array("d")
        self._join_at = join_at

    def add(self, start: float, end: float) -> None:
        """Add one interval."""
        self._starts.append(start)
        self._ends.append(end)
        if len(self._starts) >= self._join_at:
            joined = self.union()
            self._starts = array("d", (start for start, _ in joined))
            self._ends = array("d", (end for _, end in joined))
            # Where little can be joined, wait longer: the work stays proportional to the number of intervals.
            self._join_at = max(self._join_at, 2 * len(joined))

    def union(self) -> list[Interval]:
        """Return the union of all intervals added."""
        return union(zip(self._starts, self._ends, strict=True))
