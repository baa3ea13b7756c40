"""What tests of dying processes share: waiting for what they do, and killing one of several."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import psutil

PATIENCE_S = 240


def wait_until(condition: Callable[[], Any], what: str) -> Any:
    """Return what the condition gives once that is true."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what} did not happen within {PATIENCE_S} s"
        time.sleep(0.05)
    return found


def connections(pid: int) -> int:
    """How many connections a process has."""
    try:
        found = psutil.Process(pid).net_connections("tcp")
    except psutil.Error:
        return 0
    return sum(connection.status == psutil.CONN_ESTABLISHED for connection in found)


def kill_the_second(started: Sequence[Any], said: str) -> None:
    """Kill the second process well into training; the others must end with one line each, which begins with `said`."""
    wait_until(lambda: all(connections(one.process.pid) for one in started), "connecting")
    time.sleep(1)
    started[1].process.kill()
    others = [started[0], *started[2:]]
    wait_until(lambda: all(one.process.poll() is not None for one in others), "the end of the others")
    for one in others:
        assert one.process.returncode == 1
        lines = one.log.read_text(encoding="utf-8").strip().splitlines()
        assert len(lines) == 1, lines
        assert lines[0].startswith(said)
