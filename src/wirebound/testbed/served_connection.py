"""A worker's connections to its parameter servers: a shaper lets a packet pass, and then the connection rests.

So a small message after a large one waits: its pull goes the way of the large one's last packet, which has only just
passed. Each way is followed from message to message. Times are in seconds, sizes in bytes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

#: Gloo announces each message, in so many bytes, on the connection that carries it.
_ANNOUNCEMENT_BYTES = 48
#: The message itself is written about so long after it: one that rests for 8 µs was seen to hold nothing up, 15 µs did.
_BETWEEN_WRITES_S = 1e-5


class Rests(NamedTuple):
    """Until when a connection rests, after what was pushed and what was pulled."""

    push_s: float = 0.0
    pull_s: float = 0.0

    def since(self, moment_s: float) -> "Rests":
        """Return the same, counted from a later moment."""
        return Rests(self.push_s - moment_s, self.pull_s - moment_s)


@dataclass(frozen=True, slots=True)
class Shaper:
    """What one way of a connection lets pass, of `bytes_per_s`.

    With `whole_bursts` a first packet of up to `burst_bytes` passes at once, then packets of `later_bursts` times as
    many bytes; each that had to wait takes `packet_s` more, for a timer must wake the system up. Without, a bucket of
    `burst_bytes` tokens fills while nothing is sent.
    """

    bytes_per_s: float
    burst_bytes: float = 0.0
    whole_bursts: bool = False
    later_bursts: int = 1
    packet_s: float = 0.0

    def passed_s(self, size: float, now_s: float, free_s: float) -> tuple[float, float]:
        """Return when the last of `size` bytes passes, handed over at `now_s`, and until when the connection rests.

        It rests until `free_s` after what was sent before.
        """
        if not self.whole_bursts:
            free_s = max(free_s, now_s - self.burst_bytes / self.bytes_per_s) + size / self.bytes_per_s
            return max(now_s, free_s), free_s
        waits = self._later_packets(size)
        # What waits for a rest anyway goes together with its announcement.
        announced_s = self.announcement_s if free_s <= now_s else 0.0
        first_s = max(now_s, free_s) + announced_s
        late_s = waits * self.packet_s
        return first_s + self.rests_s(size), first_s + size / self.bytes_per_s + late_s

    def rests_s(self, size: float) -> float:
        """Return the seconds from when the first of `size` bytes passes to when the last does."""
        if not self.whole_bursts:
            return max(0.0, size - self.burst_bytes) / self.bytes_per_s
        waits = self._later_packets(size)
        ahead = self.burst_bytes * (1 + self.later_bursts * (waits - 1)) if waits else 0.0
        return ahead / self.bytes_per_s + waits * self.packet_s

    @property
    def announcement_s(self) -> float:
        """The seconds that a message waits for the rest of what announces it, where that outlasts the next write."""
        rest_s = _ANNOUNCEMENT_BYTES / self.bytes_per_s
        return rest_s + self.packet_s if self.whole_bursts and rest_s > _BETWEEN_WRITES_S else 0.0

    def _later_packets(self, size: float) -> int:
        return math.ceil(max(0.0, size - self.burst_bytes) / (self.later_bursts * self.burst_bytes))


@dataclass(frozen=True, slots=True)
class ServedConnection:
    """A worker's connections to `servers` servers, which share a message evenly and so behave alike.

    `latency_of` tells what each way takes beside its bytes, from a message's bytes.
    """

    shaper: Shaper
    servers: int
    latency_of: Callable[[float], float]

    def exchanged(self, size: float, start_s: float, rests: Rests) -> tuple[float, Rests]:
        """Return when a message of `size` bytes pushed at `start_s` has been pulled, and the rests that it leaves."""
        share, latency_s = size / self.servers, self.latency_of(size)
        pushed_s, push_s = self.shaper.passed_s(share, start_s, rests.push_s)
        pulled_s, pull_s = self.shaper.passed_s(share, pushed_s + latency_s, rests.pull_s)
        return pulled_s + latency_s, Rests(push_s, pull_s)

    def repeated_s(self, size: float) -> float:
        """Return the seconds of each of many messages of `size` bytes in a row: there and back, or what they rest."""
        share = size / self.servers
        way_s = self.shaper.announcement_s + self.shaper.rests_s(share) + self.latency_of(size)
        return max(2 * way_s, share / self.shaper.bytes_per_s)
