"""The tiers by name, and the one way to open a network of one."""

from collections.abc import Iterator
from contextlib import contextmanager

from wirebound.errors import InputError, unknown_name
from wirebound.testbed.detect import Availability
from wirebound.testbed.interruption import Interruptions
from wirebound.testbed.leftovers import remove_leftovers
from wirebound.testbed.loopback import LoopbackNetwork, PacedNetwork
from wirebound.testbed.namespaces import RootNamespacesNetwork, UserNamespacesNetwork
from wirebound.testbed.network import Conditions, Network
from wirebound.testbed.relay import RootRelayNetwork, UserRelayNetwork

#: Each tier's networks, the preferred one first. The default tier comes first.
_NETWORKS: dict[str, tuple[type[Network], ...]] = {
    "pacing": (PacedNetwork,),
    "user-namespaces": (UserNamespacesNetwork,),
    "root-namespaces": (RootNamespacesNetwork,),
    "relay": (UserRelayNetwork, RootRelayNetwork),
    "loopback": (LoopbackNetwork,),
}
TIERS = tuple(_NETWORKS)


def tier_available(name: str) -> Availability:
    """Tell whether a tier works on this machine; raises `InputError` with the closest name for an unknown one."""
    if name not in _NETWORKS:
        raise unknown_name("tier", name, TIERS)
    answers = [network.available() for network in _NETWORKS[name]]
    return next((answer for answer in answers if answer.works), answers[0])


def default_tier() -> str:
    """Return the first tier that works here; the last one, loopback, always does."""
    return next(name for name in TIERS if tier_available(name).works)


def usable_tier(name: str) -> str:
    """Return the name of a tier that works here; raises `InputError`, with the remedy, for one that does not."""
    answer = tier_available(name)
    if not answer.works:
        raise InputError(f"the tier {name} does not work here: {answer.reason}: {answer.remedy}")
    return name


def network_of(
    tier: str, ranks: int, *, rate_Bps: float | None = None, delay_s: float = 0.0, loss: float = 0.0
) -> Network:
    """Return a network that is not set up yet; raises `InputError` as `open_network` does."""
    kinds = _NETWORKS[usable_tier(tier)]
    return next(kind for kind in kinds if kind.available().works)(ranks, Conditions(rate_Bps, delay_s, loss))


@contextmanager
def open_network(
    tier: str, ranks: int, *, rate_Bps: float | None = None, delay_s: float = 0.0, loss: float = 0.0
) -> Iterator[Network]:
    """Set up `ranks` endpoints with links as asked for, and take everything down again, whatever happens in between.

    `rate_Bps` is of each link in each direction, in bytes per second; `delay_s` one way, in seconds; `loss` a share of
    packets. What an earlier run left when it was killed is removed first. In the main thread SIGINT and SIGTERM raise
    `KeyboardInterrupt` meanwhile (see `interruption`). Raises `InputError`, in one line with the remedy, for an unknown
    tier, one that does not work here, or one that cannot do what is asked; `WireboundError` when setting up fails.
    """
    network = network_of(tier, ranks, rate_Bps=rate_Bps, delay_s=delay_s, loss=loss)
    with Interruptions() as interruptions:
        network.interruptions = interruptions
        try:
            try:
                remove_leftovers()
                network.make_folder()
                network.set_up()
                yield network
            finally:
                interruptions.closing()
                network.take_down()
        finally:  # once more, for a signal may have come just before the first one
            interruptions.closing()
            network.take_down()
