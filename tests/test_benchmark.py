"""The benchmark of the engine runs, and its C loops agree with the sweep. Its speeds are for people to read."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[1] / "benchmarks" / "engine.py"


def test_engine_benchmark_with_tiny_sizes(tmp_path):
    command = [
        sys.executable,
        BENCHMARK,
        "--tiny",
        "--json",
        tmp_path / "speed.json",
        "--plot",
        tmp_path / "growth.svg",
    ]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    assert "configurations/s" in done.stdout
    assert (tmp_path / "growth.svg").read_text(encoding="utf-8").startswith("<?xml")
    measured = json.loads((tmp_path / "speed.json").read_text(encoding="utf-8"))
    assert measured["large_sweep"]["configurations"] == 2000
    assert measured["large_sweep"]["peak_rss_bytes"] > 10 * 2**20
    assert set(measured["growth_s"]) == {"tensors", "configurations", "workers"}
    if shutil.which("gcc") is None:
        pytest.skip("no gcc: the plain C loops were left out")
    for speed in measured["sweeps"].values():
        assert speed["largest_difference"] < 1e-9


def test_encode_benchmark_with_a_tiny_tensor(tmp_path):
    script = BENCHMARK.with_name("encode.py")
    command = [sys.executable, script, "--mib", "1", "--rounds", "1", "--json", tmp_path / "encode.json"]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    assert "× a copy" in done.stdout
    measured = json.loads((tmp_path / "encode.json").read_text(encoding="utf-8"))
    assert measured["compressors"]["ef-signsgd"]["payload_bytes"] == 2**20 // 4 // 8 + 4
