"""`wirebound profile --model`: from a module in some folder to an answer about the network, alone and in ranks."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import psutil
import pytest
import torch

import wirebound
from wirebound.profile.pacing import pacing_available
from wirebound.profile.schema import load_profile

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "data" / "profile.schema.json").read_text(encoding="utf-8"))

JOB = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

print("a module that talks")


def loss(model, batch):
    inputs, labels = batch
    return nn.functional.cross_entropy(model(inputs), labels)


def make_job(batch_size=8):
    print("a function that talks")
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))
    data = TensorDataset(torch.randn(64, 32), torch.randint(0, 10, (64,)))
    optimizer = torch.optim.Adam(model.parameters())
    return model, loss, DataLoader(data, batch_size=batch_size, shuffle=True), optimizer


def slow():
    import time

    def wait(model, batch):
        time.sleep(0.05)
        return loss(model, batch)

    model, _, _, optimizer = make_job()
    return model, wait, DataLoader(range(100000), batch_size=2, num_workers=1, collate_fn=collate), optimizer


class HalfMade:
    def __init__(self):
        import signal

        signal.raise_signal(signal.SIGINT)
        self.whole = True

    def __del__(self):
        return self.whole


def half_made():
    model, _, data, optimizer = make_job()
    return model, lambda model, batch: HalfMade(), data, optimizer


def handing():
    import signal
    from multiprocessing import connection

    answer = connection.answer_challenge

    def asked(*words):
        signal.raise_signal(signal.SIGTERM)
        return answer(*words)

    connection.answer_challenge = asked
    return slow()


def reaching():
    model, _, data, optimizer = make_job()

    def inside(model, batch):
        return nn.functional.cross_entropy(model[2](model[1](model[0](batch[0]))), batch[1])

    return model, inside, data, optimizer


def ending(numbers):
    import os

    os._exit(3) if 8 in numbers else None
    return collate(numbers)


def dying():
    model, _, _, optimizer = make_job()
    return model, loss, DataLoader(range(64), batch_size=2, num_workers=2, collate_fn=ending), optimizer


def collate(numbers):
    return torch.randn(len(numbers), 32), torch.tensor(numbers) % 10


def second():
    import os

    if os.environ["RANK"] == "1":
        raise KeyError("only here")
    return slow()


class Losing:
    def __del__(self):  # Python prints what is raised here, and goes on
        import time

        print("a destructor that waits")
        time.sleep(600)


def losing():
    import os, time

    if os.environ["RANK"] == "0":
        Losing()
        time.sleep(600)
    return make_job()


def unequal():
    import os

    width = 4 + int(os.environ["RANK"])
    return nn.Linear(width, 2), lambda model, batch: model(batch).mean(), torch.ones(3, width)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "jobs.py").write_text(JOB, encoding="utf-8")
    return tmp_path


def environment():
    package = str(Path(wirebound.__file__).parents[1])
    loopback = {"linux": "lo", "darwin": "lo0"}.get(sys.platform)
    return (
        os.environ
        | {"PYTHONPATH": package, "OMP_NUM_THREADS": "1"}
        | ({"GLOO_SOCKET_IFNAME": loopback} if loopback else {})
    )


def run(folder, *words, launcher=("-m", "wirebound"), timeout=240):
    return subprocess.run(
        [sys.executable, *launcher, *words],
        cwd=folder,
        env=environment(),
        capture_output=True,
        encoding="utf-8",
        timeout=timeout,
        check=False,
    )


def test_from_a_model_in_a_folder_to_answers_about_its_network(folder):
    words = ["--steps", "6", "--batch", "4", "--batches", "2,4,8", "--json", "--out", "PROFILE.json"]
    done = run(folder, "profile", "--model", "jobs:make_job", *words)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)  # what the user's code printed is not in it
    assert "a function that talks" in done.stderr
    assert document == json.loads((folder / "PROFILE.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    assert document["minor"] == 1
    assert str(folder) not in done.stdout
    profile = load_profile(folder / "PROFILE.json")
    assert profile.name == "jobs:make_job"
    assert profile.batch_size == 4
    assert sum(tensor.size for tensor in profile.tensors) == (32 * 64 + 64 + 64 * 10 + 10) * 4
    assert [timing.batch_size for timing in profile.batch_samples] == [2, 4, 8]
    assert len(profile.loading_samples_s) == 15
    assert profile.peak_memory.size > 10**7
    assert profile.hook_overhead.pairs == 6
    assert {timing.ranks for timing in profile.collectives} == {2}
    fitted = run(folder, "fit", "PROFILE.json", "--out", "FIT.json", "--json")
    assert json.loads(fitted.stdout)["ranks"] == 2
    job = ["--workload", "PROFILE.json", "--gpus", "8", "--method", "ddp"]
    predicted = run(folder, "predict", *job, "--network", "FIT.json", "--batch", "8", "--json")
    assert json.loads(predicted.stdout)["iteration_s"] > 0
    needed = run(folder, "need", *job, "--bandwidth", "1 Gbps", "--target", "0.5", "--solve", "bandwidth", "--json")
    assert json.loads(needed.stdout)["unit"] == "Gbps"
    advised = run(folder, "advise", *job, "--bandwidth", "1 Gbps", "--json")
    assert advised.returncode == 0, advised.stderr


def test_what_was_measured_is_printed(folder):
    done = run(folder, "profile", "--model", "jobs:make_job", "--steps", "6", "--no-collectives", "--out", "P.json")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("jobs:make_job: 4 gradients, 11.05 kB, batch 8")
    assert lines[1].endswith("(medians of 6 steps, cpu-timer)")
    for part in ("loading a batch", "peak memory", "the hooks' own cost: step time ×"):
        assert any(line.startswith(part) for line in lines)
    assert not load_profile(folder / "P.json").collectives
    refused = run(folder, "fit", "P.json")
    assert refused.returncode == 2
    assert "has no collectives" in refused.stderr


def test_of_a_single_step_there_is_no_interval(folder):
    done = run(folder, "profile", "--model", "jobs:make_job", "--steps", "1", "--no-collectives", "--out", "P.json")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[1].endswith(" (one step, cpu-timer)")
    assert any(re.fullmatch(r"the hooks' own cost: step time ×\d+\.\d{3} \(one pair\)", line) for line in lines)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--model", "nowhere:make"], "there is no module 'nowhere'"),
        (["--model", "jobs:make_jobs"], "has no function 'make_jobs'"),
        (["--model", "jobs:unequal", "--batches", "2,4"], "KeyError: 'RANK' (jobs.py, line"),
        (["--model", "jobs:dying"], "jobs:dying: loading a batch raised RuntimeError: "),
        (["--model", "jobs:slow", "--batches", "2,4"], "takes no parameter batch_size"),
    ],
)
def test_mistakes_are_told_in_one_line_and_nothing_is_written(folder, words, part):
    (folder / "P.json").write_text("older", encoding="utf-8")
    done = run(folder, "profile", *words, "--out", "P.json")
    assert done.returncode == 2
    errors = [line for line in done.stderr.splitlines() if line.startswith("wirebound: error: ")]
    assert len(errors) == 1
    assert part in errors[0]
    assert "(typing.py" not in errors[0]
    assert "Traceback" not in done.stderr
    assert (folder / "P.json").read_text(encoding="utf-8") == "older"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there(folder):
    done = run(folder, "profile", "--device", "cuda", "--out", "P.json")
    assert done.returncode == 2
    assert "PyTorch finds no CUDA device here: use --device cpu" in done.stderr


MINE = """
import torch
from torch.utils.data import TensorDataset

dataset = TensorDataset(torch.randn(40, 6), torch.randint(0, 3, (40,)))


class Model(torch.nn.Linear):
    def __init__(self):
        super().__init__(6, 3)
"""


def test_the_function_in_the_readme_works(tmp_path):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    [sample] = [text for text in re.findall(r"```python\n(.*?)```", readme, re.DOTALL) if "def make_job" in text]
    (tmp_path / "train.py").write_text(sample, encoding="utf-8")
    (tmp_path / "mine.py").write_text(MINE, encoding="utf-8")
    words = ["--model", "train:make_job", "--batches", "4,8", "--steps", "2", "--no-collectives", "--out", "P.json"]
    done = run(tmp_path, "profile", *words)
    assert done.returncode == 0, done.stderr
    assert load_profile(tmp_path / "P.json").batch_size == 32


@pytest.mark.skipif(not pacing_available(), reason="sockets can be slowed down on Linux only")
def test_counters_of_all_reduces_and_of_training(folder):
    words = ["--steps", "6", "--counters", "5 ms", "--bandwidth", "400 Mbps", "--json"]
    done = run(folder, "profile", "--model", "jobs:make_job", *words)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    found = [(series["phase"], series["rank"], series["rate_Bps"]) for series in document["counters"]]
    assert found == [(phase, rank, 50e6) for phase in ("all-reduce", "training") for rank in (0, 1)]
    assert all(timing["rate_Bps"] == 50e6 for timing in document["collectives"])
    assert max(timing["bytes"] for timing in document["collectives"]) == 2**24


def test_a_loss_that_reaches_into_the_model_costs_the_counters_only(folder):
    done = run(folder, "profile", "--model", "jobs:reaching", "--steps", "6", "--counters", "5 ms", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert {series["phase"] for series in document["counters"]} == {"all-reduce"}
    [warning] = [warning for warning in document["warnings"] if warning.startswith("no counters of training: ")]
    assert "'DistributedDataParallel' object is not subscriptable" in warning
    assert "the loss can only call it" in warning


def offspring(process):
    return [child for child in process.children(recursive=True) if child.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals to send")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("stage", ["training", "all-reduce"])
def test_an_interruption_leaves_no_process_and_no_half_file(folder, number, stage):
    (folder / "P.json").write_text("older", encoding="utf-8")
    model = ["--model", "jobs:slow", "--steps", "1000"] if stage == "training" else ["--steps", "6"]
    started = subprocess.Popen(
        [sys.executable, "-m", "wirebound", "profile", *model, "--time-limit", "600 s", "--out", "P.json"],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    process = psutil.Process(started.pid)
    # A worker of the data loader, or both processes of the all-reduces.
    wanted = 1 if stage == "training" else 2
    deadline = time.monotonic() + 120
    while len(found := offspring(process)) < wanted and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(found) >= wanted
    started.send_signal(number)
    _, said = started.communicate(timeout=60)
    assert started.returncode == 130
    assert "wirebound: interrupted" in said
    assert "Traceback" not in said
    _, alive = psutil.wait_procs(found, timeout=30)
    assert not alive
    assert (folder / "P.json").read_text(encoding="utf-8") == "older"
    assert sorted(path.name for path in folder.iterdir() if path.name != "__pycache__") == ["P.json", "jobs.py"]


@pytest.mark.skipif(sys.platform != "linux", reason="tensors are handed over by a file's descriptor on Linux only")
def test_an_interruption_while_a_loading_process_hands_a_batch_over(folder):
    done = run(folder, "profile", "--model", "jobs:handing", "--steps", "1000", "--out", "P.json")
    assert done.returncode == 130
    assert done.stderr.splitlines()[-1] == "wirebound: interrupted"
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals to send")
def test_an_interruption_while_an_object_is_made_whose_destructor_then_fails(folder):
    done = run(folder, "profile", "--model", "jobs:half_made", "--steps", "6", "--out", "P.json")
    assert done.returncode == 130
    assert done.stderr.splitlines()[-1] == "wirebound: interrupted"
    assert "Traceback" not in done.stderr


TORCHRUN = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", "-m", "wirebound")


def test_every_rank_profiles_and_the_first_writes(folder):
    words = ["--steps", "6", "--counters", "5 ms", "--bandwidth", "10 Gbps", "--json", "--out", "P.json"]
    done = run(folder, "profile", "--model", "jobs:make_job", *words, launcher=TORCHRUN)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    profile = load_profile(folder / "P.json")
    assert [timing.rank for timing in profile.ranks] == [0, 1]
    assert profile.ranks[0].step_s == pytest.approx(
        profile.forward_s + sum(tensor.gap_s for tensor in profile.tensors) + profile.optimizer_s, abs=1e-8
    )
    assert all(timing.loading_s > 0 and timing.peak_bytes > 10**7 for timing in profile.ranks)
    assert {(timing.ranks, timing.backend) for timing in profile.collectives} == {(2, "gloo")}
    assert [(series.phase, series.rank) for series in profile.counters] == [("training", 0), ("training", 1)]
    if sys.platform == "linux":
        for series in profile.counters:
            # 2,762 gradients of 4 bytes at every step: what two ranks of a ring send each.
            assert series.sent_bytes[-1] >= len(series.communication_start_s) * 2762 * 4
    fitted = run(folder, "fit", "P.json", "--json")
    assert json.loads(fitted.stdout)["ranks"] == 2
    predicted = run(
        folder, "predict", "--workload", "P.json", "--gpus", "4", "--bandwidth", "1 Gbps", "--method", "ddp"
    )
    assert predicted.returncode == 0, predicted.stderr


SAID = ("wirebound: error", "wirebound: failed", "wirebound: interrupted")


def errors_of_ranks(folder, *words):
    """The lines that all ranks together say about how they ended; torchrun's own are not ours."""
    done = run(folder, "profile", *words, launcher=TORCHRUN)
    assert done.returncode != 0
    assert not (folder / "P.json").exists()
    return [line for line in done.stderr.splitlines() if line.startswith(SAID)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--steps", "0"], "--steps 0 must be between"),
        (["--steps", "six"], "Invalid value for '--steps'"),
        (["--model", "jobs:missing"], "--model jobs:missing: jobs has no function 'missing'"),
        (["--model", "jobs:unequal", "--steps", "2"], "the model of rank 1 has other gradients than that of rank 0"),
    ],
)
def test_what_all_ranks_find_is_said_once(folder, words, said):
    [line] = errors_of_ranks(folder, *words, "--out", "P.json")
    assert line.startswith(f"wirebound: error: {said}")


def test_what_one_rank_finds_is_said_by_it(folder):
    [line] = errors_of_ranks(folder, "--model", "jobs:second", "--steps", "100000", "--out", "P.json")
    assert line.startswith("wirebound: error: rank 1: --model jobs:second raised KeyError: 'only here'")


def test_what_only_the_first_rank_checks_is_said_by_it(folder):
    [line] = errors_of_ranks(folder, "--model", "jobs:slow", "--steps", "100000", "--out", "no/P.json")
    assert line.startswith("wirebound: error: --out: no/P.json: its folder no does not exist")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals to send")
def test_ranks_that_are_interrupted_end_even_where_the_interrupt_is_lost_and_the_first_says_so(folder):
    """Left alone, the first rank here ends when its launcher kills it, and cannot say anything."""
    started = subprocess.Popen(
        [sys.executable, *TORCHRUN, "profile", "--model", "jobs:losing", "--steps", "2", "--out", "P.json"],
        cwd=folder,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
    )
    assert any("a destructor that waits" in line for line in started.stderr)
    os.killpg(started.pid, signal.SIGINT)
    _, said = started.communicate(timeout=120)
    assert started.returncode != 0
    assert [line for line in said.splitlines() if line.startswith(SAID)] == ["wirebound: interrupted"]
    assert not (folder / "P.json").exists()
