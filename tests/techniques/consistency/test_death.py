"""When a process dies, the others end with one line each, and none stays."""

import time

import psutil
import pytest

from wirebound.errors import WireboundError
from wirebound.model.compute_time import ComputeTime
from wirebound.techniques.consistency.plan import Plan
from wirebound.techniques.consistency.run import prepare, run_plans
from wirebound.techniques.launch import started_processes
from wirebound.techniques.learning.data import data_set

PATIENCE_S = 240
ENDLESS = {
    "ssp": Plan("ssp", ComputeTime(0.01), 2, workers=2, steps=10**6),
    "gossip": Plan("gossip", ComputeTime(0.01), neighbours=((1,), (0,)), workers=2, steps=10**6),
}


def connections(pid: int) -> int:
    try:
        found = psutil.Process(pid).net_connections("tcp")
    except psutil.Error:
        return 0
    return sum(connection.status == psutil.CONN_ESTABLISHED for connection in found)


def wait_until(condition, what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {PATIENCE_S} s"
        time.sleep(0.05)


@pytest.mark.parametrize("protocol", list(ENDLESS))
def test_when_a_worker_dies_the_others_end_with_one_line(protocol, tmp_path):
    plan = ENDLESS[protocol]
    with started_processes(prepare([plan], {"digits": data_set("digits")}, tmp_path), tmp_path) as started:
        wait_until(lambda: all(connections(one.process.pid) for one in started), "connecting")
        time.sleep(1)  # well into training
        started[1].process.kill()
        others = [started[0], *started[2:]]
        wait_until(lambda: all(one.process.poll() is not None for one in others), "the end of the others")
        for one in others:
            assert one.process.returncode == 1
            lines = one.log.read_text(encoding="utf-8").strip().splitlines()
            assert len(lines) == 1, lines
            assert lines[0].startswith("WireboundError: lost")


def test_the_time_limit_ends_all_processes():
    with pytest.raises(WireboundError, match=r"did not end within 0\.5 s"):
        run_plans([ENDLESS["ssp"]], time_limit_s=0.5)
    children = psutil.Process().children(recursive=True)
    assert not [one for one in children if "wirebound.techniques.consistency.process" in one.cmdline()]
