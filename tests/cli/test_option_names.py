"""Each message about a value names its option; of `testbed run` and `profile` every option is tried."""

import sys

import pytest

from wirebound.profile.pacing import pacing_available

REPLAY = ["testbed", "run", "--out", "out", "--tier", "pacing"]
TRAINING = [*REPLAY, "--kind", "training"]
PROFILE = ["profile", "--out", "PROFILE.json"]

MODULE = """
def three(): return 3
def needs(other): return other
def fails(): raise OSError("no data")
"""


def refused(wirebound, arguments, option):
    code, out, err = wirebound(*arguments)
    assert (code, out) == (2, "")
    said = err.splitlines()[-1]
    assert said.startswith((f"wirebound: error: {option}", f"wirebound: error: Invalid value for '{option}'"))
    assert said.count(option) == 1
    return said


@pytest.mark.skipif(not pacing_available(), reason="needs links that can be slowed down without rights")
@pytest.mark.parametrize("command", [REPLAY, TRAINING], ids=["replay", "training"])
@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--ranks", ""),
        ("--ranks", "0"),
        ("--ranks", "1"),
        ("--ranks", "-2"),
        ("--ranks", "2.5"),
        ("--ranks", "2,,4"),
        ("--ranks", "65"),
        ("--ranks", "9999"),
        ("--rates", ""),
        ("--rates", "10"),
        ("--rates", "0 Mbps"),
        ("--rates", "-1 Mbps"),
        ("--rates", "1 kbps"),
        ("--rates", "100 Mbps,1 Tbps"),
        ("--methods", ""),
        ("--methods", "ddp,"),
        ("--methods", "ddp,bsp"),
        ("--tier", "x"),
        ("--tier", "loopback"),
        ("--kind", "x"),
        ("--out", "-"),
        ("--out", ""),
        ("--out", "no/such"),
        ("--out", "full"),
        ("--batch", "2.5"),
        ("--scale", "x"),
    ],
)
def test_of_runs(command, option, value, wirebound, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    refused(wirebound, [*command, option, value], option)
    assert [path.name for path in tmp_path.iterdir()] == ["full"]


@pytest.mark.skipif(not pacing_available(), reason="needs links that can be slowed down without rights")
@pytest.mark.parametrize(
    ("option", "value", "remedy"),
    [
        ("--workload", "", "Known are"),
        ("--workload", "no.json", "wirebound profile --out"),
        ("--scale", "0", "between 0.000001 and 1"),
        ("--scale", "1e-300", "between 0.000001 and 1"),
        ("--scale", "2", "between 0.000001 and 1"),
        ("--scale", "nan", "between 0.000001 and 1"),
        ("--scale", "inf", "between 0.000001 and 1"),
        ("--ranks", "40", "40 workers with 40 parameter servers"),
        ("--models", "mlp", "add --kind training"),
        ("--compressor", "fp16", "add --kind training"),
        ("--calibrate-at", "1 Gbps", "add --kind training"),
        ("--batch", "8", "add --kind training"),
        ("--bucket-cap", "1 MiB", "add --kind training"),
    ],
)
def test_of_replays(option, value, remedy, wirebound, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert remedy in refused(wirebound, [*REPLAY, option, value], option)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not pacing_available(), reason="needs links that can be slowed down without rights")
@pytest.mark.parametrize(
    ("option", "value", "remedy"),
    [
        ("--models", "", "Known are"),
        ("--models", "ResNet20", "did you mean 'resnet20'"),
        ("--models", "resnet20:", "write resnet20:16"),
        ("--models", "resnet20:1", "between 2"),
        ("--models", "resnet20:9999", "and 4096"),
        ("--methods", "horovod", "Known are"),
        ("--compressor", "", "Known are"),
        ("--compressor", "topk", "write topk:0.01"),
        ("--compressor", "topk:2", "between 0.000001 and 1"),
        ("--compressor", "qsgd:0;fp16", "whole number of levels"),
        ("--batch", "0", "between 2"),
        ("--batch", "5000", "and 4096"),
        ("--bucket-cap", "25", "has no unit"),
        ("--bucket-cap", "0 MiB", "greater than zero"),
        ("--bucket-cap", "-1 MiB", "not negative"),
        ("--bucket-cap", "0.1 B", "between 1 B and 1e6 TB"),
        ("--rates", "1e300 Gbps", "between 1 Mbps and 100 Gbps"),
        ("--compressor", "topk:1e-300", "between 0.000001 and 1"),
        ("--calibrate-at", "", "write a number and a unit"),
        ("--calibrate-at", "1 kbps", "between 1 Mbps and 100 Gbps"),
        ("--calibrate-at", "1 Tbps", "between 1 Mbps and 100 Gbps"),
        ("--ranks", "64", "64 workers with 1 parameter servers"),
        ("--scale", "0.5", "or leave out --kind training"),
        ("--workload", "vgg16", "or leave out --kind training"),
    ],
)
def test_of_training_runs(option, value, remedy, wirebound, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    more = ["--methods", "bsp-ps"] if option == "--ranks" else []
    assert remedy in refused(wirebound, [*TRAINING, *more, option, value], option)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("option", "value", "remedy"),
    [
        ("--out", "", "name a file to write"),
        ("--out", "no/such", "create it first"),
        ("--device", "gpu", "known are auto, cpu, cuda"),
        ("--steps", "0", "between 1 and"),
        ("--steps", "2000000", "between 1 and"),
        ("--steps", "x", "valid integer"),
        ("--batch", "1", "between 2, for batch normalization"),
        ("--batch", "70000", "and 65,536"),
        ("--batches", "", "such as 1,2,4,8"),
        ("--batches", "4,8,", "such as 1,2,4,8"),
        ("--batches", "0,1", "between 1 and"),
        ("--batches", "8", "two batch sizes at least"),
        ("--time-limit", "0", "greater than 0"),
        ("--time-limit", "10", "has no unit"),
        ("--time-limit", "1e99s", "between 0 and 1,000,000 s"),
        ("--counters", "1 us", "2 ms at least"),
        ("--counters", "x", "write a number and a unit"),
        ("--bandwidth", "1 kbps", "between 800 kbps and"),
        ("--bandwidth", "10", "has no unit"),
        ("--seed", "-1", "between 0 and"),
        ("--model", "jobs", "package.module:function"),
        ("--model", "jobs:missing", "has no function"),
        ("--model", "jobs:three", "it must return"),
        ("--model", "jobs:needs", "only batch_size is passed"),
        ("--model", "jobs:fails", "OSError: no data (jobs.py, line 4)"),
    ],
)
def test_of_profiles(option, value, remedy, wirebound, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "jobs", raising=False)
    (tmp_path / "jobs.py").write_text(MODULE, encoding="utf-8")
    assert remedy in refused(wirebound, [*PROFILE, option, value], option)
    assert not (tmp_path / "PROFILE.json").exists()


@pytest.mark.parametrize("option", ["--bandwidth", "--counters"])
def test_of_a_link_that_nothing_uses(option, wirebound):
    value = {"--bandwidth": "1 Gbps", "--counters": "5 ms"}[option]
    said = refused(wirebound, [*PROFILE, "--no-collectives", option, value], option)
    assert "leave --no-collectives out" in said
