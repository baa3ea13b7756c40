"""What this process sends, computes and waits for, read as often as every few milliseconds.

Each counter only grows. Linux tells all of them without privileges; elsewhere psutil tells the bytes of the machine's
network interfaces, and nothing tells how long threads wait for a core.
"""

import contextlib
import os
import socket
import struct
import sys
import time
from abc import ABC, abstractmethod
from pathlib import Path

#: Offset of ``tcpi_bytes_sent`` in Linux's ``struct tcp_info`` (linux/tcp.h, since 4.19), 64 bits.
_BYTES_SENT_OFFSET = 200
#: Connections and threads come and go; looking for new ones costs more than reading the known ones.
_LOOK_AGAIN_AFTER_READINGS = 50


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


class RunQueueDelay:
    """The time that the threads of this process were ready to run but waited for a core (Linux, ``schedstat``).

    The files stay open, for opening one costs ten times as much as reading it. What an ended thread had waited stays
    counted, so the sum never falls.
    """

    def __init__(self) -> None:
        self._files: dict[str, int] = {}
        self._waited_ns: dict[str, int] = {}
        self._ended_ns = 0
        self._readings = 0
        self.available = self.seconds() is not None

    def seconds(self) -> float | None:
        """Return the seconds waited so far by all threads together, None where the system does not tell."""
        if self._readings % _LOOK_AGAIN_AFTER_READINGS == 0:
            self._look()
        self._readings += 1
        for thread, file in list(self._files.items()):
            try:
                self._waited_ns[thread] = int(os.pread(file, 64, 0).split()[1])
            except (OSError, IndexError, ValueError):
                self._forget(thread)
        if not self._files:
            return None
        return (self._ended_ns + sum(self._waited_ns.values())) / 1e9

    def _look(self) -> None:
        try:
            threads = os.listdir("/proc/self/task")
        except OSError:
            return
        for thread in threads:
            if thread not in self._files:
                with contextlib.suppress(OSError):
                    self._files[thread] = os.open(f"/proc/self/task/{thread}/schedstat", os.O_RDONLY)

    def _forget(self, thread: str) -> None:
        os.close(self._files.pop(thread))
        self._ended_ns += self._waited_ns.pop(thread, 0)

    def close(self) -> None:
        """Close the files."""
        for thread in list(self._files):
            self._forget(thread)


def process_cpu_s() -> float:
    """Return the processor time of all threads of this process in seconds, in user and in kernel mode."""
    return time.process_time()
