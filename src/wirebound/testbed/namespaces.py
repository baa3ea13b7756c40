"""Tiers of separate network namespaces: one per rank, cabled to a bridge, each direction shaped by ``tc tbf``."""

import itertools
import subprocess
from abc import abstractmethod
from collections.abc import Sequence

from wirebound.errors import WireboundError
from wirebound.profile.schema import Scalar
from wirebound.testbed.detect import USUAL_HZ, Availability, kernel_hz, namespaces_available, tool
from wirebound.testbed.leftovers import owned_name, remove_namespace
from wirebound.testbed.network import Conditions, Endpoint, Network

#: Bytes of the largest packet: large ones halve the processor's share.
MTU = 9000
#: A shaper drops what would wait longer than this, as a switch does.
_QUEUE = "50ms"
_HUB = "hub"


class NamespaceNetwork(Network):
    """Namespaces, one per rank and a hub, and the ways to run a command in one. Its subclasses cable them."""

    @abstractmethod
    def prefix(self, place: str) -> tuple[str, ...]:
        """Return what runs a command in the namespace `place`."""

    @abstractmethod
    def reference(self, place: str) -> str:
        """Return how ``ip`` names the namespace `place`."""

    @abstractmethod
    def make(self, place: str) -> None:
        """Make the namespace `place`; the hub comes first."""

    @abstractmethod
    def cable(self, rank: int) -> str:
        """Connect the namespace of `rank` to the hub; return the name of its interface."""

    def set_up(self) -> None:
        """Make the namespaces, cable them, and give each rank an address."""
        self.make(_HUB)
        self.prepare_hub()
        endpoints = []
        for rank in range(self.ranks):
            place = f"rank{rank}"
            self.make(place)
            interface, address = self.cable(rank), f"10.87.0.{rank + 1}"
            # Without an address of the sixth version, which gloo would have to tell apart.
            self.ip(
                place,
                "link set lo up",
                f"link set {interface} addrgenmode none",
                f"link set {interface} mtu {MTU} up",
                f"addr add {address}/24 dev {interface}",
            )
            endpoints.append(Endpoint(rank, interface, address, self.prefix(place)))
        self.endpoints = tuple(endpoints)
        self.set_conditions(self.conditions)

    def prepare_hub(self) -> None:
        """Make what all cables lead to."""

    def ip(self, place: str, *lines: str) -> None:
        """Carry out commands of ``ip`` in the namespace `place`."""
        self.command(place, [str(tool("ip")), "-batch", "-"], text="\n".join(lines) + "\n")

    def command(self, place: str, command: Sequence[str], text: str = "") -> None:
        """Run a command in the namespace `place`; raises `WireboundError` with what it said when it fails."""
        self.run([*self.prefix(place), *command], text)

    def run(self, command: Sequence[str], text: str = "") -> None:
        """Run a command to its end, also when a signal comes: what it makes must be there before it is taken down."""
        with self.interruptions.held():
            done = subprocess.run(
                command,
                input=text,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
                check=False,
            )
        if done.returncode:
            said = (done.stderr.strip().splitlines() or [f"code {done.returncode}"])[0]
            raise WireboundError(f"the testbed's network could not be set up: {' '.join(command)}: {said}")

    def record(self) -> dict[str, Scalar]:
        """Return what is set, with the packet size."""
        return super().record() | {"mtu_bytes": MTU}


class NamedNamespaces(NamespaceNetwork):
    """Namespaces as ``ip netns`` keeps them: by name, until they are removed. Needs root."""

    _counter = itertools.count()

    def __init__(self, ranks: int, conditions: Conditions) -> None:
        super().__init__(ranks, conditions)
        self._number = next(self._counter)

    def _name(self, place: str) -> str:
        return owned_name(f"n{self._number}{place}")

    def prefix(self, place: str) -> tuple[str, ...]:
        """Return what runs a command there."""
        return (str(tool("ip")), "netns", "exec", self._name(place))

    def reference(self, place: str) -> str:
        """Return its name."""
        return self._name(place)

    def make(self, place: str) -> None:
        """Add the named namespace."""
        self.run([str(tool("ip")), "netns", "add", self._name(place)])

    def take_down(self) -> None:
        """End the processes, then remove every namespace that could have been made; cables vanish with them."""
        super().take_down()
        for place in (_HUB, *(f"rank{rank}" for rank in range(self.ranks))):
            remove_namespace(self._name(place))


class UserNamespaces(NamespaceNetwork):
    """Namespaces that any user may make, each held by a small process: they vanish with it, so nothing is ever left.

    The holder is ``cat``, which ends when this process does, however that happens: its standard input closes.
    """

    def __init__(self, ranks: int, conditions: Conditions) -> None:
        super().__init__(ranks, conditions)
        self._holders: dict[str, int] = {}

    def prefix(self, place: str) -> tuple[str, ...]:
        """Return what runs a command there."""
        target = str(self._holders[place])
        return (str(tool("nsenter")), "--target", target, "--user", "--net", "--preserve-credentials", "--")

    def reference(self, place: str) -> str:
        """Return the number of the process that holds it."""
        return str(self._holders[place])

    def make(self, place: str) -> None:
        """Start the holder, and wait until it is there."""
        unshare = [str(tool("unshare")), "--net"]
        if place == _HUB:
            command = [*unshare, "--user", "--map-root-user", "cat"]
        else:
            command = [*self.prefix(_HUB), *unshare, "cat"]
        holder = self.start_process(command)
        assert holder.stdin is not None
        assert holder.stdout is not None
        try:
            holder.stdin.write(b"ready\n")
            holder.stdin.flush()
            there = holder.stdout.readline() == b"ready\n"  # what it echoes, it echoes from inside
        except OSError:
            there = False
        if not there:
            raise WireboundError("a user namespace could not be made, though a trial of one succeeded")
        self._holders[place] = holder.pid


class BridgedNetwork(NamespaceNetwork):
    """A bridge in the hub, a virtual cable to every rank, and a token bucket at both ends of each cable.

    So what a rank sends and what it receives are limited apart, as on a full-duplex link; where several send to one,
    packets queue at its end of the bridge, and are lost when they would wait longer than 50 ms.
    """

    def prepare_hub(self) -> None:
        """Add the bridge."""
        self.ip(_HUB, "link add name bridge0 type bridge", f"link set bridge0 mtu {MTU} up")

    def cable(self, rank: int) -> str:
        """Add a cable from the bridge to the rank's namespace."""
        port, wire, place = f"port{rank}", f"wire{rank}", self.reference(f"rank{rank}")
        self.ip(
            _HUB,
            f"link add name {port} mtu {MTU} type veth peer name {wire} mtu {MTU} netns {place}",
            f"link set {port} addrgenmode none",
            f"link set {port} master bridge0 up",
        )
        return wire

    def set_conditions(self, conditions: Conditions) -> None:
        """Give both ends of every cable a shaper of the new rate, or none."""
        super().set_conditions(conditions)
        tc = str(tool("tc"))
        for rank in range(self.ranks):
            for place, device in ((_HUB, f"port{rank}"), (f"rank{rank}", f"wire{rank}")):
                if conditions.rate_Bps is None:
                    self.command(place, [tc, "qdisc", "replace", "dev", device, "root", "pfifo"])
                else:
                    bits, burst = f"{conditions.rate_Bps * 8:.0f}bit", str(burst_bytes(conditions.rate_Bps))
                    shaper = ["tbf", "rate", bits, "burst", burst, "latency", _QUEUE]
                    self.command(place, [tc, "qdisc", "replace", "dev", device, "root", *shaper])

    def record(self) -> dict[str, Scalar]:
        """Return what is set, with the burst of the shapers."""
        rate = self.conditions.rate_Bps
        return super().record() | {"burst_bytes": None if rate is None else burst_bytes(rate)}


def burst_bytes(rate_Bps: float) -> int:
    """Return the bucket of a shaper: what the link carries between two ticks of the kernel's timer.

    A smaller one starves the transport, a larger one lets small messages pass unshaped. Never less than two packets.
    """
    return max(round(rate_Bps / (kernel_hz() or USUAL_HZ)), 2 * (MTU + 100))


class RootNamespacesNetwork(NamedNamespaces, BridgedNetwork):
    """Shaped cables between named namespaces."""

    tier = "root-namespaces"

    @staticmethod
    def available() -> Availability:
        """As root, with iproute2."""
        return namespaces_available(as_root=True)


class UserNamespacesNetwork(UserNamespaces, BridgedNetwork):
    """Shaped cables between the namespaces of a user."""

    tier = "user-namespaces"

    @staticmethod
    def available() -> Availability:
        """Where users may make namespaces, with iproute2."""
        return namespaces_available(as_root=False)
