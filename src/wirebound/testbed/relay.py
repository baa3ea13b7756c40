"""The tier that delays and loses packets as well: a small program carries every packet between the ranks."""

import json
from dataclasses import asdict

from wirebound.errors import WireboundError
from wirebound.profile.schema import Scalar
from wirebound.testbed.detect import Availability, namespaces_available
from wirebound.testbed.namespaces import NamedNamespaces, NamespaceNetwork, UserNamespaces
from wirebound.testbed.network import Conditions
from wirebound.testbed.scheduling import run_promptly


class RelayedNetwork(NamespaceNetwork):
    """A TUN device in every rank's namespace; `relay_process` reads what leaves one and writes it to another, later.

    Rate (each direction of each rank), one-way delay and loss are those of whole IP packets. The kernel's ``netem``
    does the same and better, but is often missing. The relay costs processor time for every packet and wakes a little
    late: it comes near a gigabit per second between two ranks, and small messages take longer. Packets queue for at
    most 50 ms. Under the congestion control BBR a loss of 1 % hardly shows: the record says which one is used.
    """

    tier = "relay"
    delays_and_loses = True

    def prepare_hub(self) -> None:
        """Start the relay, which makes the devices; they are moved to the ranks' namespaces afterwards."""
        self._relay = self.start_python(self.prefix("hub"), ["wirebound.testbed.relay_process", str(self.ranks)])
        assert self._relay.stdout is not None
        if self._relay.stdout.readline() != b"ready\n":
            raise WireboundError("the relay could not make its TUN devices")
        run_promptly(self._relay.pid)

    def cable(self, rank: int) -> str:
        """Move the rank's device to its namespace; the relay keeps its end of it."""
        self.ip("hub", f"link set wire{rank} netns {self.reference(f'rank{rank}')}")
        return f"wire{rank}"

    def set_conditions(self, conditions: Conditions) -> None:
        """Tell the relay."""
        super().set_conditions(conditions)
        assert self._relay.stdin is not None
        assert self._relay.stdout is not None
        self._relay.stdin.write(json.dumps(asdict(self.conditions)).encode("ascii") + b"\n")
        self._relay.stdin.flush()
        if self._relay.stdout.readline() != b"set\n":
            raise WireboundError("the relay ended")

    def record(self) -> dict[str, Scalar]:
        """Return what is set; the relay has no bucket."""
        return super().record() | {"burst_bytes": 0}


class UserRelayNetwork(UserNamespaces, RelayedNetwork):
    """The relay between the namespaces of a user."""

    @staticmethod
    def available() -> Availability:
        """Where users may make namespaces and TUN devices, with iproute2."""
        return namespaces_available(as_root=False, with_tun=True)


class RootRelayNetwork(NamedNamespaces, RelayedNetwork):
    """The relay between named namespaces."""

    @staticmethod
    def available() -> Availability:
        """As root, with iproute2 and TUN devices."""
        return namespaces_available(as_root=True, with_tun=True)
