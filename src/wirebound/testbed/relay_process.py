"""Carry IP packets between TUN devices, late and with losses: `python -m wirebound.testbed.relay_process RANKS`.

Started by `wirebound.testbed.relay` in the namespace where it makes the devices ``wire0``, ``wire1`` … Each line of
standard input sets the conditions (JSON: rate_Bps, delay_s, loss); it ends when standard input closes.
"""

import contextlib
import fcntl
import heapq
import json
import os
import random
import select
import struct
import sys
import time
from typing import Any

_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
#: What would wait longer than this for its turn is dropped, as a switch does, in seconds.
QUEUE_S = 0.05
#: Packets taken from one device before the others have their turn.
_BATCH = 16


def open_tun(name: str) -> int:
    """Make the TUN device `name` in this network namespace; return its file descriptor, which does not block."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", name.encode("ascii"), _IFF_TUN | _IFF_NO_PI))
    return device


class Relay:
    """When each packet arrives: links are busy one packet at a time in each direction, then the delay passes."""

    def __init__(self, ranks: int, seed: int = 0) -> None:
        self.rate_Bps: float | None = None
        self.delay_s = 0.0
        self.loss = 0.0
        self._draw = random.Random(seed)
        self._sends_until = [0.0] * ranks
        self._receives_until = [0.0] * ranks

    def arrival_s(self, source: int, destination: int, size: int, now: float) -> float | None:
        """Return when a packet of `size` bytes that leaves at `now` arrives, None where it is lost. Seconds."""
        if self.loss and self._draw.random() < self.loss:
            return None
        if self.rate_Bps is None:
            return now + self.delay_s
        start = max(now, self._sends_until[source])
        end = max(start, self._receives_until[destination]) + size / self.rate_Bps
        if end - now > QUEUE_S + size / self.rate_Bps:
            return None
        self._sends_until[source] = start + size / self.rate_Bps
        self._receives_until[destination] = end
        return end + self.delay_s


def carry(relay: Relay, devices: list[int]) -> None:
    """Move packets until standard input closes. The last byte of a rank's address is its number plus one."""
    under_way: list[tuple[float, int, int, bytes]] = []
    count, orders = 0, b""
    while True:
        now = time.monotonic()
        while under_way and under_way[0][0] <= now:
            _, _, destination, packet = heapq.heappop(under_way)
            with contextlib.suppress(OSError):  # a full or vanished device loses it
                os.write(devices[destination], packet)
        wait = max(under_way[0][0] - now, 0.0) if under_way else None
        for ready in select.select([0, *devices], [], [], wait)[0]:
            if ready == 0:
                received = os.read(0, 65536)
                if not received:
                    return
                *lines, orders = (orders + received).split(b"\n")
                for line in lines:
                    _obey(relay, json.loads(line))
                continue
            source = devices.index(ready)
            for _ in range(_BATCH):
                try:
                    packet = os.read(ready, 65536)
                except OSError:
                    break
                destination = packet[19] - 1 if len(packet) >= 20 and packet[0] >> 4 == 4 else -1
                if not 0 <= destination < len(devices):
                    continue
                due = relay.arrival_s(source, destination, len(packet), time.monotonic())
                if due is not None:
                    count += 1
                    heapq.heappush(under_way, (due, count, destination, packet))


def _obey(relay: Relay, order: dict[str, Any]) -> None:
    relay.rate_Bps, relay.delay_s, relay.loss = order["rate_Bps"], order["delay_s"], order["loss"]
    print("set", flush=True)


def main(arguments: list[str]) -> int:
    """Make the devices, say ``ready``, and carry; returns the exit code."""
    ranks = int(arguments[0])
    devices = [open_tun(f"wire{rank}") for rank in range(ranks)]
    print("ready", flush=True)
    carry(Relay(ranks), devices)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
