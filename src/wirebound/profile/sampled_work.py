"""Repeat a piece of communicating work with the counters on, and find out what reading them costs."""

import time
from collections.abc import Callable

from wirebound.profile.observations import CounterSeries
from wirebound.profile.sampler import Sampler
from wirebound.profile.spread import overhead_of
from wirebound.profile.utilization import series_of

#: One piece of work of all ranks: returns when it began and ended to communicate, on the processor's timer.
Work = Callable[[], tuple[float, float]]

_MOST_PIECES = 1000
_FEWEST_PAIRS = 3


def sample_work(
    work: Work,
    agree: Callable[[float], float],
    *,
    phase: str,
    rank: int,
    interval_s: float,
    rate_Bps: float | None = None,
    seconds: float = 1.0,
    pairs: int = 20,
    pairs_limit_s: float = 4.0,
) -> CounterSeries:
    """Do `work` for about `seconds` with the counters read every `interval_s`, and return the series of this rank.

    Before that, neighbouring pieces of work run with the counters on and off, in turns, `pairs` times or for about
    `pairs_limit_s` (never fewer than 3 times): the ratio of their times is the counters' overhead. Every rank must call
    this; `agree(value)` returns rank 0's value to all of them, so that all do the same number of pieces.
    """
    with Sampler(interval_s) as sampler:
        work()
        began = time.perf_counter()
        work()
        piece_s = max(agree(time.perf_counter() - began), 1e-6)
        # What is shorter than a few readings would hide their cost, or meet none of them.
        repeats = max(1, min(_MOST_PIECES, round(4 * interval_s / piece_s)))
        ratios: list[float] = []
        began = time.perf_counter()
        while len(ratios) < pairs and not agree(
            float(len(ratios) >= _FEWEST_PAIRS and time.perf_counter() - began > pairs_limit_s)
        ):
            times = {}
            for on in (True, False) if len(ratios) % 2 == 0 else (False, True):
                if on:
                    sampler.on()
                start = time.perf_counter()
                for _ in range(repeats):
                    work()
                times[on] = time.perf_counter() - start
                sampler.off()
            ratios.append(times[True] / times[False])
        communication: list[tuple[float, float]] = []
        began = time.perf_counter()
        sampler.on()
        while not agree(float(time.perf_counter() - began > seconds)):
            communication += [work() for _ in range(repeats)]
        sampler.off()
        return series_of(
            sampler.readings,
            phase=phase,
            rank=rank,
            interval_s=interval_s,
            link_counter=sampler.link_counter,
            rate_Bps=rate_Bps,
            communication=communication,
            overhead=overhead_of(ratios),
        )
