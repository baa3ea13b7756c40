"""Every technique trains to the same parameters as a single process with the whole batch, and all workers agree."""

import json
import sys
from pathlib import Path

import psutil
import pytest

from wirebound.techniques.catalogue import TECHNIQUES
from wirebound.techniques.launch import started_processes, wait_for

HERE = Path(__file__).parent
WORKERS, SERVERS = 4, 2
sys.path.insert(0, str(HERE))
from lossless_worker import runs  # noqa: E402

ALL_RUNS = {run: technique for workers in range(1, WORKERS + 1) for run, _, technique, _ in runs(workers)}
#: Double precision, but for the case with a layer in single precision.
TOLERANCE = {"frozen, two types": 1e-6, "everything": 1e-6}


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> list[dict]:
    """What each process of one distributed run of all cases wrote, workers first."""
    folder = tmp_path_factory.mktemp("lossless")
    names = [f"worker {rank}" for rank in range(WORKERS)] + [f"server {rank}" for rank in range(SERVERS)]
    script = str(HERE / "lossless_worker.py")
    commands = {
        name: [sys.executable, "-W", "error", script, str(folder), str(rank), str(WORKERS), str(SERVERS)]
        for rank, name in enumerate(names)
    }
    with started_processes(commands, folder) as started:
        wait_for(started, 600)
        pids = [one.process.pid for one in started]
    assert not [pid for pid in pids if psutil.pid_exists(pid)]
    return [json.loads((folder / f"rank-{rank}.json").read_text(encoding="utf-8")) for rank in range(len(names))]


def test_all_seven_techniques_ran():
    assert set(ALL_RUNS.values()) == set(TECHNIQUES)


@pytest.mark.parametrize("run", ALL_RUNS)
def test_lossless(told, run):
    case = run.split("/")[1]
    assert told[0][run]["difference"] <= TOLERANCE.get(case, 1e-14)


@pytest.mark.parametrize("run", ALL_RUNS)
def test_workers_agree_to_the_last_bit(told, run):
    workers = int(run.split("/")[0])
    assert len({told[rank][run]["sha256"] for rank in range(workers)}) == 1


@pytest.mark.parametrize("run", [run for run, technique in ALL_RUNS.items() if technique.endswith("-ps")])
def test_the_servers_had_the_work(told, run):
    served = [told[WORKERS + server][run] for server in range(SERVERS)]
    assert all(one["sent_bytes"] == one["received_bytes"] for one in served)
    # A thread of the server that is still at work when the process ends would abort it. The second watches the parent.
    assert all(one["threads"] == 2 for one in served)
    assert sum(one["averages"] for one in served) > 0
    if "bsp-ps" not in run or "partitions" in run:  # one message goes to one server
        assert all(one["averages"] > 0 for one in served)
