"""The link, of a latency and a bandwidth, on which given messages take as long in all as a calibration says."""

from collections.abc import Sequence

from wirebound.model import Link
from wirebound.simulate.collectives import ring_sent_bytes
from wirebound.testbed.calibration import Calibration, stage_s


def message_link(calibration: Calibration, sizes: Sequence[float], rate_Bps: float) -> Link:
    """Return the link for messages of these `sizes` (bytes of each worker) at a rate (bytes per second).

    They are all-reduced, or gathered where the calibration is of all-gathers. Small messages cost a latency, which
    large ones hide behind the pacing of their bytes (see `calibration`): what is over the time of the bytes is shared
    out evenly.
    """
    bandwidth, ranks, cost = rate_Bps * calibration.share, calibration.ranks, calibration.cost(rate_Bps)
    if calibration.gathers:
        # What halves wait for each other counts as bytes: it is as long as they are.
        bandwidth *= sum(sizes) / sum(calibration.gathered_bytes(size) for size in sizes)
        stages, bytes_s = ranks - 1, (ranks - 1) * sum(sizes) / bandwidth
    else:
        stages, bytes_s = 2 * (ranks - 1), sum(ring_sent_bytes(size, ranks) for size in sizes) / bandwidth
    over_s = (sum(cost(size) for size in sizes) - bytes_s) / len(sizes)
    return Link(bandwidth, max(0.0, over_s / stages))


def stage_link(calibration: Calibration, sizes: Sequence[float], rate_Bps: float) -> Link:
    """Return the link on which messages of these `sizes` (bytes) are pushed one after the other, and pulled likewise.

    While one message is pushed others are pulled, so each way is busy by itself. As in `message_link`, what a stage
    takes over the time of its bytes is shared out evenly: large messages hide their latency.
    """
    bandwidth = rate_Bps * calibration.share
    senders = max(calibration.ranks / calibration.servers, 1.0)
    bytes_s = [senders * size / bandwidth for size in sizes]
    over_s = [stage_s(calibration.latency_s, seconds, calibration.sharpness) - seconds for seconds in bytes_s]
    return Link(bandwidth, sum(over_s) / len(over_s))
