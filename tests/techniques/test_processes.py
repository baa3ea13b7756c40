"""Real jobs in processes of their own: what they tell, what happens when one dies, and that none stays behind."""

import dataclasses
import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from deaths import PATIENCE_S, connections, kill_the_second, wait_until

import wirebound
from wirebound.errors import WireboundError
from wirebound.techniques.catalogue import needs_servers
from wirebound.techniques.job import Job
from wirebound.techniques.launch import started_processes
from wirebound.techniques.training import run_job

MLP_BYTES = 820_874 * 4
MLP_TENSORS = 6


def workers_of(process: psutil.Process) -> list[psutil.Process]:
    found = []
    for child in process.children():
        try:
            if child.status() != psutil.STATUS_ZOMBIE and "wirebound.techniques.worker" in child.cmdline():
                found.append(child)
        except psutil.NoSuchProcess:
            continue
    return found


def commands_of(job: Job, folder: Path) -> dict[str, list[str]]:
    orders = folder / "orders.json"
    orders.write_text(json.dumps(dataclasses.asdict(job)), encoding="utf-8")
    names = [f"worker {rank}" for rank in range(job.workers)] + [f"server {rank}" for rank in range(job.servers)]
    command = [sys.executable, "-m", "wirebound.techniques.worker", str(orders)]
    return {name: [*command, str(rank)] for rank, name in enumerate(names)}


def long_job(technique: str) -> Job:
    return Job("mlp", technique, workers=2, servers=int(needs_servers(technique)), steps=10**6, batch_size=2)


def test_a_job_with_servers_tells_what_it_sent():
    job = Job("mlp", "wfbp-ps", workers=2, servers=2, steps=3, warmup=1, batch_size=2)
    result = run_job(job, time_limit_s=PATIENCE_S)
    pids = [one.pid for one in (*result.workers, *result.servers)]
    assert len({*pids, os.getpid()}) == 5
    assert not [pid for pid in pids if psutil.pid_exists(pid)]
    assert sum(server.received_bytes for server in result.servers) == 2 * 4 * MLP_BYTES
    assert sum(server.sent_bytes for server in result.servers) == 2 * 4 * MLP_BYTES
    assert sum(server.averages for server in result.servers) == 4 * MLP_TENSORS
    assert result.workers[0].parameters_sha256 == result.workers[1].parameters_sha256
    for worker in result.workers:
        assert len(worker.step_s) == len(worker.losses) == 3
        assert all(step.start_s <= step.forward_end_s <= step.backward_end_s <= step.end_s for step in worker.steps)
        for step in range(3):
            mine = [message for message in worker.messages if message.step == step]
            pushes = [message for message in mine if message.kind == "push"]
            pulls = {message.tensors: message for message in mine if message.kind == "pull"}
            assert len(pushes) == len(pulls) == MLP_TENSORS
            assert sum(message.size for message in pushes) == MLP_BYTES
            # One message at a time: each is pulled before the next is pushed.
            for message, following in itertools.pairwise(pushes):
                assert message.ready_s <= message.start_s <= message.end_s
                assert pulls[message.tensors].end_s <= following.start_s


def test_partitions_travel_in_one_order_on_all_workers():
    job = Job("mlp", "bytescheduler-a2a", workers=2, steps=3, warmup=1, batch_size=2)
    job = dataclasses.replace(job, choices={"partition_bytes": 1_000_000, "credit_bytes": 2_000_000})
    result = run_job(job, time_limit_s=PATIENCE_S)
    sizes = {}
    for worker in result.workers:
        for step in range(3):
            mine = [message for message in worker.messages if message.step == step]
            assert sum(message.size for message in mine) == MLP_BYTES
            sizes.setdefault(step, []).append([(message.tensors, message.size) for message in mine])
            assert [m.size for m in mine if m.tensors == ("1.weight",)] == [1_000_000, 1_000_000, 1_000_000, 145_728]
    assert all(first == second for first, second in sizes.values())  # both workers in one order
    assert result.workers[0].parameters_sha256 == result.workers[1].parameters_sha256


@pytest.mark.parametrize("technique", ["wfbp-ps", "bytescheduler-a2a"])
def test_when_a_worker_dies_the_others_end_with_one_line(technique, tmp_path):
    with started_processes(commands_of(long_job(technique), tmp_path), tmp_path) as started:
        if needs_servers(technique):
            server = started[-1].process.pid
            assert server not in {os.getpid(), started[0].process.pid, started[1].process.pid}
            wait_until(lambda: connections(server) >= 2, "connecting to both workers")
        kill_the_second(started, "WireboundError: ")


def test_a_mistake_in_a_worker_is_one_line_and_leaves_nothing():
    job = Job("mlp", "mg-wfbp", workers=1, choices={"groups": [["1.weight"]]})
    with pytest.raises(WireboundError) as caught:
        run_job(job, time_limit_s=PATIENCE_S)
    assert "is in no group: add it to one" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not workers_of(psutil.Process())


def test_the_time_limit_ends_all_processes():
    with pytest.raises(WireboundError, match=r"did not end within 0\.5 s"):
        run_job(long_job("bsp-ps"), time_limit_s=0.5)
    assert not workers_of(psutil.Process())


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_its_parent(number, tmp_path):
    commands = commands_of(long_job("wfbp-ps"), tmp_path)
    code = (  # what run_job does, without the import of torch
        "from pathlib import Path\n"
        "from wirebound.techniques.launch import started_processes, wait_for\n"
        f"with started_processes({commands}, Path({str(tmp_path)!r})) as started:\n"
        "    wait_for(started, 600)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(wirebound.__file__).parents[1])}
    parent = subprocess.Popen([sys.executable, "-c", code], env=environment, stderr=subprocess.DEVNULL)
    try:
        # As soon as they exist: they may be importing, connecting or training.
        children = wait_until(lambda: len(found := workers_of(psutil.Process(parent.pid))) == 3 and found, "starting")
        parent.send_signal(number)
        assert parent.wait(PATIENCE_S) != 0
        psutil.wait_procs(children, PATIENCE_S)
        assert not [child for child in children if child.is_running()]
    finally:
        parent.kill()
        parent.wait()
