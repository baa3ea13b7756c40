"""Slow down this process's TCP connections to a chosen rate, without privileges. Linux only."""

import socket
import struct
import sys

from wirebound.errors import WireboundError
from wirebound.profile.counters import open_connections

#: SO_MAX_PACING_RATE of Linux's asm-generic/socket.h; Python's socket module does not name it.
_SO_MAX_PACING_RATE = 47


def pacing_available() -> bool:
    """Tell whether this system can pace sockets."""
    return sys.platform == "linux"


def pace_connections(rate_Bps: float) -> int:
    """Limit what each open TCP connection of this process sends to `rate_Bps` bytes per second; return their number.

    Only connections that exist now are paced, and each on its own: right for a ring, where a rank sends to one peer.
    The kernel keeps the rate (``SO_MAX_PACING_RATE``), so neither delay nor loss is added.
    """
    if not pacing_available():
        raise WireboundError(f"sockets can be paced on Linux only, not on {sys.platform}")
    connections = open_connections()
    for connection in connections:
        with connection:
            connection.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, struct.pack("=Q", int(rate_Bps)))
    return len(connections)
