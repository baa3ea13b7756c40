"""All-reduce times of real processes, and that none of them is left behind when something goes wrong."""

import json
import socket
import subprocess
import sys
import threading
import time

import psutil
import pytest

from wirebound.errors import InputError, WireboundError
from wirebound.profile import collectives
from wirebound.profile.collectives import allreduce_warnings, measure_allreduce, started_workers
from wirebound.profile.pacing import pace_connections, paced_congestion_control, pacing_available
from wirebound.profile.schema import CollectiveTiming


def children():
    """The workers of this process that still run; other tests may have children of their own."""
    return [
        child
        for child in psutil.Process().children()
        if child.status() != psutil.STATUS_ZOMBIE and any("allreduce_worker" in part for part in child.cmdline())
    ]


def test_two_processes_really_run():
    timings = measure_allreduce(2, (64, 4096), repetitions=5, seed=3)
    assert [timing.size for timing in timings] == [64, 4096]
    for timing in timings:
        assert timing.ranks == 2
        assert timing.collective == "ring-allreduce"
        assert timing.backend == "gloo"
        assert len(timing.times_s) == 5
        assert all(value > 0 for value in timing.times_s)
        assert timing.median_s == pytest.approx(sorted(timing.times_s)[2], abs=1e-9)
    assert not children()


def test_a_repetition_lasts_from_the_last_start_to_the_last_end():
    rank0, rank1 = [(1.0, 1.5), (2.0, 2.7)], [(1.2, 1.4), (2.1, 2.9)]
    timing = collectives._timing(64, [rank0, rank1], None)
    assert timing.times_s == pytest.approx((1.5 - 1.2, 2.9 - 2.1))


def test_a_killed_worker_gives_one_line_and_no_process_stays():
    def kill_one():
        while not (found := children()):
            time.sleep(0.01)
        found[0].kill()

    killer = threading.Thread(target=kill_one)
    killer.start()
    with pytest.raises(WireboundError) as caught:
        measure_allreduce(2, (1024,), repetitions=10**6, budget_s=60)
    killer.join()
    assert "\n" not in str(caught.value)
    assert "was killed" in str(caught.value) or sys.platform == "win32"
    assert not children()


def test_the_time_limit_ends_all_processes():
    with pytest.raises(WireboundError, match=r"did not end within 0\.3 s"):
        measure_allreduce(2, (1024,), repetitions=10**6, budget_s=60, time_limit_s=0.3)
    assert not children()


def test_missing_gloo_is_one_clear_line(monkeypatch):
    monkeypatch.setattr("torch.distributed.is_gloo_available", lambda: False)
    with pytest.raises(WireboundError, match="no gloo backend"):
        measure_allreduce()


def test_a_failing_worker_tells_why(tmp_path):
    orders = {"store": str(tmp_path / "store"), "ranks": 1, "sizes": [-8], "time_limit_s": 20}
    (tmp_path / "orders.json").write_text(json.dumps(orders), encoding="utf-8")
    with pytest.raises(WireboundError) as caught, started_workers(tmp_path, 1) as workers:
        collectives.wait_for_workers(workers, tmp_path, 60)
    assert "rank 0: RuntimeError: " in str(caught.value)
    assert "negative dimension" in str(caught.value)
    assert not children()


def test_a_worker_ends_when_its_parent_is_gone(tmp_path):
    orders = {"store": str(tmp_path / "store"), "ranks": 2, "sizes": [64], "time_limit_s": 60}
    (tmp_path / "orders.json").write_text(json.dumps(orders), encoding="utf-8")
    with started_workers(tmp_path, 1) as workers:  # the second rank never comes
        workers[0].stdin.close()
        assert workers[0].wait(timeout=60) == 3


@pytest.mark.parametrize(
    ("options", "named"),
    [({"ranks": 1}, "ranks"), ({"sizes": (6,)}, "size 6"), ({"sizes": ()}, "size list"), ({"repetitions": 0}, "repet")],
)
def test_wrong_options(options, named):
    with pytest.raises(InputError, match=named):
        measure_allreduce(**options)


def test_wide_spread_is_marked_for_large_messages_only():
    def timing(size, spread_s):
        return CollectiveTiming("ring-allreduce", 2, size, median_s=1e-3, spread_s=spread_s)

    assert allreduce_warnings([timing(1024, 1e-3), timing(2**20, 1e-5)]) == []
    [warning] = allreduce_warnings([timing(2**20, 5e-4), timing(2**21, 1e-5)])
    assert "1 size(s)" in warning
    assert "50%" in warning


@pytest.mark.skipif(not pacing_available(), reason="sockets can be paced on Linux only")
def test_pacing_sets_the_rate_of_connections_and_of_nothing_else():
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    server, _ = listener.accept()
    with listener, client, server:
        before = listener.getsockopt(socket.SOL_SOCKET, 47, 8)
        assert pace_connections(12.5e6) >= 2
        for connection in (client, server):
            assert int.from_bytes(connection.getsockopt(socket.SOL_SOCKET, 47, 8), sys.byteorder) == 12_500_000
            used = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()
            assert used == paced_congestion_control() != "bbr"  # which paces at a rate of its own
        assert listener.getsockopt(socket.SOL_SOCKET, 47, 8) == before


def test_a_worker_imports_without_torch_until_it_measures():
    code = "import sys, wirebound.profile.allreduce_worker; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
