"""Steps with parameter servers: rests of connections by hand, the engine's own step without them, real messages."""

import numpy as np
import pytest

from wirebound.model import Cluster, Method, Tensor, Workload, method_named
from wirebound.simulate.step import simulate_step
from wirebound.testbed.calibration import SIZES, Calibration, fit_trains
from wirebound.testbed.ranks import gloo_ranks
from wirebound.testbed.served_calibration import calibrate_served
from wirebound.testbed.served_connection import Rests, ServedConnection, Shaper
from wirebound.testbed.served_step import served_step
from wirebound.testbed.tiers import default_tier, open_network
from wirebound.testbed.training_case import training_method
from wirebound.testbed.trains import Train

PACKET, RATE = 10_000.0, 1e7
MBPS = 125_000.0


def calibration(**changes: object) -> Calibration:
    known = {"ranks": 1, "latency_s": 0.0, "share": 1.0, "burst_bytes": PACKET, "whole_bursts": True, "servers": 1}
    return Calibration(rate_Bps=RATE, **known | changes)  # type: ignore[arg-type]


def job(*sizes: int, gap_s: float = 0.0) -> Workload:
    tensors = tuple(Tensor(f"t{i}", size, gap_s) for i, size in enumerate(sizes))
    return Workload("toy", 1, tensors, forward_s=1.0, optimizer_s=0.5)


@pytest.mark.parametrize("later", [1, 2])
def test_packets_pass_one_by_one_and_rest(later: int):
    """A list of the moments at which packets may pass: each waits until the bytes of those before it have rested."""
    way = Shaper(RATE, PACKET, True, later)
    for size in (1, 10_000, 10_001, 29_999, 30_001, 123_450):
        first, rest = min(size, 10_000), max(0, size - 10_000)
        packets = [first, *([later * 10_000] * (rest // (later * 10_000))), rest % (later * 10_000)]
        packets = [packet for packet in packets if packet]
        moments = 3.0 + np.cumsum([0.0, *packets]) / RATE
        passed_s, free_s = way.passed_s(size, 3.0, 2.0)
        assert passed_s == pytest.approx(moments[-2])
        assert way.passed_s(1, 3.0, free_s)[0] == pytest.approx(moments[-1])  # the next one finds it at rest
        assert way.passed_s(1, 9.0, free_s)[0] == 9.0


def test_each_packet_that_waits_costs_a_timer():
    """25,000 bytes are three packets: the second and the third wait, and the next message behind them."""
    way = Shaper(RATE, PACKET, True, packet_s=2e-4)
    passed_s, free_s = way.passed_s(25_000, 1.0, 0.0)
    assert passed_s == pytest.approx(1.0 + 2 * (1e-3 + 2e-4))
    assert free_s == pytest.approx(passed_s + 0.5e-3)


def test_an_announcement_that_rests_longer_than_the_next_write_takes_holds_its_message_up():
    """48 bytes rest for 48 µs at a megabyte per second and for 4.8 at ten; what waits anyway is not held up."""
    slow, fast = (Shaper(rate, 65536.0, True, packet_s=1e-4) for rate in (1e6, 1e7))
    assert slow.passed_s(100, 1.0, 0.0)[0] == pytest.approx(1.0 + 48e-6 + 1e-4)
    assert slow.passed_s(100, 1.0, 1.5)[0] == 1.5
    assert fast.passed_s(100, 1.0, 0.0)[0] == 1.0


def test_a_bucket_of_tokens_fills_while_nothing_is_sent():
    way, free_s = Shaper(RATE, PACKET), 0.0
    for size, now_s, expected_s in (
        (10_000, 5.0, 5.0),
        (5000, 5.0, 5.0005),
        (5000, 5.0008, 5.001),
        (30_000, 7.0, 7.002),
    ):
        passed_s, free_s = way.passed_s(size, now_s, free_s)
        assert passed_s == pytest.approx(expected_s)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("size", [1000.0, 8000.0, 25_000.0, 90_000.0])
def test_many_in_a_row_take_what_each_is_said_to_take(size: float, whole: bool):
    connection = ServedConnection(Shaper(RATE, PACKET, whole, packet_s=1e-4 if whole else 0.0), 2, lambda _: 1e-5)
    ended, rests = [0.0], Rests()
    for _ in range(400):
        end_s, rests = connection.exchanged(size, ended[-1], rests)
        ended.append(end_s)
    assert (ended[400] - ended[200]) / 200 == pytest.approx(connection.repeated_s(size), rel=0.02)


def test_a_small_message_waits_for_the_rest_of_a_large_one():
    """The large one goes in packets of 10,000 and 9,000 bytes: 1 ms each way, and 0.9 ms of rest remain."""
    known = calibration()
    cluster = Cluster(2, known.link(RATE))
    step = served_step(job(19_000, 4), cluster, training_method("wfbp-ps"), calibration=known, rate_Bps=RATE)
    large, small = step.messages
    assert (large.start_s, large.end_s) == pytest.approx((0.0, 2e-3))
    assert (small.start_s, small.end_s) == pytest.approx((2e-3, 2.9e-3))
    assert step.iteration_s == pytest.approx(1.0 + 2.9e-3 + 0.5)


def test_rests_last_into_the_next_step():
    workload = Workload("toy", 1, (Tensor("t", 9000, 0.0),), forward_s=1e-4)
    known = calibration()
    cluster = Cluster(2, known.link(RATE))
    step = served_step(workload, cluster, training_method("bsp-ps"), calibration=known, rate_Bps=RATE)
    assert step.iteration_s == pytest.approx(0.9e-3)  # one packet passes at once, the next step's when it has rested


MERGED = method_named("mg-wfbp", architecture="parameter-server", servers=1)


@pytest.mark.parametrize("method", [training_method("bsp-ps"), training_method("wfbp-ps"), MERGED])
def test_without_bursts_the_step_is_the_engines(method: Method):
    random = np.random.default_rng(3)
    workload = job(*(int(size) for size in random.integers(4, 90_000, 20)), gap_s=0.01)
    plain = calibration(ranks=2, burst_bytes=0.0, whole_bursts=False, latency_s=2e-4, share=0.9)
    cluster = Cluster(2, plain.link(RATE))
    found = served_step(workload, cluster, method, calibration=plain, rate_Bps=RATE)
    expected = simulate_step(workload, cluster, method)
    assert found.iteration_s == pytest.approx(expected.iteration_s)
    assert [m.end_s for m in found.messages] == pytest.approx([m.end_s for m in expected.messages])


def test_the_most_urgent_overtakes_and_pays_for_the_rest_it_finds():
    """Three messages are ready together: the last first, then the other two, each behind the rest of the one before."""
    known = calibration()
    method = method_named("bytescheduler-ps", partition_bytes=9000, credit_bytes=9000, servers=1)
    step = served_step(job(9000, 8000, 7000), Cluster(2, known.link(RATE)), method, calibration=known, rate_Bps=RATE)
    # All become ready at once: what was handed over cannot be overtaken, the rest goes by urgency.
    assert [message.tensors for message in step.messages] == [(2,), (1,), (0,)]
    ends = [message.end_s for message in step.messages]
    assert np.diff(ends) == pytest.approx([0.7e-3, 0.8e-3])


@pytest.mark.parametrize("seed", range(5))
def test_by_priority_every_message_takes_what_the_one_before_leaves(seed: int):
    """Checked message by message: nothing starts early, and each end follows from the rests before it."""
    random = np.random.default_rng(seed)
    workload = job(*(int(size) for size in random.integers(4, 90_000, 30)), gap_s=2e-3)
    known = calibration(latency_s=1e-4, packet_s=5e-5, ranks=2)
    method = method_named("bytescheduler-ps", partition_bytes=20_000, credit_bytes=40_000, servers=1)
    step = served_step(workload, Cluster(2, known.link(RATE)), method, calibration=known, rate_Bps=RATE)
    connection, ends, rests = known.connection(RATE), [], Rests()
    for message in step.messages:
        assert message.start_s >= max([message.ready_s, *ends[-1:]]) - 1e-12
        end_s, rests = connection.exchanged(message.size, message.start_s, rests)
        # The rests of the step before are over before its first message.
        assert message.end_s == pytest.approx(end_s)
        ends.append(message.end_s)
    assert sum(message.size for message in step.messages) == workload.size


def test_the_fit_tells_packets_of_two_segments_from_single_ones():
    for later in (1, 2):
        true = Calibration(3, 25e6, 3e-4, 1.0, 8.0, 65529.0, True, 1, later_bursts=later, packet_s=1e-4)
        cost = true.cost(25e6)
        fitted = fit_trains([Train(size, 2, (cost(size),)) for size in SIZES], 3, 25e6, servers=1)
        assert fitted.later_bursts == later
        for rate in (6.25e6, 125e6):
            assert [fitted.cost(rate)(size) for size in SIZES] == pytest.approx(
                [true.cost(rate)(s) for s in SIZES], rel=0.02
            )


@pytest.mark.skipif(default_tier() == "loopback", reason="no tier of this system limits the rate")
def test_servers_are_timed_with_real_messages():
    rate = 400 * MBPS
    with open_network(default_tier(), 3) as network, gloo_ranks(network) as group:
        found, processor = calibrate_served(group, rate, servers=1, rounds=1)
    assert (found.ranks, found.servers, found.sizes) == (2, 1, SIZES)
    # The server's link carries every byte of both workers, there and back; a packet of each may pass at once.
    assert found.median_s[-1] > 2 * 2 * (SIZES[-1] - 3 * 65536) / rate
    assert found.median_s[0] < found.median_s[-1]
    assert processor.seconds(0) > 0
