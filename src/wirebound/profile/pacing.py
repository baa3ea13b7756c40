"""Slow down this process's TCP connections to a chosen rate, without privileges. Linux only."""

import contextlib
import socket
import struct
import sys

from wirebound.errors import WireboundError
from wirebound.profile.counters import open_connections

#: SO_MAX_PACING_RATE of Linux's asm-generic/socket.h; Python's socket module does not name it.
_SO_MAX_PACING_RATE = 47
#: Every Linux has it, and lets everybody use it unless forbidden.
_LOSS_BASED = b"reno"


def pacing_available() -> bool:
    """Tell whether this system can pace sockets."""
    return sys.platform == "linux"


def pace_connections(rate_Bps: float) -> int:
    """Limit what each open TCP connection of this process sends to `rate_Bps` bytes per second; return their number.

    Only connections that exist now are paced, and each on its own: right for a ring, where a rank sends to one peer.
    The kernel keeps the rate (``SO_MAX_PACING_RATE``), so neither delay nor loss is added; the congestion control
    becomes one that does not pace by itself.
    """
    if not pacing_available():
        raise WireboundError(f"sockets can be paced on Linux only, not on {sys.platform}")
    connections = open_connections()
    for connection in connections:
        with connection:
            connection.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, struct.pack("=Q", int(rate_Bps)))
            _do_not_estimate(connection)
    return len(connections)


def paced_congestion_control() -> str | None:
    """Return the congestion control of connections that are paced here, None where the system does not tell."""
    if not pacing_available():
        return None
    with socket.socket() as connection:
        _do_not_estimate(connection)
        try:
            name = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
        except OSError:
            return None
    return name.split(b"\0")[0].decode("ascii")


def _do_not_estimate(connection: socket.socket) -> None:
    # BBR paces too, at the rate that it believes the link to have: after small messages far below the one chosen.
    with contextlib.suppress(OSError):  # not allowed: the system's own stays
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, _LOSS_BASED)
