"""Predictions are written before the measurement, and the replay really sends what was planned, in that order."""

import hashlib
import itertools
import json
import threading
from pathlib import Path

import pytest
import torch

from wirebound.cli import main as cli
from wirebound.errors import InputError
from wirebound.model import Tensor, Workload, method_named
from wirebound.simulate.messages import planned_messages
from wirebound.testbed.calibration import Calibration
from wirebound.testbed.exchange import push_and_pull, serve
from wirebound.testbed.loopback import INTERFACE
from wirebound.testbed.order_channel import OrderReader, OrderWriter
from wirebound.testbed.ordering import pairs_in_order
from wirebound.testbed.ranks import gloo_ranks
from wirebound.testbed.replay import Sender
from wirebound.testbed.run import Case, ReplayRun, predict_case, replay_order, run_replay
from wirebound.testbed.scaling import scaled_method, scaled_workload
from wirebound.testbed.tiers import default_tier, open_network
from wirebound.testbed.worker import gloo_group

MBPS = 125_000.0
#: Backward ends after 60 ms; at 100 Mbit/s two ranks exchange the gradients in 48 ms.
JOB = Workload(
    "toy",
    1,
    tuple(Tensor(f"t{index}", size, 0.015) for index, size in enumerate((200_000, 100_000, 100_000, 200_000))),
    forward_s=0.02,
    optimizer_s=0.005,
)
METHODS = [
    method_named("bsp-a2a"),
    method_named("wfbp-a2a"),
    method_named("bytescheduler-a2a", partition_bytes=50_000, credit_bytes=100_000),
    method_named("wfbp-ps", servers=1),
]
needs_rates = pytest.mark.skipif(default_tier() == "loopback", reason="no tier of this system limits the rate")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[ReplayRun, Path]:
    out = tmp_path_factory.mktemp("replay") / "run"
    rates = (100 * MBPS, 50 * MBPS)
    wishes = {"tier": default_tier(), "ranks": [2], "rates_Bps": rates, "methods": METHODS}
    return run_replay(JOB, **wishes, out=out, steps=4, calibration_rounds=2), out


@needs_rates
def test_predictions_are_written_before_the_workers_start(done: tuple[ReplayRun, Path]):
    run, out = done
    results = json.loads((out / "results.json").read_text(encoding="utf-8"))
    file = out / "predictions.json"
    assert results["predictions_sha256"] == hashlib.sha256(file.read_bytes()).hexdigest() == run.predictions_sha256
    assert results["predictions_written_unix_s"] == file.stat().st_mtime < results["workers_started_unix_s"]
    predictions = json.loads(file.read_text(encoding="utf-8"))["predictions"]
    keys = ("ranks", "rate_Bps", "method")
    assert [[case[key] for key in keys] for case in predictions] == [
        [case[key] for key in keys] for case in results["cases"]
    ]
    assert [case["iteration_s"] for case in predictions] == [case["predicted_s"] for case in results["cases"]]


@needs_rates
def test_the_predictions_are_the_engines_from_one_calibration(done: tuple[ReplayRun, Path]):
    run, _ = done
    calibration, with_servers = run.calibrations
    assert calibration.rate_Bps == with_servers.rate_Bps == 100 * MBPS
    assert (calibration.servers, with_servers.servers) == (0, 1)
    for measured in run.measured:
        step = predict_case(JOB, measured.case, with_servers if measured.case.servers else calibration)
        assert step.iteration_s == measured.predicted_s
    bsp = next(m for m in run.measured if m.case.method.name == "bsp-a2a" and m.case.rate_Bps == 50 * MBPS)
    # A ring of two: two steps, each of which carries half of the gradients.
    step_s, m = JOB.size / 2 / (50 * MBPS * calibration.share), calibration.sharpness
    expected = JOB.compute_s + 2 * (calibration.latency_s**m + step_s**m) ** (1 / m)
    assert bsp.predicted_s == pytest.approx(expected)


@needs_rates
def test_steps_take_about_as_long_as_bytes_over_rate_say(done: tuple[ReplayRun, Path]):
    run, _ = done
    for measured in run.measured:
        wire_s = JOB.size / measured.case.rate_Bps
        # A wide band, for the machine may be busy with other work; never faster than compute, or than the wire.
        assert measured.measured_s > 0.97 * max(JOB.compute_s, wire_s)
        assert measured.measured_s < 3 * (JOB.compute_s + wire_s)
    slow, fast = (
        next(m for m in run.measured if m.case.method.name == "bsp-a2a" and m.case.rate_Bps == rate * MBPS)
        for rate in (50, 100)
    )
    assert slow.measured_s > fast.measured_s + 0.5 * JOB.size / (100 * MBPS)
    assert run.document["median_error"] == pytest.approx(
        sorted(abs(m.error) for m in run.measured)[3] / 2 + sorted(abs(m.error) for m in run.measured)[4] / 2
    )
    pairs = [
        pairs_in_order([m.predicted_s for m in at_rate], [m.measured_s for m in at_rate])
        for at_rate in (run.measured[:4], run.measured[4:])
    ]
    assert (run.pairs_right, run.pairs) == tuple(map(sum, zip(*pairs, strict=True)))


@needs_rates
def test_messages_start_when_they_are_ready_and_one_at_a_time(done: tuple[ReplayRun, Path]):
    run, _ = done
    for measured in run.measured:
        assert len(measured.messages) == len(measured.planned)
        for planned, (start, end) in zip(measured.planned, measured.messages, strict=True):
            assert start >= planned.ready_s
            assert end > start
        if measured.case.method.schedule != "priority":
            for (_, end), (start, _) in itertools.pairwise(measured.messages):
                assert start >= end - 1e-3  # medians over the steps, so not to the last digit
    assert [len(m.planned) for m in run.measured[:4]] == [1, 4, 12, 4]


@needs_rates
def test_the_most_urgent_partition_overtakes_with_servers_too():
    """The last tensor is needed first: its partition is sent before those of the first tensor that still wait."""
    job = Workload("two", 1, (Tensor("late", 400_000, 0.01), Tensor("soon", 40_000, 0.01)), forward_s=0.01)
    method = method_named("bytescheduler-ps", partition_bytes=40_000, credit_bytes=40_000, servers=1)
    step = predict_case(job, Case(2, 20 * MBPS, method), Calibration(2, 20 * MBPS, 1e-4, 1.0, servers=1))
    planned = planned_messages(job, method)
    with open_network(default_tier(), 3, rate_Bps=20 * MBPS) as network, gloo_ranks(network) as ranks:
        order = replay_order(job, method, planned, 3, network.folder)
        answers = ranks.ask(order | {"pace_Bps": network.pace_Bps(2), "servers": 1})
    assert "messages" not in answers[2]
    for answer in answers[:2]:
        for of_step in answer["messages"]:
            sent = sorted(range(len(planned)), key=lambda index: of_step[index][0])
            assert sent.index(10) < 10  # the partition of "soon", the last to become ready
        # Both push their gradients through the server's link; paced, a pull may run beside the next push.
        period = (answer["backward_began"][-1] - answer["backward_began"][0]) / 3
        assert period > 0.8 * 2 * job.size / (20 * MBPS)
    assert step.messages[-1].tensors == (0,)


def test_servers_return_the_sum_of_all_workers(tmp_path: Path):
    values = [[torch.full((size,), float(10 * worker + size)) for size in (1, 5, 64)] for worker in range(3)]
    groups: dict[int, object] = {}

    def run(rank: int) -> None:
        groups[rank] = group = gloo_group(rank, 5, tmp_path, INTERFACE)
        if rank < 3:
            send = push_and_pull(group, values[rank], 2, times=2)
            for message in (2, 0, 1, 0, 2, 1):
                send(message)
        else:
            serve(group, rank, [torch.empty(size) for size in (1, 5, 64)], 2, (2, 0, 1, 0, 2, 1), times=2)
        group.barrier().wait()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for worker in range(3):
        for index, size in enumerate((1, 5, 64)):
            # The second time everybody pushes the sum of the first.
            assert values[worker][index].tolist() == [3 * (0 + 10 + 20 + 3.0 * size)] * size


def test_a_sender_keeps_the_order_and_tells_failures():
    sent: list[int] = []
    sender = Sender(sent.append, 5)
    for message in (3, 1, 4, 0, 2):
        sender.put(message)
    for message in range(5):
        sender.wait_for(message)
    assert sent == [3, 1, 4, 0, 2]
    assert [sender.began[message] for message in sent] == sorted(sender.began)
    sender.end()
    failing = Sender([].__getitem__, 2)
    failing.put(0)
    with pytest.raises(IndexError):
        failing.wait_for(1)


def test_the_channel_tells_numbers_in_order(tmp_path: Path):
    told: list[int] = []
    reader = threading.Thread(target=lambda: told.extend(OrderReader(tmp_path, 1)))
    reader.start()
    writer = OrderWriter(tmp_path, 1)
    for number in (5, 0, 70_000):
        writer.tell(number)
    writer.close()
    reader.join()
    assert told == [5, 0, 70_000]


def test_scaled_in_size_and_rate_together_a_step_takes_as_long():
    small = scaled_workload(JOB, 0.01)
    assert small.size == JOB.size // 100
    assert small.compute_s == JOB.compute_s
    for method in METHODS:
        calibration = Calibration(4, MBPS, 0.0, 1.0, servers=method.servers)
        fast = predict_case(JOB, Case(4, 1000 * MBPS, method), calibration)
        slow = predict_case(small, Case(4, 10 * MBPS, scaled_method(method, 0.01)), calibration)
        assert slow.iteration_s == pytest.approx(fast.iteration_s, rel=1e-6)
        assert len(slow.messages) == len(fast.messages)
    assert scaled_method(METHODS[2], 0.01).partition_bytes == 500
    with pytest.raises(InputError, match="scale 2"):
        scaled_workload(JOB, 2)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--methods", "dpp"], "--methods: unknown method 'dpp': did you mean 'ddp'"),
        (["--methods", "p3"], "the method p3 cannot be replayed"),
        (["--ranks", "2,x"], "--ranks: 'x' is not a number of ranks"),
        (["--ranks", "1"], "ranks = 1 must be between 2"),
        (["--rates", "2 Gpbs"], "--rates: bandwidth '2 Gpbs' has the unknown unit"),
        (["--scale", "2"], "--scale 2.0 must be"),
        (["--tier", "loopback"], "cannot limit the rate"),
        (["--tier", "relais"], "did you mean 'relay'"),
        (["--workload", "resnet5"], "did you mean 'resnet50'"),
    ],
)
def test_a_mistake_is_one_line(options: list[str], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        cli(["testbed", "run", "--out", str(tmp_path / "new"), *options])
    captured = capsys.readouterr()
    assert (ended.value.code, captured.out, len(captured.err.splitlines())) == (2, "", 1), captured.err
    assert named in captured.err
    assert not (tmp_path / "new").exists()


def test_what_is_there_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "mine.txt").write_text("x", encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        cli(["testbed", "run", "--out", str(tmp_path)])
    assert ended.value.code == 2
    assert "is there already" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
