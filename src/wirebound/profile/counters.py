"""What this process sends, computes and waits for, read as often as every few milliseconds.

Each counter only grows. Linux tells all of them without privileges; elsewhere psutil tells the bytes of the machine's
network interfaces, and nothing tells how long threads wait for a core.
"""

import contextlib
import os
import socket
import struct
import sys
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

#: Offset of ``tcpi_bytes_sent`` in Linux's ``struct tcp_info`` (linux/tcp.h, since 4.19), 64 bits.
_BYTES_SENT_OFFSET = 200
#: Connections and threads come and go; looking for new ones costs more than reading the known ones.
_LOOK_AGAIN_AFTER_READINGS = 10


class LinkCounter(ABC):
    """Counts bytes that were sent."""

    #: What is counted, as a profile names it.
    name: str

    @abstractmethod
    def sent_bytes(self) -> int:
        """Return the bytes sent so far; never less than before."""

    def close(self) -> None:  # noqa: B027 - nothing to give back unless a counter says so
        """Give back what the counter holds."""


class TcpCounter(LinkCounter):
    """All TCP connections of this process that were open when it was made (Linux, ``TCP_INFO``).

    Bytes that were sent again count again: they took the link's time. What other processes send does not count, also
    where all of them share the loopback interface.
    """

    name = "tcp"

    def __init__(self) -> None:
        self._connections = open_connections()
        self._last: dict[int, int] = {}

    @staticmethod
    def available() -> bool:
        """Tell whether this system counts a connection's bytes."""
        if sys.platform != "linux":
            return False
        with socket.socket() as probe:
            try:
                return len(probe.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)) >= _BYTES_SENT_OFFSET + 8
            except OSError:
                return False

    def sent_bytes(self) -> int:
        """Return the bytes that these connections have sent since they were opened."""
        for index, connection in enumerate(self._connections):
            with contextlib.suppress(OSError):
                info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_SENT_OFFSET + 8)
                self._last[index] = struct.unpack_from("=Q", info, _BYTES_SENT_OFFSET)[0]
        return sum(self._last.values())

    def close(self) -> None:
        """Close the counter's own handles; the connections stay open."""
        for connection in self._connections:
            connection.close()


def open_connections() -> list[socket.socket]:
    """Return a handle of its own for each open TCP connection of this process (Linux); the caller closes them."""
    found, seen = [], set()
    for entry in list(Path("/proc/self/fd").iterdir()):
        try:
            target = str(entry.readlink())  # names the socket: a library may hold several handles of one
            if not target.startswith("socket:") or target in seen:
                continue
            seen.add(target)
            connection = socket.socket(fileno=os.dup(int(entry.name)))
        except OSError:
            continue  # closed since the listing
        try:
            if connection.family not in (socket.AF_INET, socket.AF_INET6) or connection.type != socket.SOCK_STREAM:
                raise OSError("not a TCP connection")
            connection.getpeername()  # raises for a listening socket
        except OSError:
            connection.close()
        else:
            found.append(connection)
    return found


class InterfaceCounter(LinkCounter):
    """All network interfaces of the machine but loopback, whoever sends: Linux's statistics, elsewhere psutil."""

    name = "interfaces"

    def __init__(self) -> None:
        self._files = [
            os.open(folder / "statistics" / "tx_bytes", os.O_RDONLY)
            for folder in Path("/sys/class/net").glob("*")
            if folder.name != "lo" and (folder / "statistics" / "tx_bytes").is_file()
        ]

    def sent_bytes(self) -> int:
        """Return the bytes that the interfaces have sent since the machine started."""
        if self._files:
            return sum(int(os.pread(file, 32, 0)) for file in self._files)
        import psutil

        counts = psutil.net_io_counters(pernic=True)
        return sum(count.bytes_sent for name, count in counts.items() if not name.startswith("lo"))

    def close(self) -> None:
        """Close the files of the statistics."""
        for file in self._files:
            os.close(file)


def link_counter() -> LinkCounter | None:
    """Return the best counter of sent bytes that this system has, None where it has none."""
    if TcpCounter.available():
        return TcpCounter()
    try:
        counter = InterfaceCounter()
        counter.sent_bytes()
    except (ImportError, OSError):
        return None
    return counter


@dataclass(frozen=True, slots=True)
class ProcessTimes:
    """Seconds so far of all threads together: on a core, and ready to run but waiting for one (None: not told)."""

    cpu_s: float
    waiting_s: float | None


class ProcessCounter:
    """Times of this process; those of the thread that reads them are left out.

    Linux tells both for each thread: its clock, which is exact also for a thread that runs at this moment (that of the
    whole process lags by a tick), and the second figure of ``schedstat``. Files stay open, for opening one costs ten
    times as much as reading it. What an ended thread had stays counted, so no sum ever falls. Elsewhere there is the
    process's clock alone.
    """

    def __init__(self) -> None:
        self._files: dict[int, int] = {}
        self._cpu_ns: dict[int, int] = {}
        self._waiting_ns: dict[int, int] = {}
        self._ended_cpu_ns = self._ended_waiting_ns = 0
        self._readings = 0

    def read(self) -> ProcessTimes:
        """Return the times so far."""
        if self._readings % _LOOK_AGAIN_AFTER_READINGS == 0:
            self._look()
        self._readings += 1
        if not self._files:
            return ProcessTimes(time.process_time() - time.thread_time(), None)
        reader = threading.get_native_id()
        for thread, file in list(self._files.items()):
            if thread == reader:
                continue
            try:
                self._cpu_ns[thread] = time.clock_gettime_ns(_thread_clock(thread))
                self._waiting_ns[thread] = int(os.pread(file, 64, 0).split()[1])
            except (OSError, IndexError, ValueError):
                self._forget(thread)
        return ProcessTimes(
            (self._ended_cpu_ns + sum(self._cpu_ns.values())) / 1e9,
            (self._ended_waiting_ns + sum(self._waiting_ns.values())) / 1e9,
        )

    def _look(self) -> None:
        try:
            threads = [int(name) for name in os.listdir("/proc/self/task")]
        except OSError:
            return
        for thread in threads:
            if thread not in self._files:
                with contextlib.suppress(OSError):
                    self._files[thread] = os.open(f"/proc/self/task/{thread}/schedstat", os.O_RDONLY)

    def _forget(self, thread: int) -> None:
        os.close(self._files.pop(thread))
        self._ended_cpu_ns += self._cpu_ns.pop(thread, 0)
        self._ended_waiting_ns += self._waiting_ns.pop(thread, 0)

    def close(self) -> None:
        """Close the files."""
        for thread in list(self._files):
            self._forget(thread)


def _thread_clock(thread: int) -> int:
    """The clock of a thread's processor time, as Linux numbers it (CPUCLOCK_SCHED of one thread)."""
    return (~thread << 3) | 6
