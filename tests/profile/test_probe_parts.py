"""Machine record, spread, signs of disturbance, and the probe as a whole with tiny settings."""

import csv
import getpass
import io
import json
import platform

import numpy as np
import pytest
import scipy.stats

from wirebound.cli import main as cli
from wirebound.errors import InputError
from wirebound.profile import job_profile, probe
from wirebound.profile.disturbance import DisturbanceWatch, disturbance_warnings, load_warnings, run_queue_delay_s
from wirebound.profile.machine import machine_record
from wirebound.profile.record import SETTINGS, Setting, record_allreduce, samples_csv
from wirebound.profile.schema import load_profile
from wirebound.profile.spread import interquartile_range, median_interval, quartiles


@pytest.mark.parametrize("count", [6, 7, 10, 20, 21, 30, 99])
def test_median_interval_agrees_with_scipy(count):
    values = np.random.default_rng(count).gamma(2.0, size=count)
    low, high, confidence = median_interval(values.tolist())
    expected = scipy.stats.quantile_test(values, q=0, p=0.5).confidence_interval(confidence_level=0.95)
    assert (low, high) == (expected.low, expected.high)
    below = scipy.stats.binom.cdf(int(np.searchsorted(np.sort(values), low)), count, 0.5)
    assert confidence == pytest.approx(1 - 2 * below)
    assert confidence >= 0.95


def test_median_interval_of_few_values_is_their_range():
    assert median_interval([3.0, 1.0, 2.0]) == (1.0, 3.0, 0.75)
    assert median_interval([1.0]) == (1.0, 1.0, 0.0)


@pytest.mark.parametrize("count", [1, 2, 3, 8, 25])
def test_quartiles_agree_with_numpy(count):
    values = np.random.default_rng(count).normal(size=count)
    assert quartiles(values.tolist()) == pytest.approx(tuple(np.percentile(values, [25, 75])))
    assert interquartile_range(values.tolist()) == pytest.approx(scipy.stats.iqr(values))


def test_machine_record_names_the_machine_but_not_its_owner():
    record = machine_record()
    assert record["python"] == platform.python_version()
    assert record["cores"] >= 1
    assert record["memory_bytes"] > 10**8
    assert record["torch_threads"] >= 1
    text = json.dumps(record)
    for private in (platform.node(), f'"{getpass.getuser()}"', "/home", "/root", "/Users"):
        assert private not in text


def test_disturbance():
    quiet = [1.0, 1.01, 0.99, 1.0, 1.02]
    assert disturbance_warnings("x", quiet, 0.01) == []
    assert disturbance_warnings("x", quiet, None) == []
    [waiting] = disturbance_warnings("x", quiet, 0.4)
    assert "0.40 s per second" in waiting
    [spread] = disturbance_warnings("x", [1.0, 1.5, 2.0, 1.0, 1.9], None)
    assert "60%" in spread
    share = DisturbanceWatch().waiting_share()
    assert (share is None) == (run_queue_delay_s() is None)
    assert load_warnings({"load_1min": 1.5, "usable_cores": 2})
    assert not load_warnings({"load_1min": 0.5, "usable_cores": 2})
    assert not load_warnings({"load_1min": None, "usable_cores": None})


def test_profile_command_writes_a_profile_that_loads(tmp_path, monkeypatch, capsys):
    sizes = (1024, 32 * 2**20)  # far enough apart that the larger is slower on the busiest machine
    measure = job_profile.measure_allreduce_counters

    def quick(ranks, _, **options):
        return measure(ranks, sizes, **options | {"repetitions": 3})

    monkeypatch.setattr(job_profile, "measure_allreduce_counters", quick)
    file = tmp_path / "PROFILE.json"
    with pytest.raises(SystemExit) as ended:
        cli(["profile", "--out", str(file), "--steps", "2", "--batch", "4", "--batches", "1,6", "--json"])
    assert ended.value.code == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == json.loads(file.read_text(encoding="utf-8"))
    assert "ResNet-20" in captured.err
    profile = load_profile(file)
    assert profile.steps == 2
    assert profile.batch_size == 4
    assert [timing.batch_size for timing in profile.batch_samples] == [1, 6]
    assert len(profile.forward_samples_s) == len(profile.backward_samples_s) == 2
    workload = profile.workload()
    assert workload.size == 269_722 * 4
    assert len(workload.tensors) == 59
    assert sum(workload.forward_gaps_s) == pytest.approx(profile.forward_s, abs=1e-7)
    assert [timing.size for timing in profile.collectives] == list(sizes)
    with pytest.raises(SystemExit) as ended:
        cli(["fit", str(file), "--json"])
    assert ended.value.code == 0
    fitted = json.loads(capsys.readouterr().out)
    assert fitted["ranks"] == 2
    assert "too-few-sizes" in fitted["flags"]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["profile"], "--out"),
        (["profile", "--out", "nowhere/p.json"], "does not exist"),
        (["profile", "--json", "--batch", "1"], "--batch 1 must be between 2"),
        (["profile", "--json", "--steps", "many"], "--steps"),
        (["profile", "--json", "--batches", "1,x"], "--batches '1,x' must be whole numbers"),
        (["profile", "--json", "--batches", "1,0"], "0 must be between 1"),
        (["profile", "--json", "--batches", "4,4"], "two batch sizes at least"),
        (["profile", "--json", "--device", "tpu"], "--device tpu: known are auto, cpu, cuda"),
        (["profile", "--json", "--counters", "1 s"], "--counters: an interval of 1000 ms must be 2 ms at least"),
        (["profile", "--json", "--counters", "often"], "--counters: "),
        (["profile", "--json", "--counters", "5 ms", "--no-collectives"], "--counters watches communication"),
        (["profile", "--json", "--bandwidth", "1 bps"], "--bandwidth '1 bps' must be between"),
        (["profile", "--json", "--bandwidth", "fast"], "--bandwidth: "),
        (["profile", "--json", "--time-limit", "0 s"], "--time-limit '0 s' must be greater than 0"),
        (["profile", "--json", "--seed", "-1"], "--seed -1 must be between"),
    ],
)
def test_profile_command_refuses_in_one_line(arguments, part, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        cli(arguments)
    assert ended.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert part in captured.err


def test_probe_module_refuses_a_missing_folder(tmp_path, capsys):
    assert probe.main(["--out", str(tmp_path / "nowhere" / "p.json")]) == 2
    assert "does not exist" in capsys.readouterr().err
    with pytest.raises(InputError, match="batch"):
        probe.run_probe(batch_size=1)


def test_recording_settings_and_table(monkeypatch):
    assert {setting.ranks for setting in SETTINGS} == {2, 4}
    assert {setting.rate_mbps for setting in SETTINGS} == {None, 100, 1000}
    settings = (Setting(2, None, (1024, 2048), 3), Setting(2, 100, (1024,), 3))
    monkeypatch.setattr("wirebound.profile.record.pacing_available", lambda: False)
    rows, document = record_allreduce(settings)
    assert any("Linux only" in warning for warning in document["warnings"])
    table = list(csv.DictReader(io.StringIO(samples_csv(rows))))
    assert [(row["rank_count"], row["rate_mbps"], row["bytes"], row["repetition"]) for row in table] == [
        ("2", "", size, repetition) for size in ("1024", "2048") for repetition in ("0", "1", "2")
    ]
    assert all(float(row["seconds"]) > 0 for row in table)
