"""Public traces and logs, where they lie beside the checkout: known figures, and nothing breaks."""

import json

import pytest

from wirebound.cli import main as cli
from wirebound.profile.traces.nccl_tests import read_nccl_tests

from .tracefiles import reference_folder

ELEMENTS = [2_049_000, 7_875_584, 6_563_840, 6_637_568, 2_431_040]
RANKS = {
    "aws_readme_0": 16,
    "aws_readme_1": 16,
    "aws_readme_2": 16,
    "aws_topo_0": 128,
    "deepops_dgx2h_0": 32,
    "deepops_roce_0": 16,
    "dstack_gcp_0": 16,
    "rtx2080ti_1x8_pcie_quoted": 8,
    "sb_allgather_1x8A100": 8,
    "sb_allreduce_1x8A100": 8,
}
TORN = "issue_nccl1453_rows_split_by_log"
#: File → steps, collectives, overlap in percent.
TRACES = {
    "cpu_only_gloo_rank34": (34, 300, 1, 10, 0.0),
    "cpu_only_no_distributedInfo": (None, None, 1, 6, 0.0),
    "ddp_resnet50_2xA100_rank0": (0, 2, 3, 21, 15.6),
    "old_style_categories": (1, None, 0, 0, 0.0),
    "rocm_mi250_no_distributedInfo": (None, None, 1, 0, 0.0),
    "ws2_unbucketed_404allreduce_rank1_step2": (1, 2, 1, 404, 0.0),
}


@pytest.fixture
def run(capsys):
    def command(*arguments):
        with pytest.raises(SystemExit) as ended:
            cli([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return ended.value.code, captured.out, captured.err

    return command


@pytest.mark.parametrize("name", sorted(TRACES))
def test_traces(name, run):
    code, out, _ = run("import", reference_folder() / "traces" / f"{name}.json.gz", "--json")
    document = json.loads(out)
    found = tuple(document[key] for key in ("rank", "world_size", "steps"))
    rank, world, steps, collectives, percent = TRACES[name]
    assert code == 0
    assert (*found, len(document["collectives"])) == (rank, world, steps, collectives)
    assert document["overlap_percent"] == pytest.approx(percent, abs=0.05)
    assert document["warnings"]


def test_from_trace_to_prediction(run, tmp_path):
    trace, profile = reference_folder() / "traces" / "ddp_resnet50_2xA100_rank0.json.gz", tmp_path / "P.json"
    code, out, _ = run("import", trace, "--out", profile, "--json")
    replay = json.loads(out)["replay"]
    assert code == 0
    assert replay["predicted_iteration_s"] == pytest.approx(replay["traced_iteration_s"], rel=0.02)
    tensors = json.loads(profile.read_text(encoding="utf-8"))["tensors"]
    assert [tensor["bytes"] for tensor in tensors] == [4 * elements for elements in ELEMENTS]
    options = ("--workload", profile, "--gpus", 16, "--bandwidth", "10 Gbps", "--method", "ddp", "--json")
    code, out, _ = run("predict", *options)
    assert code == 0
    assert json.loads(out)["job"]["gradient_bytes"] == 4 * sum(ELEMENTS)
    code, out, _ = run("messages", *options)
    assert [message["bytes"] for message in json.loads(out)["messages"]] == [4 * elements for elements in ELEMENTS]


@pytest.mark.parametrize("name", sorted(RANKS))
def test_nccl_tests(name, run):
    path = reference_folder() / "nccl" / f"{name}.txt"
    tests = read_nccl_tests(path)
    assert (tests.ranks, tests.collective) == (RANKS[name], "all_gather" if "allgather" in name else "all_reduce")
    assert len(tests.rows) == 2 * sum(" float " in line for line in path.read_text(encoding="utf-8").splitlines())
    code, out, _ = run("fit", path, "--json")
    assert code == 0
    # The fitted bandwidth of large buffers is about what the last row says.
    assert json.loads(out)["bandwidth_Bps"] / 1e9 == pytest.approx(tests.rows[-1].algbw_gbs, rel=0.25)


def test_torn_rows_are_no_measurements(run):
    path = reference_folder() / "nccl" / f"{TORN}.txt"
    code, out, _ = run("import", path, "--json")
    assert (code, json.loads(out)["rows"]) == (0, [])
    code, _, errors = run("fit", path)
    assert code == 2
    assert "torn apart by log lines" in errors


def test_every_file_is_known_here():
    folder = reference_folder()
    assert {path.name.removesuffix(".json.gz") for path in (folder / "traces").iterdir()} == set(TRACES)
    assert {path.stem for path in (folder / "nccl").iterdir()} == {*RANKS, TORN}
