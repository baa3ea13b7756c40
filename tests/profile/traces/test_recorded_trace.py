"""The recipe of the README, run here on two processes with gloo, and its traces imported."""

import json
import subprocess
import sys
import textwrap

import pytest

from wirebound.cli import main as cli
from wirebound.profile.schema import load_profile

#: The lines between the marks are those that the documentation shows.
RECORD = textwrap.dedent("""
    import sys
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    rank = int(sys.argv[1])
    dist.init_process_group("gloo", store=dist.FileStore(sys.argv[2], 2), rank=rank, world_size=2)
    layers = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    model = DistributedDataParallel(layers, bucket_cap_mb=0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs, targets = torch.randn(64, 256), torch.randint(10, (64,))

    def train_step():
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()

    # ---
    from torch.profiler import ProfilerActivity, profile, schedule

    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * torch.cuda.is_available()
    with profile(activities=activities, schedule=schedule(wait=1, warmup=3, active=4), record_shapes=True) as profiler:
        for _ in range(8):
            train_step()
            profiler.step()
    profiler.export_chrome_trace(f"rank{dist.get_rank()}.json.gz")
    # ---
    dist.barrier()
    dist.destroy_process_group()
""")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "record.py").write_text(RECORD, encoding="utf-8")
    command = [sys.executable, "record.py"]
    where = {"cwd": folder, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    ranks = [subprocess.Popen([*command, str(rank), str(folder / "store")], **where) for rank in range(2)]
    try:
        texts = [process.communicate(timeout=300)[0].decode(errors="replace") for process in ranks]
    finally:
        for process in ranks:
            process.kill()
            process.wait()
    assert [process.returncode for process in ranks] == [0, 0], texts
    return [folder / f"rank{rank}.json.gz" for rank in range(2)]


def test_a_real_trace_is_imported(recorded, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        cli(["import", *map(str, recorded), "--json", "--out", str(tmp_path / "P.json")])
    document = json.loads(capsys.readouterr().out)
    assert not ended.value.code
    assert (document["format"], document["rank"], document["world_size"], document["steps"]) == ("kineto", 0, 2, 4)
    parameters = 256 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10
    assert sum(c["bytes"] for c in document["collectives"]) == 4 * 4 * parameters
    assert {c["kind"] for c in document["collectives"]} == {"all_reduce"}
    assert document["communication_us"] > 0
    assert document["computation_us"] > 0
    assert document["overlap_us"] <= min(document["communication_us"], document["computation_us"])
    # One clock for both: no transfer is longer than the operation on either rank.
    assert all(0 < c["transfer_us"] <= c["duration_us"] for c in document["collectives"] if "transfer_us" in c)
    assert [rank["rank"] for rank in document["ranks"]] == [0, 1]
    profile = load_profile(tmp_path / "P.json")
    assert sum(tensor.size for tensor in profile.tensors) == 4 * parameters
    assert profile.gradient_dtype == "fp32"
    assert len(profile.tensors) == len(document["collectives"]) / 4
    replay = document["replay"]
    assert replay["traced_iteration_s"] > 0
    assert replay["predicted_iteration_s"] > 0


def test_what_is_known_of_each_step(recorded):
    """Against the file itself, read with the json module: gloo's annotations are the communication."""
    import gzip

    from wirebound.profile.traces.kineto import read_kineto

    events = json.loads(gzip.decompress(recorded[0].read_bytes()))["traceEvents"]
    gloo = [event for event in events if str(event.get("name", "")).startswith("gloo:all_reduce")]
    collectives = read_kineto(recorded[0]).collectives
    assert sorted(c.start_us for c in collectives) == sorted(e["ts"] for e in gloo)
    assert sorted(c.duration_us for c in collectives) == pytest.approx(sorted(e["dur"] for e in gloo), abs=2e-3)
    assert all(c.launch_us is not None and c.launch_us <= c.start_us for c in collectives)
