"""Steps with parameter servers: rests of connections by hand, the engine's own step without them, real messages."""

import numpy as np
import pytest

from wirebound.model import Cluster, Tensor, Workload
from wirebound.simulate.step import simulate_step
from wirebound.testbed.calibration import SIZES, Calibration, fit_trains
from wirebound.testbed.ranks import gloo_ranks
from wirebound.testbed.served_calibration import calibrate_served
from wirebound.testbed.served_step import Direction, served_step
from wirebound.testbed.tiers import default_tier, open_network
from wirebound.testbed.training_case import training_method
from wirebound.testbed.trains import Train

PACKET, RATE = 1000.0, 1e6
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
    for size in (1, 1000, 1001, 2999, 3001, 12345):
        first, rest = min(size, 1000), max(0, size - 1000)
        packets = [first, *([later * 1000] * (rest // (later * 1000))), rest % (later * 1000)]
        packets = [packet for packet in packets if packet]
        moments = 3.0 + np.cumsum([0.0, *packets]) / RATE
        way = Direction(calibration(later_bursts=later), RATE)
        assert way.passed_s(size, 3.0) == pytest.approx(moments[-2])
        assert way.passed_s(1, 3.0) == pytest.approx(moments[-1])  # the next one finds the connection at rest
        assert way.passed_s(1, 9.0) == 9.0


def test_a_bucket_of_tokens_fills_while_nothing_is_sent():
    way = Direction(calibration(whole_bursts=False), RATE)
    assert way.passed_s(1000, 5.0) == 5.0
    assert way.passed_s(500, 5.0) == pytest.approx(5.0005)
    assert way.passed_s(500, 5.0008) == pytest.approx(5.0010)
    assert way.passed_s(3000, 7.0) == pytest.approx(7.002)


def test_a_small_message_waits_for_the_rest_of_a_large_one():
    """The large one is pushed and pulled in packets of 1000 and 900 bytes: 1 ms each way, and 0.9 ms of rest remain."""
    known = calibration()
    cluster = Cluster(2, known.link(RATE))
    step = served_step(job(1900, 4), cluster, training_method("wfbp-ps"), calibration=known, rate_Bps=RATE)
    large, small = step.messages
    assert (large.start_s, large.end_s) == pytest.approx((0.0, 2e-3))
    assert (small.start_s, small.end_s) == pytest.approx((2e-3, 2.9e-3))
    assert step.iteration_s == pytest.approx(1.0 + 2.9e-3 + 0.5)


def test_rests_last_into_the_next_step():
    workload = Workload("toy", 1, (Tensor("t", 900, 0.0),), forward_s=1e-4)
    known = calibration()
    cluster = Cluster(2, known.link(RATE))
    step = served_step(workload, cluster, training_method("bsp-ps"), calibration=known, rate_Bps=RATE)
    assert step.iteration_s == pytest.approx(0.9e-3)  # one packet passes at once, the next step's when it has rested


@pytest.mark.parametrize("name", ["bsp-ps", "wfbp-ps"])
def test_without_bursts_the_step_is_the_engines(name: str):
    random = np.random.default_rng(3)
    workload = job(*(int(size) for size in random.integers(4, 90_000, 20)), gap_s=0.01)
    plain = calibration(ranks=2, burst_bytes=0.0, whole_bursts=False, latency_s=2e-4, share=0.9)
    method, cluster = training_method(name), Cluster(2, plain.link(RATE))
    found = served_step(workload, cluster, method, calibration=plain, rate_Bps=RATE)
    expected = simulate_step(workload, cluster, method)
    assert found.iteration_s == pytest.approx(expected.iteration_s)
    assert [m.end_s for m in found.messages] == pytest.approx([m.end_s for m in expected.messages])


def test_the_fit_tells_packets_of_two_segments_from_single_ones():
    for later in (1, 2):
        true = Calibration(3, 25e6, 3e-4, 0.98, 4.0, 65536.0, True, 1, later_bursts=later)
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
