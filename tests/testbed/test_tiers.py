"""Every tier that works here really slows links down: measured with gloo, and checked against the bytes of a ring."""

import math
import subprocess
import sys

import pytest

from wirebound.errors import InputError, WireboundError
from wirebound.testbed import detect
from wirebound.testbed.detect import interface_mtu, kernel_hz, tool
from wirebound.testbed.namespaces import MTU, burst_bytes
from wirebound.testbed.network import Conditions, Network
from wirebound.testbed.ranks import gloo_ranks
from wirebound.testbed.relay_process import Relay
from wirebound.testbed.speed import set_rate, time_allreduces, utilization
from wirebound.testbed.tiers import TIERS, default_tier, open_network, tier_available

MBPS = 125_000.0
SLOW_TIERS = ["pacing", "user-namespaces", "root-namespaces", "relay"]


@pytest.mark.parametrize("working_tier", SLOW_TIERS, indirect=True)
def test_a_link_carries_what_was_asked_for_and_not_more(working_tier: str):
    size = 2**20
    count = 3 if working_tier == "pacing" else 2
    with open_network(working_tier, count, rate_Bps=100 * MBPS) as network, gloo_ranks(network) as ranks:
        [at_100] = time_allreduces(ranks, [size], repetitions=3)
        set_rate(ranks, 50 * MBPS)
        [at_50] = time_allreduces(ranks, [size], repetitions=3)
        record = ranks.record()
        if network.delays_and_loses:
            network.set_conditions(Conditions(None, delay_s=0.02))
            [late] = time_allreduces(ranks, [1024], repetitions=3)
            # Reduce-scatter, then all-gather: two messages one after the other.
            assert min(late.times_s) > 2 * 0.02 * 0.98
    # Each rank of a ring sends 2(P−1)/P of the buffer; a shaper's bucket lets a little pass above the rate.
    wire = 2 * (count - 1) / count * size
    assert utilization(at_100, count, 100 * MBPS) == pytest.approx(wire / (100 * MBPS) / at_100.median_s)
    assert 0.55 < wire / (100 * MBPS) / at_100.median_s < 1.10
    assert 0.55 < wire / (50 * MBPS) / at_50.median_s < 1.10
    assert at_50.median_s > 1.4 * at_100.median_s
    assert record["tier"] == working_tier
    assert record["rate_Bps"] == 50 * MBPS
    assert record["gloo_threads"] == 1
    assert isinstance(record["congestion_control"], str)


def test_loopback_is_labelled_and_makes_no_pretence():
    with pytest.raises(InputError, match="cannot limit the rate"), open_network("loopback", 2, rate_Bps=MBPS):
        pass
    with open_network("loopback", 2) as network:
        assert network.record()["rate_Bps"] is None
        assert network.record()["tier"] == "loopback"


@pytest.mark.parametrize("working_tier", ["user-namespaces", "root-namespaces"], indirect=True)
def test_a_namespace_has_its_own_link_with_the_shaper_that_is_recorded(working_tier: str):
    with open_network(working_tier, 2, rate_Bps=100 * MBPS) as network:
        endpoint = network.endpoints[1]
        said = subprocess.run(
            [*endpoint.prefix, tool("tc"), "qdisc", "show", "dev", endpoint.interface], capture_output=True, text=True
        ).stdout
        assert "tbf" in said
        assert "rate 100Mbit" in said
        assert f"burst {network.record()['burst_bytes']}b" in said
        link = subprocess.run([*endpoint.prefix, tool("ip"), "-o", "link"], capture_output=True, text=True).stdout
        assert f"mtu {MTU}" in link
        assert network.record()["mtu_bytes"] == MTU
        set_back = Conditions(None)
        network.set_conditions(set_back)
        said = subprocess.run([*endpoint.prefix, tool("tc"), "qdisc", "show"], capture_output=True, text=True).stdout
        assert "tbf" not in said


def test_the_bucket_holds_one_tick_and_never_less_than_two_packets(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("wirebound.testbed.namespaces.kernel_hz", lambda: 250)
    assert burst_bytes(100 * MBPS) == 50_000
    assert burst_bytes(1000 * MBPS) == 500_000
    assert burst_bytes(10 * MBPS) >= 2 * MTU
    monkeypatch.setattr("wirebound.testbed.namespaces.kernel_hz", lambda: None)
    assert burst_bytes(100 * MBPS) == 50_000
    assert kernel_hz() is None or 24 <= kernel_hz() <= 10_000
    assert interface_mtu("no such interface") is None


def test_relay_arrivals_follow_rate_delay_and_queue():
    relay = Relay(3)
    relay.rate_Bps, relay.delay_s = 1e6, 0.01
    assert relay.arrival_s(0, 1, 1000, 5.0) == pytest.approx(5.0 + 0.001 + 0.01)
    assert relay.arrival_s(0, 2, 1000, 5.0) == pytest.approx(5.0 + 0.002 + 0.01)  # the sender's link is taken
    assert relay.arrival_s(2, 1, 1000, 5.0) == pytest.approx(5.0 + 0.002 + 0.01)  # and so is the receiver's
    assert relay.arrival_s(1, 0, 1000, 5.0) == pytest.approx(5.0 + 0.001 + 0.01)  # the other direction is free
    arrivals = [relay.arrival_s(0, 1, 1000, 6.0) for _ in range(100)]
    assert len([at for at in arrivals if at is not None]) in (50, 51)  # those that wait at most 50 ms
    relay.rate_Bps, relay.loss = None, 0.25
    lost = sum(relay.arrival_s(0, 1, 1000, 7.0) is None for _ in range(4000)) / 4000
    assert abs(lost - 0.25) < 5 * math.sqrt(0.25 * 0.75 / 4000)


@pytest.mark.parametrize(
    ("tier", "options", "named"),
    [
        ("paceing", {}, "did you mean 'pacing'"),
        ("pacing", {"ranks": 1}, "ranks = 1"),
        ("pacing", {"rate_Bps": 10.0}, "rate 80 bps must be between 1 Mbps"),
        ("pacing", {"rate_Bps": math.nan}, "rate nan"),
        ("pacing", {"delay_s": 0.1}, "choose the tier relay"),
        ("relay", {"loss": 0.9}, "loss 0.9"),
        ("relay", {"delay_s": -1}, "delay -1 s"),
    ],
)
def test_wrong_wishes_are_refused_in_one_line(tier: str, options: dict[str, float], named: str):
    if tier in TIERS and not tier_available(tier).works:
        pytest.skip(tier_available(tier).reason)
    wish = {"ranks": 2} | options
    with pytest.raises(InputError, match=named) as caught, open_network(tier, **wish):
        pass
    assert "\n" not in str(caught.value)


def test_a_tier_that_does_not_work_says_why_and_what_to_do(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    detect.namespaces_available.cache_clear()
    try:
        assert [name for name in TIERS if tier_available(name).works] == ["loopback"]
        assert default_tier() == "loopback"
        with pytest.raises(InputError, match=r"relay does not work here: .*: use Linux"), open_network("relay", 2):
            pass
    finally:
        detect.namespaces_available.cache_clear()


def test_a_missing_program_names_the_package(monkeypatch: pytest.MonkeyPatch):
    detect.namespaces_available.cache_clear()
    monkeypatch.setattr(detect, "tool", lambda name: None if name in ("ip", "tc") else f"/bin/{name}")
    try:
        answer = detect.namespaces_available(as_root=False)
    finally:
        detect.namespaces_available.cache_clear()
    if answer.reason.startswith("the program"):
        assert answer.remedy == "install iproute2"
    else:
        assert "no network namespaces" in answer.reason


def test_a_killed_rank_is_named():
    tier = default_tier()
    with open_network(tier, 2) as network, gloo_ranks(network) as ranks:
        ranks._processes[1].kill()
        with pytest.raises(WireboundError, match="rank 1 was killed") as caught:
            time_allreduces(ranks, [2**20], repetitions=1000)
    assert "\n" not in str(caught.value)


def test_a_failing_set_up_is_taken_down(monkeypatch: pytest.MonkeyPatch):
    taken = []
    monkeypatch.setattr(Network, "make_folder", lambda self: (_ for _ in ()).throw(WireboundError("no folder")))
    monkeypatch.setattr(Network, "take_down", lambda self: taken.append(self.tier))
    with pytest.raises(WireboundError, match="no folder"), open_network("loopback", 2):
        pass
    assert set(taken) == {"loopback"}
