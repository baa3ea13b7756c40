"""Tiers on the loopback interface: as fast as it goes, or with every connection paced by its own process."""

import sys

from wirebound.profile.pacing import pacing_available
from wirebound.profile.schema import Scalar
from wirebound.testbed.detect import Availability, interface_mtu
from wirebound.testbed.network import Endpoint, Network

#: The name of the loopback interface, empty where gloo finds it itself.
INTERFACE = {"linux": "lo", "darwin": "lo0"}.get(sys.platform, "")


class LoopbackNetwork(Network):
    """All ranks on loopback, whose speed is the processor's: no network of any chosen speed, and labelled so."""

    tier = "loopback"
    limits_rate = False

    @staticmethod
    def available() -> Availability:
        """Everywhere."""
        return Availability(True, "loopback as it is: no link is slowed down")

    def set_up(self) -> None:
        """Nothing needs to be made."""
        self.endpoints = tuple(Endpoint(rank, INTERFACE, "127.0.0.1") for rank in range(self.ranks))

    def record(self) -> dict[str, Scalar]:
        """Return what is set; the MTU is loopback's own."""
        return super().record() | {"mtu_bytes": interface_mtu(INTERFACE)}


class PacedNetwork(LoopbackNetwork):
    """Loopback, and each process slows its own connections down, with ``SO_MAX_PACING_RATE``.

    Each connection is limited on its own: right for a ring, where a rank sends to one peer. Where several send to one
    receiver they must share its link themselves (see `pace_Bps`). No delay and no loss.

    Pacing spaces packets out, which on loopback have up to 64 KiB: after an idle time the first one passes at once, and
    the connection rests after it. So small messages that alternate in direction, such as pushes and pulls of parameter
    servers, run up to twice as fast as a link would carry them. The shapers of namespaces, whose buckets fill while a
    direction is idle, let even more of them through; the tier relay has no bucket.
    """

    tier = "pacing"
    limits_rate = True

    @staticmethod
    def available() -> Availability:
        """On Linux, without privileges."""
        if pacing_available():
            return Availability(True, "each connection is paced by the kernel (SO_MAX_PACING_RATE)")
        return Availability(False, f"sockets cannot be paced on {sys.platform}", "use Linux, or the tier loopback")

    def pace_Bps(self, senders: int = 1) -> float | None:  # noqa: N802 - the unit is bytes per second
        """Return the rate of one connection, an equal share where `senders` lead to one receiver."""
        rate = self.conditions.rate_Bps
        return None if rate is None else rate / senders
