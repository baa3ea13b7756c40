"""Which tiers of the testbed work on this machine, and what does each reach? Asked for and measured."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from wirebound.errors import WireboundError
from wirebound.profile.schema import Scalar
from wirebound.testbed.ranks import gloo_ranks
from wirebound.testbed.speed import set_rate, time_allreduces, utilization
from wirebound.testbed.tiers import open_network, tier_available
from wirebound.units import BYTES_PER_S_PER_MBPS

DEFAULT_RATES_BPS = (100.0 * BYTES_PER_S_PER_MBPS, 1000.0 * BYTES_PER_S_PER_MBPS)
#: The buffer is what a link carries in 0.4 s, within these.
_SMALLEST_BYTES, _LARGEST_BYTES = 64 * 2**10, 4 * 2**20
_BUFFER_S = 0.4
_REPETITIONS = 3
#: No new all-reduce begins after this many seconds at one rate.
_BUDGET_S = 1.5


@dataclass(frozen=True, slots=True)
class Reached:
    """What one rate came to: `median_s` of an all-reduce of `size` bytes, and the share of the link that it used.

    Where no rate was set, there is no share.
    """

    rate_Bps: float | None  # noqa: N815 - the unit is bytes per second
    size: int
    median_s: float
    spread_s: float
    utilization: float | None


@dataclass(frozen=True, slots=True)
class TierReport:
    """One tier: whether it works, why or what to do, its settings at the last rate, and what each rate came to."""

    tier: str
    works: bool
    reason: str
    remedy: str = ""
    record: dict[str, Scalar] = field(default_factory=dict)
    reached: tuple[Reached, ...] = ()


def check_tier(tier: str, *, rates_Bps: Sequence[float] = DEFAULT_RATES_BPS, ranks: int = 2) -> TierReport:
    """Set a tier up with `ranks` gloo processes and time an all-reduce of up to 4 MiB at each rate (bytes per second).

    A tier that does not work here, or fails, is reported, not raised: others may work. Takes 3 to 5 seconds on two
    cores. Raises `InputError` for an unknown tier or an impossible rate.
    """
    answer = tier_available(tier)
    if not answer.works:
        return TierReport(tier, False, answer.reason, answer.remedy)
    reached: list[Reached] = []
    try:
        with open_network(tier, ranks) as network, gloo_ranks(network) as group:
            for rate_Bps in rates_Bps if network.limits_rate else (None,):
                set_rate(group, rate_Bps)
                [times] = time_allreduces(group, [_size(rate_Bps)], repetitions=_REPETITIONS, budget_s=_BUDGET_S)
                share = None if rate_Bps is None else utilization(times, ranks, rate_Bps)
                reached.append(Reached(rate_Bps, times.size, times.median_s, times.spread_s, share))
            record = group.record()
    except WireboundError as error:
        if isinstance(error, ValueError):  # a mistake in what was asked
            raise
        return TierReport(tier, False, f"{answer.reason}, but the run failed: {error}", "choose another tier")
    return TierReport(tier, True, answer.reason, record=record, reached=tuple(reached))


def _size(rate_Bps: float | None) -> int:
    if rate_Bps is None:
        return _LARGEST_BYTES
    return max(_SMALLEST_BYTES, min(_LARGEST_BYTES, round(rate_Bps * _BUFFER_S) // 4 * 4))
