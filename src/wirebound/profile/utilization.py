"""How busy were the link and the processor, over time and while there was communication? Standard library only."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from wirebound.profile.observations import CounterSeries, HookOverhead
from wirebound.profile.sampler import Reading


@dataclass(frozen=True, slots=True)
class Usage:
    """What one process did from `start_s` to `end_s`, on average; None for what was not counted.

    `sent_Bps` is in bytes per second, `link` that ÷ the link's rate. `cpu` is in processor seconds per second (1: one
    core all the time), `waiting` how long its threads together waited for a core, in seconds per second.
    """

    start_s: float
    end_s: float
    cpu: float
    waiting: float | None
    sent_Bps: float | None  # noqa: N815 - the unit is bytes per second
    link: float | None


def series_of(
    readings: Sequence[Reading],
    *,
    phase: str,
    rank: int,
    interval_s: float,
    link_counter: str | None = None,
    rate_Bps: float | None = None,
    communication: Sequence[tuple[float, float]] = (),
    overhead: HookOverhead | None = None,
) -> CounterSeries:
    """Return the readings as a series that begins at 0; `communication` has spans of the same timer, in order.

    A counter that seems to fall (two clocks are never read at the very same time) stays where it was.
    """
    first = readings[0]

    def since_first(values: Sequence[float | None]) -> tuple[float, ...]:
        if None in values:
            return ()
        highest, column = 0.0, []
        for value in values:
            highest = max(highest, (value or 0.0) - (values[0] or 0.0))
            column.append(round(highest, 9))
        return tuple(column)

    return CounterSeries(
        phase=phase,
        rank=rank,
        interval_s=interval_s,
        time_s=since_first([reading.moment_s for reading in readings]),
        cpu_s=since_first([reading.cpu_s for reading in readings]),
        sent_bytes=tuple(int(value) for value in since_first([reading.sent_bytes for reading in readings])),
        waiting_s=since_first([reading.waiting_s for reading in readings]),
        link_counter=link_counter,
        rate_Bps=rate_Bps,
        communication_start_s=tuple(round(max(0.0, start - first.moment_s), 9) for start, _ in communication),
        communication_end_s=tuple(round(max(0.0, end - first.moment_s), 9) for _, end in communication),
        overhead=overhead,
    )


def usage_over_time(series: CounterSeries, least_s: float | None = None) -> list[Usage]:
    """Return what the process did between readings, each span at least `least_s` long.

    By default half the interval that was asked for: two readings that follow each other at once tell no rate.
    """
    least_s = series.interval_s / 2 if least_s is None else least_s
    usages, start = [], series.time_s[0]
    for end in series.time_s[1:]:
        if end - start >= least_s and end > start:
            usages.append(usage_between(series, start, end))
            start = end
    return usages


def usage_between(series: CounterSeries, start_s: float, end_s: float) -> Usage:
    """Return what the process did from `start_s` to a later `end_s` of the series, linearly between two readings."""
    return _usage(series, [(start_s, end_s)])


def usage_of_communication(series: CounterSeries) -> Usage | None:
    """Return what the process did while there was communication, over all its spans; None where there was none."""
    last = series.time_s[-1]
    spans = [
        (start, min(end, last))
        for start, end in zip(series.communication_start_s, series.communication_end_s, strict=True)
        if min(end, last) > start
    ]
    return _usage(series, spans) if spans else None


def _usage(series: CounterSeries, spans: Sequence[tuple[float, float]]) -> Usage:
    seconds = sum(end - start for start, end in spans)

    def per_second(column: Sequence[float]) -> float | None:
        if not column:
            return None
        return (
            sum(_at(series.time_s, column, end) - _at(series.time_s, column, start) for start, end in spans) / seconds
        )

    sent_Bps = per_second(series.sent_bytes)
    return Usage(
        start_s=spans[0][0],
        end_s=spans[-1][1],
        cpu=per_second(series.cpu_s) or 0.0,
        waiting=per_second(series.waiting_s),
        sent_Bps=sent_Bps,
        link=None if sent_Bps is None or series.rate_Bps is None else sent_Bps / series.rate_Bps,
    )


def _at(times: Sequence[float], column: Sequence[float], moment: float) -> float:
    """The counter at a moment, linearly between the readings around it."""
    after = bisect_right(times, moment)
    if after == 0:
        return column[0]
    if after == len(times):
        return column[-1]
    before_s, after_s = times[after - 1], times[after]
    share = (moment - before_s) / (after_s - before_s)
    return column[after - 1] + share * (column[after] - column[after - 1])
