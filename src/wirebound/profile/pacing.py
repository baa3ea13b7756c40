"""Slow down this process's TCP connections to a chosen rate, without privileges. Linux only."""

import os
import socket
import struct
import sys
from pathlib import Path

from wirebound.errors import WireboundError

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
    paced = 0
    for entry in list(Path("/proc/self/fd").iterdir()):
        try:
            if not str(entry.readlink()).startswith("socket:"):
                continue
            connection = socket.socket(fileno=os.dup(int(entry.name)))
        except OSError:
            continue  # closed since the listing
        with connection:
            if connection.family not in (socket.AF_INET, socket.AF_INET6) or connection.type != socket.SOCK_STREAM:
                continue
            try:
                connection.getpeername()
            except OSError:
                continue  # a listening socket
            connection.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, struct.pack("=Q", int(rate_Bps)))
            paced += 1
    return paced
