"""Seconds per message of messages that follow each other without a pause, as a replayed step sends them."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wirebound.profile.spread import median
from wirebound.testbed.ranks import GlooRanks

#: So many messages make up a train.
_FEWEST, _MOST = 3, 24
#: Gathered messages are a compressor's: they come one at a time, after a pause, and each rank is late by so much more.
_LATE_S = 1e-3
#: Trains of small messages move about as much as this.
_TRAIN_BYTES = 2**18
#: Links are idle for so long between trains.
PAUSE_S = 0.02
#: Each message may take so much longer than its bytes do.
_ALLOWANCE_S = 1.5e-3


@dataclass(frozen=True, slots=True)
class Train:
    """`count` messages of `size` bytes in a row, and how long each took on average, in seconds, in each round.

    The first of several is not counted: an idle link lets a burst pass at once, idle processors wake up slowly, and
    workers begin one after the other.
    """

    size: int
    count: int
    times_s: tuple[float, ...]

    @property
    def median_s(self) -> float:
        """The median, in seconds."""
        return median(self.times_s)


def messages_of_a_train(size: int) -> int:
    """Return of how many messages of `size` bytes a train is."""
    return max(_FEWEST, min(_MOST, _TRAIN_BYTES // size))


def time_trains(
    ranks: GlooRanks,
    sizes: Sequence[int],
    *,
    servers: int,
    rate_Bps: float,
    rounds: int,
    gathers: bool = False,
    seed: int = 0,
) -> list[Train]:
    """Have the ranks exchange trains of messages of `sizes` bytes (multiples of 4), and time them.

    The last `servers` ranks are parameter servers; without any, messages are all-reduced, or gathered from all by all.
    The links were set to `rate_Bps` bytes per second before. Messages go the way of a replayed step, so that what the
    processes themselves take is in their times. Raises `WireboundError` when a process fails.
    """
    workers = ranks.network.ranks - servers
    counts = {size: 1 if gathers else messages_of_a_train(size) for size in sizes}
    # At most two directions, or twice round a ring; a gathered message passes every link but one.
    passes = max(2, workers - 1) if gathers else 2
    expected = {size: counts[size] * (passes * size / rate_Bps + _ALLOWANCE_S) + PAUSE_S for size in sizes}
    messages: list[dict[str, Any]] = []
    begins: dict[int, int] = {}
    ready_s = 0.0
    for size in random.Random(seed).sample(list(sizes), len(sizes)):
        begins[size] = len(messages)
        messages += [{"bytes": size, "ready_s": ready_s, "tensors": [0]}] * counts[size]
        ready_s += expected[size]
    order = {
        "do": "replay",
        "servers": servers,
        "gathers": gathers,
        "late_s": _LATE_S if gathers else 0.0,
        "steps": rounds - 1,  # and the one that ends the last period
        "warm_up": 1,
        "folder": str(ranks.network.folder),
        "priority": False,
        "credit_bytes": None,
        "forward_s": 0.0,
        "backward_s": ready_s,
        "optimizer_s": 0.0,
        "messages": messages,
        "pace_Bps": ranks.network.pace_Bps(max(workers, servers) if servers else 1),
    }
    answers = ranks.ask(order, time_limit_s=60 + 5 * (rounds + 2) * ready_s)[:workers]
    return [
        Train(
            size, counts[size], tuple(_seconds(answers, number, begins[size], counts[size]) for number in range(rounds))
        )
        for size in sizes
    ]


def _seconds(answers: Sequence[dict[str, Any]], number: int, begin: int, count: int) -> float:
    """From the last worker's end of the first message (of a single one, its beginning) to the last one's end."""
    last = begin + count - 1
    ended_s = _last_s(answers, number, last, 1)
    if count == 1:
        return ended_s - _last_s(answers, number, begin, 0)
    return (ended_s - _last_s(answers, number, begin, 1)) / (count - 1)


def _last_s(answers: Sequence[dict[str, Any]], number: int, message: int, end: int) -> float:
    """When the last worker began (`end` 0) or ended a message: the ranks share one clock."""
    return max(float(answer["backward_began"][number] + answer["messages"][number][message][end]) for answer in answers)
