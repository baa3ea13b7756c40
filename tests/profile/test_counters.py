"""Counters over time: against bytes and processor time that are known, and their arithmetic in closed form."""

import contextlib
import socket
import sys
import threading
import time

import pytest

from wirebound.errors import InputError, WireboundError
from wirebound.profile import counters, record_utilization, training_counters
from wirebound.profile.collectives import measure_allreduce_counters
from wirebound.profile.counters import InterfaceCounter, ProcessCounter, TcpCounter, link_counter
from wirebound.profile.observations import CounterSeries
from wirebound.profile.pacing import pacing_available
from wirebound.profile.ranks import group_timing, launched_rank, launched_with_ranks, local_device
from wirebound.profile.record_utilization import COLUMNS, load_utilization
from wirebound.profile.sampled_work import sample_work
from wirebound.profile.sampler import Reading, Sampler
from wirebound.profile.schema import write_json
from wirebound.profile.training_counters import measure_training_counters
from wirebound.profile.utilization import (
    series_of,
    usage_between,
    usage_of_communication,
    usage_over_time,
)

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts the bytes of a connection")


@pytest.fixture
def connection():
    """Both ends of a TCP connection, and a thread that reads all that arrives at the second."""
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    server, _ = listener.accept()
    with listener, client, server:
        yield client, server


def received(server, size):
    while size > 0:
        size -= len(server.recv(min(size, 65536)))


@LINUX
def test_a_connection_counts_what_it_sent_once(connection):
    client, server = connection
    # A second handle of the same connection, as libraries hold them, is the same connection.
    with client.dup(), contextlib.closing(TcpCounter()) as counter:
        before = counter.sent_bytes()
        reader = threading.Thread(target=received, args=(server, 3_000_000))
        reader.start()
        client.sendall(bytes(3_000_000))
        reader.join()
        # What was lost and sent again counts again, as it took the link's time; counted twice, all would be double.
        sent = counter.sent_bytes() - before
        assert 3_000_000 <= sent < 4_500_000
        server.sendall(bytes(1000))
        received(client, 1000)
        assert 1000 <= counter.sent_bytes() - before - sent < 1_000_000
    client.sendall(b"still open")


@LINUX
def test_a_connection_that_is_closed_keeps_its_count(connection):
    client, server = connection
    with contextlib.closing(TcpCounter()) as counter:
        client.sendall(bytes(5000))
        received(server, 5000)
        sent = counter.sent_bytes()
        assert sent >= 5000
        client.close()
        assert counter.sent_bytes() >= sent


def test_interfaces_never_count_down(monkeypatch):
    counter = InterfaceCounter()
    first = counter.sent_bytes()
    assert 0 <= first <= counter.sent_bytes()
    counter.close()
    monkeypatch.setattr(TcpCounter, "available", staticmethod(lambda: False))
    other = link_counter()
    assert other.name == "interfaces"
    other.close()

    class Broken:
        def __init__(self):
            raise OSError("no interfaces here")

    monkeypatch.setattr(counters, "InterfaceCounter", Broken)
    assert link_counter() is None


def spin(until):
    while not until.is_set():
        sum(range(1000))


@LINUX
def test_processor_time_is_that_of_all_other_threads():
    ended, times = threading.Event(), ProcessCounter()
    before = times.read()
    worker = threading.Thread(target=spin, args=(ended,))
    worker.start()
    while times.read().cpu_s - before.cpu_s < 0.05:
        time.sleep(0.01)
    ended.set()
    worker.join()
    after = times.read()
    # The thread is gone, and what it took stays counted; the reader's own time is not.
    assert after.cpu_s - before.cpu_s >= 0.05
    own = time.thread_time()
    while time.thread_time() - own < 0.05:
        pass
    last = times.read()
    assert after.cpu_s <= last.cpu_s < after.cpu_s + 0.05
    assert last.waiting_s >= before.waiting_s >= 0
    times.close()


def test_without_threads_to_read_there_is_the_clock_of_the_process(monkeypatch):
    monkeypatch.setattr(counters.os, "listdir", lambda _: (_ for _ in ()).throw(OSError("not Linux")))
    times = ProcessCounter().read()
    assert times.waiting_s is None
    assert times.cpu_s >= 0


def test_a_sampler_reads_in_time_and_again():
    with Sampler(0.005) as sampler:
        for _ in range(2):
            sampler.on()
            time.sleep(0.06)
            sampler.off()
            moments = [reading.moment_s for reading in sampler.readings]
            # Late readings are possible on a busy machine, early ones are not.
            assert 2 <= len(moments) <= 2 + (moments[-1] - moments[0]) / 0.0025
            assert moments == sorted(moments)
            assert moments[-1] - moments[0] >= 0.06
    assert not any(thread.name == "counters" for thread in threading.enumerate())


@pytest.mark.parametrize("interval_s", [0.001, 0.011, -1.0])
def test_an_interval_out_of_range_is_named(interval_s):
    with pytest.raises(InputError, match="2 ms at least, and 10 ms at most"):
        Sampler(interval_s)


SERIES = CounterSeries(
    phase="training",
    rank=0,
    interval_s=0.01,
    time_s=(0.0, 0.01, 0.02, 0.021, 0.04),
    cpu_s=(0.0, 0.01, 0.012, 0.012, 0.02),
    sent_bytes=(0, 0, 1000, 1000, 1380),
    waiting_s=(0.0, 0.0, 0.004, 0.004, 0.004),
    link_counter="tcp",
    rate_Bps=100_000.0,
    communication_start_s=(0.01, 0.035),
    communication_end_s=(0.02, 0.045),
)


def test_usage_over_time_skips_spans_that_are_too_short():
    usages = usage_over_time(SERIES)
    assert [(usage.start_s, usage.end_s) for usage in usages] == [(0.0, 0.01), (0.01, 0.02), (0.02, 0.04)]
    assert [usage.link for usage in usages] == pytest.approx([0.0, 1.0, 0.19])
    assert [usage.cpu for usage in usages] == pytest.approx([1.0, 0.2, 0.4])
    assert [usage.waiting for usage in usages] == pytest.approx([0.0, 0.4, 0.0])
    assert [usage.end_s for usage in usage_over_time(SERIES, 0.02)] == [0.02, 0.04]


def test_usage_between_two_moments_is_linear_between_readings():
    usage = usage_between(SERIES, 0.015, 0.0305)
    # Half of 1000 bytes, and half of 380, in 15.5 ms.
    assert usage.sent_Bps == pytest.approx((500 + 190) / 0.0155)
    assert usage.link == pytest.approx(usage.sent_Bps / 100_000)
    assert usage.cpu == pytest.approx((0.001 + 0.004) / 0.0155)


def test_usage_of_communication_is_over_its_spans_only():
    usage = usage_of_communication(SERIES)
    # 10 ms with 1000 bytes; then 5 of 19 ms with 380 of them: a span that goes on is cut at the last reading.
    assert usage.sent_Bps == pytest.approx((1000 + 100) / 0.015)
    assert usage.waiting == pytest.approx(0.004 / 0.015)
    assert (usage.start_s, usage.end_s) == (0.01, 0.04)
    quiet = CounterSeries("x", 0, 0.01, (0.0, 1.0), (0.0, 0.5))
    assert usage_of_communication(quiet) is None
    [usage] = usage_over_time(quiet)
    assert (usage.cpu, usage.waiting, usage.sent_Bps, usage.link) == (0.5, None, None, None)


def test_a_series_begins_at_zero_and_never_falls():
    readings = [Reading(5.0, 2.0, 100, None), Reading(5.01, 1.999, 90, None), Reading(5.02, 2.01, 300, None)]
    series = series_of(readings, phase="x", rank=1, interval_s=0.01, communication=[(4.0, 5.005), (5.01, 5.02)])
    assert series.time_s == pytest.approx((0.0, 0.01, 0.02))
    assert series.cpu_s == pytest.approx((0.0, 0.0, 0.01))
    assert series.sent_bytes == (0, 0, 200)
    assert series.waiting_s == ()
    assert series.communication_start_s == pytest.approx((0.0, 0.01))
    assert series.communication_end_s == pytest.approx((0.005, 0.02))


def test_work_is_repeated_with_the_counters_on_and_off():
    done, told = [], []

    def work():
        began = time.perf_counter()
        time.sleep(0.004)
        done.append(began)
        return began, time.perf_counter()

    # What rank 0 says: a piece takes 4 ms; go on (four times, before each pair); go on (five times), and stop.
    said = [0.004, *[0.0] * 4, *[0.0] * 5, 1.0]

    def agree(value):
        told.append(value)
        return said[len(told) - 1]

    series = sample_work(work, agree, phase="all-reduce", rank=3, interval_s=0.002, seconds=0.04, pairs=4)
    # Twice to warm up and to learn how long it takes; four pairs, each of 2 pieces (8 ms) with and without; then 5 × 2.
    assert len(done) == 2 + 4 * 2 * 2 + 10
    assert len(told) == len(said)
    assert series.rank == 3
    assert len(series.communication_start_s) == len(series.communication_end_s) == 10
    assert series.overhead.pairs == 4
    assert series.overhead.ratio_low <= series.overhead.ratio <= series.overhead.ratio_high


def test_the_time_of_ranks_without_a_common_timer_is_that_of_the_last_to_come():
    # Rank 1's timer is far off; in the first repetition it comes 0.3 s late, in the second rank 0 does.
    timing = group_timing(64, [[(1.0, 1.5), (2.4, 2.7)], [(901.3, 901.5), (902.1, 902.7)]], "nccl")
    assert timing.times_s == pytest.approx((0.2, 0.3))
    assert (timing.ranks, timing.backend, timing.size) == (2, "nccl", 64)


def test_who_is_one_of_several_ranks(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    assert (launched_with_ranks(), launched_rank(), local_device("cuda")) == (False, 0, "cuda")
    launched = {"RANK": "3", "WORLD_SIZE": "4", "MASTER_ADDR": "a", "MASTER_PORT": "1", "LOCAL_RANK": "1"}
    for name, value in launched.items():
        monkeypatch.setenv(name, value)
    assert (launched_with_ranks(), launched_rank(), local_device("cuda")) == (True, 3, "cuda:1")
    assert local_device("cpu") == "cpu"
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert not launched_with_ranks()
    monkeypatch.setenv("WORLD_SIZE", "many")
    with pytest.raises(InputError, match="WORLD_SIZE is 'many', not a number"):
        launched_with_ranks()


@pytest.mark.skipif(not pacing_available(), reason="sockets can be paced on Linux only")
def test_all_reduces_of_two_processes_send_what_a_ring_sends():
    size, rate_Bps = 2**20, 12.5e6
    timings, found = measure_allreduce_counters(
        2, (1024, size), repetitions=3, rate_Bps=rate_Bps, counters_s=0.005, time_limit_s=120
    )
    assert [timing.size for timing in timings] == [1024, size]
    assert [series.rank for series in found] == [0, 1]
    for series in found:
        assert series.phase == "all-reduce"
        assert series.link_counter == "tcp"
        # Each of two ranks sends half of the vector twice, and a little for headers.
        pieces = len(series.communication_start_s)
        assert 1 <= series.sent_bytes[-1] / (pieces * size) < 1.02
        assert 0 < usage_of_communication(series).link < 1.1
        assert series.overhead.pairs >= 3
    assert measure_allreduce_counters(2, (1024,), repetitions=3)[1] == ()


@pytest.mark.skipif(not pacing_available(), reason="sockets can be paced on Linux only")
def test_a_recorded_training_run_is_read_back(tmp_path, monkeypatch, capsys):
    real = measure_training_counters

    def quick(**options):
        return real(**options | {"batch_size": 2, "seconds": 0.2})

    monkeypatch.setattr(record_utilization, "measure_training_counters", quick)
    assert record_utilization.main(["--out", str(tmp_path), "--rate", "400"]) == 0
    assert "failed" not in capsys.readouterr().err
    found = load_utilization(tmp_path)
    assert [series.rank for series in found] == [0, 1]
    for series in found:
        assert series.rate_Bps == 50e6
        # The gradients of ResNet-20, at every step, and never less.
        assert series.sent_bytes[-1] >= len(series.communication_start_s) * 269_722 * 4
        assert usage_of_communication(series).sent_Bps > usage_between(series, 0, series.time_s[-1]).sent_Bps
    table = (tmp_path / "utilization_samples.csv").read_text(encoding="utf-8").splitlines()
    assert table[0] == ",".join(COLUMNS)
    assert len(table) == 1 + sum(len(series.time_s) for series in found)


def test_recording_refuses_in_one_line(tmp_path, monkeypatch, capsys):
    assert record_utilization.main(["--out", str(tmp_path / "nowhere")]) == 2
    monkeypatch.setattr(training_counters, "pacing_available", lambda: False)
    with pytest.raises(WireboundError, match="Linux only"):
        measure_training_counters(rate_Bps=1e6)
    assert record_utilization.main(["--out", str(tmp_path)]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_a_system_that_counts_little_is_written_all_the_same(tmp_path):
    series = CounterSeries("training", 0, 0.005, (0.0, 0.01), (0.0, 0.002))
    (tmp_path / record_utilization.TABLE).write_text(record_utilization.samples_csv([series]), encoding="utf-8")
    write_json({"series": [record_utilization._record(series)]}, tmp_path / record_utilization.RECORD)
    assert load_utilization(tmp_path) == (series,)
