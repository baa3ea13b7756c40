"""What every tier of the testbed is: as many endpoints as ranks, links of a chosen speed, processes that run there."""

import contextlib
import math
import os
import shutil
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import wirebound
from wirebound.errors import InputError
from wirebound.profile.schema import Scalar
from wirebound.testbed.detect import Availability, kernel_hz
from wirebound.testbed.interruption import Interruptions
from wirebound.testbed.leftovers import owned_name
from wirebound.units import BYTES_PER_S_PER_GBPS, BYTES_PER_S_PER_MBPS, format_bandwidth

#: Rates beyond these make no sense on one machine: a megabyte takes many seconds, or more than memory moves.
SLOWEST_BPS, FASTEST_BPS = 1.0 * BYTES_PER_S_PER_MBPS, 100.0 * BYTES_PER_S_PER_GBPS


@dataclass(frozen=True, slots=True)
class Conditions:
    """What each link shall be like, in each direction: bytes per second (None: as fast as it goes), seconds, share.

    `delay_s` is one way, `loss` the share of packets that never arrive. Raises `InputError` for values out of range.
    """

    rate_Bps: float | None = None  # noqa: N815 - the unit is bytes per second
    delay_s: float = 0.0
    loss: float = 0.0

    def __post_init__(self) -> None:
        if self.rate_Bps is not None and not SLOWEST_BPS <= self.rate_Bps <= FASTEST_BPS:
            raise InputError(
                f"rate {format_bandwidth(self.rate_Bps)} must be between {format_bandwidth(SLOWEST_BPS)} and"
                f" {format_bandwidth(FASTEST_BPS)}: the links are this machine's own"
            )
        if not (math.isfinite(self.delay_s) and 0 <= self.delay_s <= 10):
            raise InputError(f"delay {self.delay_s:g} s must be between 0 and 10 s")
        if not 0 <= self.loss <= 0.5:
            raise InputError(f"loss {self.loss:g} must be between 0 and 0.5")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where one rank lives: a command runs there behind `prefix`, and reaches the others through `interface`."""

    rank: int
    interface: str
    address: str
    prefix: tuple[str, ...] = ()


class Network(ABC):
    """Endpoints for `ranks` processes, and the links between them. Use `wirebound.testbed.tiers.open_network`.

    A tier is a subclass: it fills `endpoints` in `set_up`, changes links in `set_conditions`, and removes all of it in
    `take_down`, which may be called again after it was cut short.
    """

    tier = ""
    #: Whether links can be slowed down, and whether they can delay and lose packets.
    limits_rate = True
    delays_and_loses = False

    def __init__(self, ranks: int, conditions: Conditions) -> None:
        if not 2 <= ranks <= 64:
            raise InputError(f"ranks = {ranks} must be between 2 and 64: they share one machine")
        self.ranks = ranks
        self.conditions = self._possible(conditions)
        self.interruptions = Interruptions()
        self.endpoints: tuple[Endpoint, ...] = ()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._folder: Path | None = None

    @property
    def folder(self) -> Path:
        """A folder for the files of the processes, which is removed at the end."""
        if self._folder is None:
            raise ValueError("a network has a folder while it is open")
        return self._folder

    def make_folder(self) -> None:
        """Make the folder, under a name by which a later run finds it when this one was killed."""
        with self.interruptions.held():
            self._folder = Path(tempfile.mkdtemp(prefix=owned_name("")))

    def _possible(self, conditions: Conditions) -> Conditions:
        if conditions.rate_Bps is not None and not self.limits_rate:
            raise InputError(f"the tier {self.tier} cannot limit the rate: leave it out, or choose another tier")
        if (conditions.delay_s or conditions.loss) and not self.delays_and_loses:
            raise InputError(f"the tier {self.tier} neither delays nor loses packets: choose the tier relay")
        return conditions

    @staticmethod
    @abstractmethod
    def available() -> Availability:
        """Tell whether this tier works on this machine."""

    @abstractmethod
    def set_up(self) -> None:
        """Make the endpoints and the links."""

    def set_conditions(self, conditions: Conditions) -> None:
        """Change the links; what runs at the endpoints goes on."""
        self.conditions = self._possible(conditions)

    def take_down(self) -> None:
        """End every process that was started here and remove what was made."""
        for process in self._processes:
            if process.poll() is None:
                process.kill()
        for process in self._processes:
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()
        self._processes.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def pace_Bps(self, senders: int = 1) -> float | None:  # noqa: N802 - the unit is bytes per second
        """Return the rate at which a process must pace its own connections, None where the links themselves are slow.

        `senders` connections lead to the same receiver at once (parameter servers): they share its link.
        """
        return None

    def record(self) -> dict[str, Scalar]:
        """Return what was set: tier, rate, burst, MTU and so on; None where it does not apply."""
        return {
            "tier": self.tier,
            "ranks": self.ranks,
            "rate_Bps": self.conditions.rate_Bps,
            "burst_bytes": None,
            "mtu_bytes": None,
            "delay_s": self.conditions.delay_s,
            "loss": self.conditions.loss,
            "kernel_hz": kernel_hz(),
        }

    def start(self, rank: int, arguments: Sequence[str], *, log: Path) -> subprocess.Popen[bytes]:
        """Start the Python module `arguments[0]`, with the rest of them, at `rank`'s endpoint; its errors go to `log`.

        Its standard input and output are pipes, so that it can see this process end, however that happens.
        """
        endpoint = self.endpoints[rank]
        with log.open("wb") as errors:
            return self.start_python(
                endpoint.prefix, arguments, errors=errors.fileno(), GLOO_SOCKET_IFNAME=endpoint.interface
            )

    def start_python(
        self, prefix: Sequence[str], arguments: Sequence[str], *, errors: int = subprocess.DEVNULL, **environment: str
    ) -> subprocess.Popen[bytes]:
        """Start a Python module behind `prefix`, with this very package on its path and these variables set."""
        command = [*prefix, sys.executable, "-m", *arguments]
        return self.start_process(command, environment=_python_environment() | environment, errors=errors)

    def start_process(
        self, command: Sequence[str], *, environment: dict[str, str] | None = None, errors: int = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        """Start a process that `take_down` ends."""
        with self.interruptions.held():
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                start_new_session=os.name == "posix",  # Ctrl-C is for us, who then end it
            )
            self._processes.append(process)
        return process


def _python_environment() -> dict[str, str]:
    environment = dict(os.environ)
    root = str(Path(wirebound.__file__).parents[1])
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [root, environment.get("PYTHONPATH")]))
    return environment
