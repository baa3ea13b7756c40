"""One calibration of a network of the testbed: what explains its messages, at one rate, and holds at others.

A message takes n stages: 2(P−1) steps round a ring of P ranks, or a push and a pull. In a stage the processes work for
α seconds while the pacer, which has let the last packets pass, makes the connection rest for the w seconds that its
bytes take; the two overlap in part. So a stage takes (α^m + w^m)^(1/m): α + w for m = 1, the longer for large m.

Gloo cuts what a ring sums into 2P segments and leaves out the empty ones; with S servers a tensor of fewer numbers
goes to fewer of them. What the processes do for a part is `part_share` of α where all parts are there.

With servers the way back begins as soon as the bytes are there, and the two directions rest side by side. Long messages
pass burst by burst where the kernel paces whole packets, or evenly after the first where a bucket of tokens fills; the
fit finds out which. So it does whether the kernel sends a first packet of one segment and then packets of two, as Linux
does on loopback. What a message leaves to the next one, `served_connection` follows.

An all-gather sends a worker's payload in two halves, and P−1 such stages take it round. Where a half is longer than a
burst, the worker that was told first that its peer is ready sends, and its own word that it is ready rests behind what
it sent: its peer begins half a payload later, so that the stage takes one and a half times its bytes.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from wirebound.errors import InputError
from wirebound.model import Link
from wirebound.simulate.cost import Cost
from wirebound.testbed.ranks import GlooRanks
from wirebound.testbed.served_connection import ServedConnection, Shaper
from wirebound.testbed.speed import set_rate
from wirebound.testbed.trains import Train, time_trains

#: Messages of all kinds of tensors. No powers of two: these fill a pacer's packets to the last byte.
SIZES = (4, 12, 24, 64, 1000, 3000, 6000, 12000, 24000, 48000, 96000, 200000, 400000, 800000, 2000000)
_ROUNDS = 5
#: Tensors are of 32-bit numbers.
_NUMBER_BYTES = 4
#: Of a push or a pull, bytes and work hardly add up: the longer one counts.
_SERVED_SHARPNESS = 8.0
#: Bursts that are tried: from a packet on Ethernet to four of the largest that loopback has.
_BURSTS_BYTES = tuple(1448 * 2 ** (step / 4) for step in range(31))


@dataclass(frozen=True, slots=True)
class Calibration:
    """What one rate's times tell of the links between `ranks` workers, and `servers` where there are any.

    With `gathers` messages are gathered from all by all; then a share above 1 is the burst that nobody waits for.

    `latency_s` is α in seconds, `share` the part of the nominal rate that messages reach, `sharpness` m. Bursts, 0 for
    all-reduces, are those of `served_connection.Shaper`. `sizes` are in bytes, `median_s` their times in seconds,
    `worst_residual` how far the worst of them is from the fit.
    """

    ranks: int
    rate_Bps: float  # noqa: N815 - the unit is bytes per second
    latency_s: float
    share: float
    sharpness: float = 1.0
    burst_bytes: float = 0.0
    whole_bursts: bool = False
    servers: int = 0
    gathers: bool = False
    sizes: tuple[int, ...] = ()
    median_s: tuple[float, ...] = ()
    worst_residual: float = 0.0
    later_bursts: int = 1
    part_share: float = 0.0
    packet_s: float = 0.0

    def link(self, rate_Bps: float) -> Link:
        """Return the link at another rate, where only the bandwidth is another."""
        return Link(bandwidth=rate_Bps * self.share, latency_s=self.latency_s)

    def gathered_bytes(self, size: float) -> float:
        """Return the bytes that a stage of an all-gather takes as long as, of payloads of `size` bytes."""
        return size if size <= 2 * self.burst_bytes else 1.5 * size

    def cost(self, rate_Bps: float) -> Cost:
        """Return the function from a message's bytes to its seconds, between messages that follow each other."""
        bandwidth = rate_Bps * self.share
        if self.gathers:
            return lambda size: (
                (self.ranks - 1) * stage_s(self.latency_s, self.gathered_bytes(size) / bandwidth, self.sharpness)
            )
        if self.servers:
            return self.connection(rate_Bps).repeated_s
        return lambda size: (
            2 * (self.ranks - 1) * stage_s(self.latency_of(size), size / (self.ranks * bandwidth), self.sharpness)
        )

    def connection(self, rate_Bps: float) -> ServedConnection:
        """Return a worker's connection to its servers: it has a share of the busier link, its own or a server's."""
        bytes_per_s = rate_Bps * self.share / max(self.ranks, self.servers)
        shaper = Shaper(bytes_per_s, self.burst_bytes, self.whole_bursts, self.later_bursts, self.packet_s)
        return ServedConnection(shaper, self.servers, self.latency_of)

    def latency_of(self, size: float) -> float:
        """Return α of a message of `size` bytes: less where it has too few numbers for all parts."""
        most = self.servers or 2 * self.ranks
        numbers = math.ceil(size / _NUMBER_BYTES)
        parts = math.ceil(numbers / math.ceil(numbers / most)) if numbers else 1
        return self.latency_s * (1 - self.part_share * (1 - parts / most))


def calibrate(
    ranks: GlooRanks,
    rate_Bps: float,
    *,
    servers: int = 0,
    gathers: bool = False,
    rounds: int = _ROUNDS,
    sizes: Sequence[int] = SIZES,
) -> Calibration:
    """Time messages of `sizes` bytes at `rate_Bps` bytes per second, the last `servers` ranks being servers, and fit.

    With `gathers` each worker's message goes to all others instead of being added up.

    Raises `InputError` where the link's rate is not limited, and `WireboundError` when a process fails.
    """
    if not ranks.network.limits_rate:
        raise InputError(f"the tier {ranks.network.tier} cannot limit the rate: choose another for predictions")
    set_rate(ranks, rate_Bps)
    trains = time_trains(ranks, sizes, servers=servers, rate_Bps=rate_Bps, rounds=rounds, gathers=gathers)
    return fit_trains(trains, ranks.network.ranks - servers, rate_Bps, servers=servers, gathers=gathers)


def fit_trains(
    trains: Sequence[Train], ranks: int, rate_Bps: float, *, servers: int = 0, gathers: bool = False
) -> Calibration:
    """Fit α, the share of the rate, m and, with servers or all-gathers, the burst to trains between `ranks` workers.

    Least squares, softened, of the logarithms of the medians. With all-reduces and servers a share above 1 would be the
    burst of an idle link taken for its rate, so that it ends there.
    """
    from scipy.optimize import least_squares

    sizes, measured = [train.size for train in trains], [train.median_s for train in trains]
    stages = 2 if servers else (1 if gathers else 2) * (ranks - 1)

    def calibration(parameters: Any, burst: float, whole: bool, later: int) -> Calibration:
        latency_s, share, sharpness, part_share, packet_share = math.exp(parameters[0]), *map(float, parameters[1:])
        return Calibration(
            ranks,
            rate_Bps,
            latency_s,
            # Where the kernel paces whole packets the rate is exact, and what is lost is lost to each packet's timer.
            share=1.0 if whole else share,
            sharpness=_SERVED_SHARPNESS if servers else sharpness,
            burst_bytes=burst,
            whole_bursts=whole,
            servers=servers,
            gathers=gathers,
            sizes=tuple(sizes),
            median_s=tuple(measured),
            later_bursts=later,
            part_share=0.0 if gathers or servers == 1 else part_share,
            packet_s=packet_share * latency_s if whole else 0.0,
        )

    def residuals(parameters: Any, burst: float, whole: bool, later: int) -> list[float]:
        cost = calibration(parameters, burst, whole, later).cost(rate_Bps)
        return [math.log(cost(size) / seconds) for size, seconds in zip(sizes, measured, strict=True)]

    start, largest_share = [math.log(min(measured) / stages), 0.98, 1.5, 0.2, 0.5], 2.0 if gathers else 1.0
    bounds = ([-16.0, 0.5, 1.0, 0.0, 0.0], [0.0, largest_share, 8.0, 0.95, 2.0])
    fits = []
    shapes: list[tuple[float, bool, int]] = [(0.0, False, 1)]
    if servers or gathers:
        passing = ((True, 1), (True, 2), (False, 1)) if servers else ((False, 1),)
        shapes = [(burst, *passed) for burst, passed in itertools.product(_BURSTS_BYTES, passing)]
    for shape in shapes:
        # Not the squares of the worst ones: sizes just above a whole burst take far longer than others.
        fit = least_squares(residuals, start, args=shape, bounds=bounds, loss="soft_l1", f_scale=0.05)
        fits.append((float(fit.cost), shape, fit.x))
    _, shape, best = min(fits, key=lambda fitted: fitted[0])
    worst = max(abs(math.expm1(residual)) for residual in residuals(best, *shape))
    return replace(calibration(best, *shape), worst_residual=worst)


def stage_s(latency_s: float, wire_s: float, sharpness: float) -> float:
    """Return the seconds of a stage of α = `latency_s`, whose bytes take `wire_s`: (α^m + w^m)^(1/m)."""
    longer, shorter = max(latency_s, wire_s), min(latency_s, wire_s)
    # The larger one is taken out: powers of microseconds would vanish.
    return longer * (1 + (shorter / longer) ** sharpness) ** (1 / sharpness) if longer > 0 else 0.0
