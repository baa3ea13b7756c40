"""What the options of `testbed run` ask of its links, checked before anything is set up."""

from collections.abc import Iterable

from wirebound.cli.naming import naming
from wirebound.errors import InputError
from wirebound.units import Bounds, format_bandwidth, parse_bandwidth


def require_slow_links(tier: str) -> None:
    """Raise `InputError` for the tier whose links are as fast as they go."""
    if tier == "loopback":
        raise InputError(
            "--tier: loopback cannot limit the rate of its links: choose another; 'wirebound testbed check' tells what"
            " each needs"
        )


def link_rate(text: str) -> float:
    """Return the rate of a link in bytes per second; raises `InputError` for one that no tier can have."""
    from wirebound.testbed.network import FASTEST_BPS, SLOWEST_BPS

    shown = f"between {format_bandwidth(SLOWEST_BPS)} and {format_bandwidth(FASTEST_BPS)}"
    return parse_bandwidth(text, Bounds(SLOWEST_BPS, FASTEST_BPS, shown))


def require_links(tier: str, processes: Iterable[tuple[int, int]], rates_Bps: Iterable[float]) -> None:
    """Raise `InputError`, with the option, where a tier cannot have so many processes or links of such a rate.

    `processes` are numbers of workers, and of parameter servers beside them; rates are in bytes per second.
    """
    from wirebound.testbed.tiers import network_of

    for workers, servers in dict.fromkeys(processes):
        with naming("--ranks"):
            network_of(tier, workers)
            if servers:
                with naming(f"{workers} workers with {servers} parameter servers"):
                    network_of(tier, workers + servers)
    for rate_Bps in dict.fromkeys(rates_Bps):
        with naming("--rates"):
            network_of(tier, 2, rate_Bps=rate_Bps)
