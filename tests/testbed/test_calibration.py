"""The cost of a message on paced links: the closed form against packets that depart one by one, and the fit back."""

import math

import pytest
import torch

from wirebound.errors import InputError
from wirebound.model import Cluster, Link, Tensor, Workload, method_named
from wirebound.simulate.step import simulate_step
from wirebound.testbed.calibration import Calibration, fit_trains
from wirebound.testbed.trains import Train

RATE = 12.5e6
SIZES = (4, 12, 64, 1000, 6000, 24000, 96000, 400000, 2000000)


def _departures(sizes: list[float], rate: float, start_s: float, free_s: float) -> tuple[float, float]:
    """Packets on one paced connection: each departs at once when the connection is free, which then rests for it."""
    departed_s = start_s
    for size in sizes:
        departed_s = max(departed_s, free_s)
        free_s = departed_s + size / rate
    return departed_s, free_s


def _push_and_pull_s(size: float, workers: int, servers: int, packet: float, latency_s: float) -> float:
    """Seconds per message of many pushes and pulls in a row, packet by packet."""
    share, rate = size / servers, RATE / max(workers, servers)
    packets = [packet] * int(share // packet) + ([share % packet] if share % packet else [])
    now = up_free = down_free = 0.0
    for _ in range(400):
        arrived, up_free = _departures(packets, rate, now, up_free)
        arrived, down_free = _departures(packets, rate, arrived + latency_s, down_free)
        now = arrived + latency_s
    return now / 400


@pytest.mark.parametrize("packet", [4000.0, 65536.0])
@pytest.mark.parametrize("size", [500.0, 20_000.0, 90_000.0, 150_000.0, 1_000_000.0, 3_000_000.0])
def test_servers_cost_what_packets_that_depart_one_by_one_cost(size: float, packet: float):
    latency_s = 1e-6  # where the processes take next to nothing, it does not matter how far the two overlap
    cost = Calibration(4, RATE, latency_s, 1.0, sharpness=8.0, burst_bytes=packet, whole_bursts=True, servers=4).cost(
        RATE
    )
    assert cost(size) == pytest.approx(_push_and_pull_s(size, 4, 4, packet, latency_s), rel=0.02, abs=5e-6)


def _bucket_s(size: float, burst: float, latency_s: float) -> float:
    """The same through buckets of `burst` bytes that fill at the rate of the connection, here the whole link's."""
    now, tokens, seen = 0.0, [burst, burst], [0.0, 0.0]
    half_s = 0.0
    for message in range(4000):
        half_s = now if message == 2000 else half_s  # the full buckets of the beginning are empty by then
        for way in (0, 1):
            held = min(burst, tokens[way] + (now - seen[way]) * RATE)
            wait_s = max(0.0, size - held) / RATE
            seen[way], tokens[way] = now + wait_s, max(0.0, held - size)
            now += wait_s + latency_s
    return (now - half_s) / 2000


@pytest.mark.parametrize("size", [500.0, 20_000.0, 90_000.0, 150_000.0, 1_000_000.0])
def test_servers_cost_what_buckets_of_tokens_let_through(size: float):
    cost = Calibration(1, RATE, 1e-6, 1.0, sharpness=8.0, burst_bytes=65536.0, servers=1).cost(RATE)
    assert cost(size) == pytest.approx(_bucket_s(size, 65536.0, 1e-6), rel=0.02, abs=5e-6)


def test_additive_stages_are_the_alpha_beta_model_of_the_engine():
    calibration = Calibration(4, RATE, 2e-4, 0.9, sharpness=1.0)
    workload = Workload("two", 1, (Tensor("a", 400_000, 0.01), Tensor("b", 40_000, 0.01)), forward_s=0.01)
    for rate in (RATE, 4 * RATE):
        cluster = Cluster(nodes=4, inter=Link(rate * 0.9, 2e-4))
        method = method_named("wfbp-a2a")
        by_engine = simulate_step(workload, cluster, method)
        by_cost = simulate_step(workload, cluster, method, cost=calibration.cost(rate))
        assert by_cost.iteration_s == pytest.approx(by_engine.iteration_s)
        assert by_cost.wire_bytes_per_worker == by_engine.wire_bytes_per_worker


@pytest.mark.parametrize("servers", [0, 3])
def test_the_fit_finds_what_made_the_times_and_other_rates_follow(servers: int):
    true = Calibration(3, RATE, 3e-4, 0.95, 1.6, part_share=0.6)
    if servers:
        true = Calibration(3, RATE, 3e-4, 1.0, 8.0, 65529.0, True, servers, part_share=0.6, packet_s=1e-4)
    times = true.cost(RATE)
    fitted = fit_trains([Train(size, 2, (times(size),) * 3) for size in SIZES], 3, RATE, servers=servers)
    assert fitted.worst_residual < 0.02
    for rate in (RATE / 4, RATE, 5 * RATE):
        for size in SIZES:
            assert fitted.cost(rate)(size) == pytest.approx(true.cost(rate)(size), rel=0.05)
    assert fitted.median_s == tuple(times(size) for size in SIZES)


def _ring_hops(numbers: int, ranks: int) -> int:
    """Segments that a ring of gloo really sends round: it cuts 2P of equal length, the last of which may be empty."""
    length = -(-numbers // (2 * ranks))
    return sum(1 for segment in range(2 * ranks) if segment * length < numbers)


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_a_message_of_few_numbers_has_fewer_parts(ranks: int):
    calibration = Calibration(ranks, RATE, 1e-4, 1.0, part_share=0.5)
    for numbers in range(1, 40):
        missing = 1 - _ring_hops(numbers, ranks) / (2 * ranks)
        assert calibration.latency_of(4 * numbers) == pytest.approx(1e-4 * (1 - 0.5 * missing))
    served = Calibration(ranks, RATE, 1e-4, 1.0, servers=4, part_share=0.5)
    for numbers in range(1, 20):
        used = len(torch.zeros(numbers).chunk(4))  # as workers cut their messages
        assert served.latency_of(4 * numbers) == pytest.approx(1e-4 * (1 - 0.5 * (1 - used / 4)))


def test_a_burst_is_not_taken_for_a_faster_link():
    """One size too fast, as a lone message on an idle link is, leaves the share at most 1."""
    times = Calibration(2, RATE, 1e-4, 1.0, 2.0).cost(RATE)
    trains = [Train(size, 2, (times(size) * (0.9 if size > 300_000 else 1.0),)) for size in SIZES]
    assert fit_trains(trains, 2, RATE).share <= 1.0


def test_a_cost_is_not_negative_and_grows():
    for servers in (0, 4):
        cost = Calibration(4, RATE, 1e-4, 0.97, 1.5, 65536.0, True, servers).cost(RATE)
        costs = [cost(float(size)) for size in range(0, 2_000_000, 10_000)]
        # To four servers a quarter of the link goes, on which an announcement of 48 bytes rests.
        assert costs[0] == pytest.approx(2 * (1e-4 + 48 / (0.97 * RATE / 4)) if servers else 6e-4)
        assert all(math.isfinite(seconds) for seconds in costs)
        assert costs == sorted(costs)


def test_a_cost_of_ones_own_does_not_price_stages():
    workload = Workload("one", 1, (Tensor("a", 400_000, 0.01),), forward_s=0.01)
    with pytest.raises(InputError, match="p3 has stages"):
        simulate_step(workload, Cluster(2, Link(RATE)), method_named("p3"), cost=lambda size: 0.0)


def test_all_gathers_are_fitted_back_with_the_wait_of_long_ones():
    truth = Calibration(3, RATE, 3e-4, 1.05, sharpness=1.5, burst_bytes=64_000.0, gathers=True)
    fitted = fit_trains([Train(size, 1, (truth.cost(RATE)(size),) * 3) for size in SIZES], 3, RATE, gathers=True)
    assert fitted.gathers
    assert fitted.worst_residual < 0.01
    # Between 96,000 and 400,000 bytes a half gets longer than a burst.
    assert 48_000 <= fitted.burst_bytes < 200_000
    for size in SIZES:
        assert fitted.cost(2 * RATE)(size) == pytest.approx(truth.cost(2 * RATE)(size), rel=0.02)
