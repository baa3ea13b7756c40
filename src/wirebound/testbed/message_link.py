"""The link, of a latency and a bandwidth, on which given messages take as long in all as a calibration says."""

from collections.abc import Sequence

from wirebound.model import Link
from wirebound.simulate.collectives import ring_sent_bytes
from wirebound.testbed.calibration import Calibration


def message_link(calibration: Calibration, sizes: Sequence[float], rate_Bps: float) -> Link:
    """Return the link for all-reduces of these `sizes` (bytes) at a rate (bytes per second).

    Small messages cost a latency, which large ones hide behind the pacing of their bytes (see `calibration`): what is
    over the time of the bytes is shared out evenly.
    """
    bandwidth, ranks, cost = rate_Bps * calibration.share, calibration.ranks, calibration.cost(rate_Bps)
    over_s = sum(cost(size) - ring_sent_bytes(size, ranks) / bandwidth for size in sizes) / len(sizes)
    return Link(bandwidth, max(0.0, over_s / (2 * (ranks - 1))))
