"""One calibration of a network of the testbed: what explains its messages, at one rate, and holds at others.

A message takes n stages: 2(P−1) steps round a ring of P ranks, or a push and a pull. In a stage the processes work for
α seconds while the pacer, which has let the last packets pass, makes the connection rest for the w seconds that its
bytes take; the two overlap in part. So a stage takes (α^m + w^m)^(1/m): α + w for m = 1, the longer for large m.

A shaper lets up to `burst_bytes` of a connection pass at once and then makes it rest. In a ring every step waits for
the rest of the one before. With servers the way back begins as soon as the bytes are there, so that a message of one
burst per connection costs the way there only: the two directions rest side by side. Longer messages pass burst by
burst where the kernel paces whole packets, or evenly after the first where a bucket of tokens fills; the fit finds out.
So it does whether the kernel sends a first packet of one segment and then packets of two, as Linux does on loopback.

An all-gather sends a worker's payload in two halves, and P−1 such stages take it round. Where a half is longer than a
burst, the worker that was told first that its peer is ready sends, and its own word that it is ready rests behind what
it sent: its peer begins half a payload later, so that the stage takes one and a half times its bytes.

Not in it is what a message leaves to the next one: gloo's receiver says that it is ready on the connection on which it
has just sent, behind the rest that the pacer makes it take. With servers a small message after a large one so takes up
to half of the large one's time, and many small tensors between large ones take longer than predicted. The servers of
training have receives waiting all the time, and `served_step` follows the rests from message to message.
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
from wirebound.testbed.speed import set_rate
from wirebound.testbed.trains import Train, time_trains

#: Messages of all kinds of tensors. No powers of two: these fill a pacer's packets to the last byte.
SIZES = (64, 1000, 3000, 6000, 12000, 24000, 48000, 96000, 200000, 400000, 800000, 2000000)
_ROUNDS = 5
#: Bursts that are tried: from a packet on Ethernet to four of the largest that loopback has.
_BURSTS_BYTES = tuple(1448 * 2 ** (step / 8) for step in range(61))


@dataclass(frozen=True, slots=True)
class Calibration:
    """What one rate's times tell of the links between `ranks` workers, and `servers` where there are any.

    With `gathers` messages are gathered from all by all; then a share above 1 is the burst that nobody waits for.

    `latency_s` is α in seconds, `share` the part of the nominal rate that messages reach, `sharpness` m, and
    `burst_bytes` is 0 for all-reduces; with `whole_bursts` they pass one by one, after the first so many at a time as
    `later_bursts` says. `sizes` are in bytes, `median_s` their times in seconds, `worst_residual` how far the worst of
    them is from the fit.
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
            return lambda size: _served_s(self, size, bandwidth)
        return lambda size: _ring_s(size, self.ranks, bandwidth, self.latency_s, self.sharpness)


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
        latency_s, share, sharpness = math.exp(parameters[0]), float(parameters[1]), float(parameters[2])
        explained = latency_s, share, sharpness, burst, whole, servers, gathers, tuple(sizes), tuple(measured)
        return Calibration(ranks, rate_Bps, *explained, later_bursts=later)

    def residuals(parameters: Any, burst: float, whole: bool, later: int) -> list[float]:
        cost = calibration(parameters, burst, whole, later).cost(rate_Bps)
        return [math.log(cost(size) / seconds) for size, seconds in zip(sizes, measured, strict=True)]

    start, largest_share = [math.log(min(measured) / stages), 0.98, 1.5], 2.0 if gathers else 1.0
    bounds = ([-16.0, 0.5, 1.0], [0.0, largest_share, 8.0])
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


def _ring_s(size: float, ranks: int, bandwidth: float, latency_s: float, sharpness: float) -> float:
    return 2 * (ranks - 1) * stage_s(latency_s, size / (ranks * bandwidth), sharpness)


def _served_s(calibration: Calibration, size: float, bandwidth: float) -> float:
    # A connection has its share of the busier of the two links, a worker's or a server's.
    share, rate = size / calibration.servers, bandwidth / max(calibration.ranks, calibration.servers)
    burst = calibration.burst_bytes
    # The last of whole bursts arrives when it departs: when those before it have rested.
    whole = burst > 0 and calibration.whole_bursts
    ahead = share - burst
    if whole:
        later = calibration.later_bursts * burst
        ahead = burst + later * (math.ceil((share - burst) / later) - 1) if share > burst else 0.0
    return stage_s(2 * calibration.latency_s, max(share, 2 * ahead) / rate, calibration.sharpness)
