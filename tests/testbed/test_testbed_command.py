"""`wirebound testbed check`: what it says about this machine, and how it refuses."""

import json

import pytest

from wirebound.cli import main as cli
from wirebound.testbed.detect import Availability
from wirebound.testbed.tiers import TIERS, default_tier


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        cli(["testbed", *arguments])
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


def test_check_measures_the_tier(capsys: pytest.CaptureFixture[str]):
    tier = default_tier()
    options = [] if tier == "loopback" else ["--rate", "80 Mbps"]
    code, out, _ = run(["check", "--tier", tier, *options, "--json"], capsys)
    assert code == 0
    document = json.loads(out)
    assert document["recommended"] == tier
    [report] = document["tiers"]
    assert report["available"] is True
    assert report["record"]["tier"] == tier
    [reached] = report["measurements"]
    if tier != "loopback":
        assert reached["rate_Bps"] == 10e6
        assert reached["size"] == 4_000_000
        assert 0.6 < reached["utilization"] < 1.08
        assert reached["utilization"] == pytest.approx(reached["size"] / 10e6 / reached["median_s"])


def test_tiers_that_do_not_work_are_listed_with_the_remedy(capsys, monkeypatch: pytest.MonkeyPatch):
    answer = Availability(False, "the program ip is missing", "install iproute2")
    monkeypatch.setattr("wirebound.testbed.tiers.tier_available", lambda name: answer)
    monkeypatch.setattr("wirebound.testbed.check.tier_available", lambda name: answer)
    monkeypatch.setattr("wirebound.testbed.tiers.default_tier", lambda: "loopback")
    code, out, _ = run(["check", "--json"], capsys)
    assert code == 0
    document = json.loads(out)
    assert [report["tier"] for report in document["tiers"]] == list(TIERS)
    assert {report["remedy"] for report in document["tiers"]} == {"install iproute2"}
    code, out, _ = run(["check"], capsys)
    assert "root-namespaces  no: the program ip is missing: install iproute2" in out
    code, out, err = run(["check", "--tier", "relay"], capsys)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "install iproute2" in err


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["check", "--tier", "root-namespace"], "did you mean 'root-namespaces'"),
        (["check", "--rate", "10 apples"], "unknown unit 'apples'"),
        (["check", "--rate", "100"], "has no unit"),
        (["check", "--rate", "1 bps"], "must be between 1 Mbps and 100 Gbps"),
        (["check", "--tier", "loopback", "--rate", "10 Mbps"], "cannot limit the rate"),
        (["chek"], "Did you mean 'check'"),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], part: str, capsys: pytest.CaptureFixture[str]):
    code, out, err = run(arguments, capsys)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert part in err
