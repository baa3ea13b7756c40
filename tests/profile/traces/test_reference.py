"""Public traces and logs, where they lie beside the checkout: known figures, and nothing breaks."""

import gzip
import json

import pytest

from wirebound.cli import main as cli
from wirebound.model.library import read_published
from wirebound.profile.traces.kineto import read_kineto
from wirebound.profile.traces.nccl_tests import read_nccl_tests
from wirebound.profile.traces.steps import traced_steps

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


#: File → its name in the published tables.
PUBLISHED = {
    "cpu_only_gloo_rank34": "gloo-300",
    "cpu_only_no_distributedInfo": "cpu-launches",
    "ddp_resnet50_2xA100_rank0": "ddp-resnet50-2xa100",
    "old_style_categories": "old-categories",
    "rocm_mi250_no_distributedInfo": "mi250",
    "ws2_unbucketed_404allreduce_rank1_step2": "unbucketed-2",
}


def counted(path):
    """Microseconds of communication and of its exposed part, by walking over the borders of the raw events."""
    with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:
        events = [event for event in json.load(file)["traceEvents"] if event.get("ph") == "X"]

    def spans(categories, wanted):
        return [
            (event["ts"], event["ts"] + event["dur"])
            for event in events
            if str(event.get("cat", "")).lower() in categories and wanted(event["name"].lower())
        ]

    sides = [spans(("kernel",), lambda name: "nccl" in name), spans(("kernel",), lambda name: "nccl" not in name)]
    if not any(sides):
        sides = [
            spans(("user_annotation",), lambda name: "gloo" in name),
            spans(("cpu_op", "operator"), lambda name: True),
        ]
    borders = sorted(
        (moment, side, 1 - 2 * end) for side in (0, 1) for s in sides[side] for end, moment in enumerate(s)
    )
    active, last, communication, exposed = [0, 0], 0.0, 0.0, 0.0
    for moment, side, change in borders:
        communication += (moment - last) * bool(active[0])
        exposed += (moment - last) * (bool(active[0]) and not active[1])
        active[side] += change
        last = moment
    return communication, exposed


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
    published = next(row for row in read_published("trace_sums.csv") if row["trace"] == PUBLISHED[name])
    sums = document["communication_us"], document["exposed_communication_us"]
    assert sums == (float(published["communication_us"]), float(published["exposed_us"]))
    assert sums == pytest.approx(counted(reference_folder() / "traces" / f"{name}.json.gz"), abs=0.01)
    assert [str(document[key] or 0) for key in ("rank", "world_size", "steps")] == [
        published[key] or "0" for key in ("rank", "world_size", "steps")
    ]


@pytest.mark.parametrize("name", ["ddp_resnet50_2xA100_rank0", "ws2_unbucketed_404allreduce_rank1_step2"])
def test_steps_and_messages_are_those_of_the_published_tables(name):
    steps = traced_steps(read_kineto(reference_folder() / "traces" / f"{name}.json.gz"))
    published = [row for row in read_published("trace_steps.csv") if row["trace"] == PUBLISHED[name]]
    found = [(int(s.number), s.forward_us, s.ready_us[-1], s.rest_us, s.duration_us) for s in steps]
    columns = ("step", "forward_us", "backward_us", "rest_us", "step_us")
    assert found == [pytest.approx([float(row[key]) for key in columns], abs=1e-3) for row in published]
    rows = [row for row in read_published("trace_messages.csv") if row["trace"] == PUBLISHED[name]]
    sent = [(m.size or 0, ready, m.duration_us) for s in steps for m, ready in zip(s.messages, s.ready_us, strict=True)]
    expected = [[float(row[key] or 0) for key in ("bytes", "ready_us", "duration_us")] for row in rows]
    assert sent == [pytest.approx(row, abs=1e-3) for row in expected]


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
