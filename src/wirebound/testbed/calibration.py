"""One calibration of a network of the testbed: the link that explains its all-reduces, at one rate."""

from collections.abc import Sequence
from dataclasses import dataclass

from wirebound.errors import InputError
from wirebound.fit.communication import fit_communication, link_parameters
from wirebound.model import Link
from wirebound.profile.collectives import COLLECTIVE
from wirebound.testbed.ranks import GlooRanks
from wirebound.testbed.speed import set_rate, time_allreduces

#: Messages of all kinds of tensors; closer to each other where the bandwidth alone decides.
SIZES = (1024, 4096, 16384, 65536, 262144, 524288, 1048576, 2097152)
#: What is timed together moves about as much as the largest message.
_BYTES_IN_A_ROW = 2**20


@dataclass(frozen=True, slots=True)
class Calibration:
    """A link's latency in seconds, and the share of its nominal rate that it reaches, as one rate's times tell.

    `median_s` are the times of `SIZES` in seconds; `worst_residual` how far the worst of them is from the fit.
    """

    ranks: int
    rate_Bps: float  # noqa: N815 - the unit is bytes per second
    latency_s: float
    share: float
    median_s: tuple[float, ...]
    worst_residual: float

    def link(self, rate_Bps: float) -> Link:
        """Return the link at another rate, where only the bandwidth is another."""
        return Link(bandwidth=rate_Bps * self.share, latency_s=self.latency_s)


def calibrate(
    ranks: GlooRanks, rate_Bps: float, *, repetitions: int = 8, budget_s: float = 6.0, sizes: Sequence[int] = SIZES
) -> Calibration:
    """Time all-reduces of `sizes` bytes at `rate_Bps` bytes per second and fit the link of a ring to them.

    Raises `InputError` where the link's rate is not limited, and `WireboundError` when a process fails.
    """
    if not ranks.network.limits_rate:
        raise InputError(f"the tier {ranks.network.tier} cannot limit the rate: choose another for predictions")
    set_rate(ranks, rate_Bps)
    times = time_allreduces(ranks, sizes, repetitions=repetitions, budget_s=budget_s, bytes_in_a_row=_BYTES_IN_A_ROW)
    fitted = fit_communication(
        [float(size.size) for size in times for _ in size.times_s], [time for size in times for time in size.times_s]
    )
    link = link_parameters(fitted, COLLECTIVE, ranks.network.ranks)
    return Calibration(
        ranks.network.ranks,
        rate_Bps,
        link.latency_s,
        link.bandwidth / rate_Bps,
        tuple(size.median_s for size in times),
        max(abs(residual) for residual in fitted.relative_residuals),
    )
