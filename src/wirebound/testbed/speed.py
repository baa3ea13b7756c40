"""What does a network of the testbed really reach? A real all-reduce on it, timed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from wirebound.errors import InputError, WireboundError
from wirebound.profile.spread import interquartile_range, median
from wirebound.simulate.collectives import ring_sent_bytes
from wirebound.testbed.ranks import GlooRanks


@dataclass(frozen=True, slots=True)
class AllreduceTimes:
    """Seconds of all-reduces of `size` bytes, from the last rank's start to the last rank's end."""

    size: int
    times_s: tuple[float, ...]

    @property
    def median_s(self) -> float:
        """The median, in seconds."""
        return median(self.times_s)

    @property
    def spread_s(self) -> float:
        """The interquartile range, in seconds."""
        return interquartile_range(self.times_s)


def set_rate(ranks: GlooRanks, rate_Bps: float | None) -> None:
    """Change the rate of the network's links while its processes run."""
    ranks.network.set_conditions(replace(ranks.network.conditions, rate_Bps=rate_Bps))


def time_allreduces(
    ranks: GlooRanks,
    sizes: Sequence[int],
    *,
    repetitions: int,
    budget_s: float = 10.0,
    seed: int = 0,
) -> list[AllreduceTimes]:
    """Time all-reduces of `sizes` bytes (multiples of 4), `repetitions` rounds of all of them in random order.

    No new round begins after `budget_s`. Raises `InputError` for a wrong size and `WireboundError` when a process
    fails, or a paced connection is not found.
    """
    wrong = [size for size in sizes if size < 4 or size % 4]
    if wrong or not sizes:
        raise InputError(f"size {wrong[0] if wrong else 'list'} must be a multiple of 4 bytes (32-bit numbers)")
    pace_Bps = ranks.network.pace_Bps()
    order = {
        "do": "allreduce",
        "sizes": list(sizes),
        "repetitions": repetitions,
        "budget_s": budget_s,
        "seed": seed,
        "pace_Bps": pace_Bps,
    }
    answers = ranks.ask(order, time_limit_s=budget_s + 60.0)
    if pace_Bps is not None and not all(answer["paced_connections"] for answer in answers):
        raise WireboundError("no connection of the all-reduce could be paced")
    readings = {size: [answer["times"][str(size)] for answer in answers] for size in sizes}
    return [AllreduceTimes(size, _times(readings[size])) for size in sizes]


def utilization(times: AllreduceTimes, ranks: int, rate_Bps: float) -> float:
    """Return bytes that a rank of a ring sends ÷ (rate × median time): the share of the link over the collective."""
    return ring_sent_bytes(times.size, ranks) / (rate_Bps * times.median_s)


def _times(readings: list[list[Any]]) -> tuple[float, ...]:
    # The ranks share one clock, and the wait for a late rank is not the network's.
    return tuple(
        max(end for _, end in repetition) - max(start for start, _ in repetition)
        for repetition in zip(*readings, strict=True)
    )
