"""What one all-reduce takes on a paced link, small ones included: neither latency nor bandwidth alone, nor their sum.

Where a connection is paced, the processing of one hop runs while the bytes of the one before are still spaced out, and
after a pause the first packets pass at once. So the time lies between the longer of the two parts and their sum:
T = (L^p + W^p)^(1/p), with L of a message without bytes, W = bytes on the wire ÷ rate, and p from 1 (their sum) up.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from wirebound.model import Link
from wirebound.profile.spread import median
from wirebound.simulate.collectives import ring_sent_bytes

#: Exponents that are tried.
_EXPONENTS = tuple(1 + 0.05 * step for step in range(61))


@dataclass(frozen=True, slots=True)
class MessageTime:
    """The time of an all-reduce of `ranks` ranks: L in seconds, the share of a rate that is reached, the exponent."""

    ranks: int
    latency_s: float
    share: float
    exponent: float

    def seconds(self, size: float, rate_Bps: float) -> float:
        """Return the seconds of a message of `size` bytes over links of `rate_Bps` bytes per second."""
        wire_s = ring_sent_bytes(size, self.ranks) / (rate_Bps * self.share)
        return float((self.latency_s**self.exponent + wire_s**self.exponent) ** (1 / self.exponent))

    def link(self, sizes: Sequence[float], rate_Bps: float) -> Link:
        """Return the link, latency and bandwidth, on which messages of these `sizes` take as long in all."""
        bandwidth = rate_Bps * self.share
        over_s = [self.seconds(size, rate_Bps) - ring_sent_bytes(size, self.ranks) / bandwidth for size in sizes]
        return Link(bandwidth, max(0.0, sum(over_s) / len(over_s) / (2 * (self.ranks - 1))))


def fit_message_time(ranks: int, rate_Bps: float, sizes: Sequence[int], times_s: Sequence[float]) -> MessageTime:
    """Fit to the times of all-reduces of `sizes` bytes (ascending) at one rate.

    The share is that of the largest message, L the time of the smallest; of the exponents the one with the least
    median of relative errors is taken.
    """
    wire_s = [ring_sent_bytes(size, ranks) / rate_Bps for size in sizes]
    share = min(1.1, wire_s[-1] / times_s[-1])

    def errors(exponent: float) -> float:
        tried = MessageTime(ranks, times_s[0], share, exponent)
        found = [abs(tried.seconds(s, rate_Bps) / t - 1) for s, t in zip(sizes, times_s, strict=True)]
        return median(found[1:-1])

    return MessageTime(ranks, times_s[0], share, min(_EXPONENTS, key=errors))
