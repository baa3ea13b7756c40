"""`wirebound import`: its documents, the profiles that it writes, and what later commands make of them."""

import itertools
import json
import os
import re
import threading

import jsonschema
import pytest

from wirebound.cli import main as cli
from wirebound.fit.replay import replay_step
from wirebound.model import Tensor, Workload
from wirebound.profile.schema import load_profile

from .test_horovod import timeline
from .test_nccl_tests import output
from .tracefiles import PERIOD, ROOT, ddp_events, gloo_job, kineto_document, write

TRACE_KEYS = [
    "format",
    "rank",
    "world_size",
    "steps",
    "communication_us",
    "computation_us",
    "overlap_us",
    "exposed_communication_us",
    "overlap_percent",
    "collectives",
    "warnings",
]


@pytest.fixture
def run(capsys):
    def command(*arguments):
        with pytest.raises(SystemExit) as ended:
            cli([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return ended.value.code, captured.out, captured.err

    return command


def ddp_trace(path, rank=0, **settings):
    return write(path, kineto_document(ddp_events(**settings), rank=rank))


def test_the_document_of_a_trace(run, tmp_path):
    code, out, _ = run("import", ddp_trace(tmp_path / "t.json.gz"), "--json")
    document = json.loads(out)
    assert code == 0
    assert list(document)[: len(TRACE_KEYS)] == TRACE_KEYS
    assert document["format"] == "kineto"
    assert document["exposed_communication_us"] == document["communication_us"] - document["overlap_us"] == 1500
    assert document["collectives"][0] == {"kind": "all_reduce", "bytes": 4000, "duration_us": 300.0, "stream": 20}
    assert document["replay"]["traced_iteration_s"] == pytest.approx(PERIOD / 1e6)
    assert document["replay"]["predicted_iteration_s"] == pytest.approx(PERIOD / 1e6)


def test_the_document_of_nccl_tests(run, tmp_path):
    (tmp_path / "log.txt").write_text(output(4), encoding="utf-8")
    code, out, _ = run("import", tmp_path / "log.txt", "--json")
    document = json.loads(out)
    assert code == 0
    assert list(document) == ["format", "ranks", "collective", "rows", "warnings"]
    assert (document["format"], document["ranks"], document["collective"]) == ("nccl-tests", 4, "all_reduce")
    assert list(document["rows"][0]) == ["bytes", "time_us", "algbw_gbs", "busbw_gbs", "in_place"]


@pytest.mark.parametrize("kind", ["kineto", "horovod", "nccl-tests"])
def test_profiles_keep_to_the_schema_and_name_no_host(kind, run, tmp_path):
    file, profile = tmp_path / "somehost_1234.json", tmp_path / "P.json"
    if kind == "kineto":
        ddp_trace(file)
    elif kind == "horovod":
        timeline(file)
    else:
        file = tmp_path / "somehost.txt"
        file.write_text(output(4), encoding="utf-8")
    code, _, errors = run("import", file, "--format", kind, "--out", profile)
    assert code == 0, errors
    text = profile.read_text(encoding="utf-8")
    schema = json.loads((ROOT / "data" / "profile.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(json.loads(text), schema)
    assert load_profile(profile).collectives
    for private in ("somehost", "somebody", str(tmp_path)):
        assert private not in text


def test_a_profile_is_taken_by_every_later_command(run, tmp_path):
    profile, fit = tmp_path / "P.json", tmp_path / "FIT.json"
    assert run("import", ddp_trace(tmp_path / "t.json"), "--out", profile, "--batch", 32)[0] == 0
    job = ("--workload", profile, "--method", "ddp")
    code, out, _ = run("messages", *job, "--json")
    assert code == 0
    messages = json.loads(out)["messages"]
    # The buckets are smaller than any limit of DDP: they join.
    assert [(m["bytes"], m["tensors"]) for m in messages] == [(12_000, ["bucket 0", "bucket 1"])]
    assert messages[0]["ready_s"] == pytest.approx(2e-3)
    code, out, _ = run("predict", *job, "--gpus", 4, "--bandwidth", "10 Gbps", "--json")
    assert code == 0
    assert json.loads(out)["compute_s"] == pytest.approx((PERIOD - 500) / 1e6)
    assert json.loads(out)["job"]["batch_size"] == 32
    code, out, _ = run("need", *job, "--gpus", 4, "--target", 0.9, "--solve", "bandwidth", "--json")
    assert code == 0
    code, out, _ = run("fit", profile, "--out", fit, "--json")
    assert code == 0
    # 4,000 bytes in 300 µs, 8,000 bytes in 500 µs.
    assert json.loads(out)["alpha_s"] == pytest.approx(100e-6, rel=1e-3)
    assert json.loads(out)["beta_s_per_byte"] == pytest.approx(50e-9, rel=1e-3)
    assert run("predict", *job, "--gpus", 4, "--network", fit)[0] == 0


def test_warnings_of_the_import_come_with_later_answers(run, tmp_path):
    profile = tmp_path / "P.json"
    code, _, errors = run("import", ddp_trace(tmp_path / "t.json"), "--out", profile)
    assert code == 0
    assert "warning: the trace does not tell its batch" in errors
    code, out, _ = run(
        "predict", "--workload", profile, "--gpus", 4, "--bandwidth", "10 Gbps", "--method", "ddp", "--json"
    )
    assumed = json.loads(out)["assumptions"]
    assert any(line.startswith("the profile warns: the trace does not tell its batch") for line in assumed)


def test_a_step_that_the_engine_cannot_explain(run, tmp_path):
    """Rank 0 waits inside its collective while the device computes on: its step is shorter than its transfers."""
    events = ddp_events(transfer=(300.0, 500.0))
    for event in events:
        if event["cat"] == "kernel" and event["args"].get("In msg nelems") == 1000:
            event["dur"] = 3000.0
    profile = tmp_path / "P.json"
    code, _, errors = run("import", write(tmp_path / "t.json", kineto_document(events)), "--out", profile)
    assert code == 0
    warning = next(line for line in load_profile(profile).warnings if "replayed by the engine" in line)
    # By hand: forward 1.2, first ready after 1, transfers of 3 and 0.5; what follows the last ready time is the rest.
    predicted, traced = map(float, re.findall(r"([\d.]+) ms", warning))
    assert traced == pytest.approx(PERIOD / 1e3)
    assert predicted == pytest.approx(1.2 + 1 + 3 + 0.5 + (PERIOD / 1e3 - 1.2 - 2), rel=1e-3)
    assert warning in errors
    code, out, _ = run("predict", "--workload", profile, "--gpus", 4, "--bandwidth", "1 Gbps", "--method", "ddp")
    assert "the profile warns: replayed by the engine" in out


def test_replay_is_the_closed_form():
    workload = Workload("w", 1, tuple(Tensor(str(i), 1, 1.0) for i in range(3)), 2.0, 0.5)
    messages = [(2.0, 0.25), (1.0, 4.0), (3.0, 1.0)]
    ends = [ready + sum(cost for other, cost in messages if other >= ready) for ready, _ in messages]
    assert replay_step(workload, messages, 7.0).predicted_s == pytest.approx(2.0 + max(3.0, *ends) + 0.5)
    assert replay_step(workload, [], 5.5).error == 0


def test_ranks_tell_waiting_from_transfer(run, tmp_path):
    """Rank 1 comes 400 µs late; both transfers end on both ranks at the same time."""
    late = ddp_trace(tmp_path / "b.json", rank=1, late=400.0)
    early = ddp_events()
    for event in early:
        if event["cat"] == "kernel" and "nccl" in event["name"]:
            event["dur"] += 400.0
    first = write(tmp_path / "a.json", kineto_document(early))
    code, out, errors = run("import", late, first, "--json")
    document = json.loads(out)
    assert code == 0, errors
    assert document["rank"] == 0
    assert {(c["bytes"], c["transfer_us"], c["waiting_us"]) for c in document["collectives"]} == {
        (4000, 300.0, 400.0),
        (8000, 500.0, 400.0),
    }
    assert [(rank["rank"], rank["waiting_us"]) for rank in document["ranks"]] == [(0, 2400.0), (1, 0.0)]
    assert not any("include waiting" in line for line in document["warnings"])
    profile = tmp_path / "P.json"
    assert run("import", first, late, "--out", profile)[0] == 0
    assert [timing.median_s for timing in load_profile(profile).collectives] == pytest.approx([300e-6, 500e-6])


def test_ranks_whose_clocks_differ(run, tmp_path):
    document = kineto_document(ddp_events(), rank=1)
    document["baseTimeNanoseconds"] += 10_000_000_000
    other = write(tmp_path / "b.json", document)
    code, out, _ = run("import", ddp_trace(tmp_path / "a.json"), other, "--json")
    assert code == 0
    assert {c["transfer_us"] for c in json.loads(out)["collectives"]} == {300.0, 500.0}
    assert any("clocks of the ranks differ" in line for line in json.loads(out)["warnings"])
    # The same clock from another base is the same.
    events = [event | {"ts": event["ts"] - 1e7} for event in document["traceEvents"]]
    code, out, _ = run(
        "import", tmp_path / "a.json", write(tmp_path / "b.json", document | {"traceEvents": events}), "--json"
    )
    assert code == 0
    assert not any("clocks" in line for line in json.loads(out)["warnings"])


def test_mistakes_are_one_line(run, tmp_path):
    trace = ddp_trace(tmp_path / "t.json")
    log = tmp_path / "log.txt"
    log.write_text(output(4), encoding="utf-8")
    other = tmp_path / "other.txt"
    other.write_text("hello\n", encoding="utf-8")
    same = ddp_trace(tmp_path / "same.json")
    gloo = write(tmp_path / "gloo.json", {"traceEvents": gloo_job(steps=0)})
    for arguments, part in (
        ([tmp_path / "none.json"], "none.json: no such file"),
        ([tmp_path], "is a folder"),
        ([trace, "--format", "kinetto"], "did you mean 'kineto'?"),
        ([other], "is neither a PyTorch trace nor a Horovod timeline nor nccl-tests output (it begins with 'hello"),
        ([trace, "--batch", 0], "--batch 0 must be between 1 and"),
        ([trace, "--out", trace], "is the file that is read"),
        ([trace, "--out", tmp_path / "nowhere" / "p.json"], "does not exist"),
        ([trace, same], "are both of rank 0"),
        ([log, log], "several files are one PyTorch trace of each rank, but"),
        ([gloo, "--out", tmp_path / "p.json"], "no workload can be made"),
        ([trace, "--format", "nccl-tests", "--out", tmp_path / "p.json"], "is not nccl-tests output: it has neither"),
    ):
        code, out, errors = run("import", *arguments)
        assert (code, out) == (2, ""), arguments
        assert part in errors.splitlines()[-1]
        assert len(errors.splitlines()) == 1
    assert not (tmp_path / "p.json").exists()
    _, _, errors = run("import")
    assert "Missing argument" in errors


def test_a_trace_without_a_workload_says_why_and_is_no_failure(run, tmp_path):
    events = [event for event in ddp_events() if "autograd" not in event["name"]]
    code, out, errors = run("import", write(tmp_path / "t.json", kineto_document(events)), "--json")
    assert code == 0
    assert any("no workload can be made: it has no operations of autograd" in w for w in json.loads(out)["warnings"])
    assert "no workload can be made" in errors


@pytest.mark.parametrize("header", [True, False])
def test_fit_takes_nccl_tests(header, run, tmp_path):
    file = tmp_path / "log.txt"
    file.write_text(output(4, header=header), encoding="utf-8")
    code, out, _ = run("fit", file, "--json")
    document = json.loads(out)
    assert code == 0
    # α = 50 µs and 20 GB/s of buffer; a ring of 4 takes 6 latencies and moves 3/2 of the buffer.
    assert document["alpha_s"] == pytest.approx(50e-6, rel=1e-3)
    assert document["bandwidth_Bps"] == pytest.approx(20e9, rel=1e-3)
    assert document["link_latency_s"] == pytest.approx(50e-6 / 6, rel=1e-3)
    assert document["link_bandwidth_Bps"] == pytest.approx(30e9, rel=1e-3)


def test_fit_refuses_what_contradicts_itself(run, tmp_path):
    file = tmp_path / "log.txt"
    for text, part in (
        (output(8) + output(16), "busbw ÷ algbw differs from row to row"),
        ("\n".join(itertools.takewhile(lambda line: "float" not in line, output(8).splitlines())), "has no whole row"),
    ):
        file.write_text(text, encoding="utf-8")
        code, out, errors = run("fit", file)
        assert (code, out) == (2, "")
        assert part in errors
    file.write_text(output(8), encoding="utf-8")
    code, _, errors = run("fit", file, "--ranks", 4, "--collective", "ring-allreduce")
    assert code == 2
    assert "was measured with 8 ranks, not --ranks 4" in errors


def test_fit_of_another_collective_has_no_link(run, tmp_path):
    file = tmp_path / "log.txt"
    file.write_text(output(8, "all_gather"), encoding="utf-8")
    code, out, errors = run("fit", file, "--json")
    assert code == 0
    assert "link_latency_s" not in json.loads(out)
    assert "only all-reduces are resolved into a link" in errors


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with a name")
def test_a_pipe_is_refused_in_one_line(run, tmp_path):
    pipe = tmp_path / "trace"
    os.mkfifo(pipe)

    def open_for_writing():
        os.close(os.open(pipe, os.O_WRONLY))

    writer = threading.Thread(target=open_for_writing, daemon=True)
    writer.start()
    code, out, err = run("import", pipe)
    writer.join(timeout=10)
    assert (code, out) == (2, "")
    assert err.splitlines() == [
        f"wirebound: error: {pipe}: is a pipe, which cannot be read twice: save it to a file first"
    ]


def test_a_file_without_header_or_row_is_no_nccl_tests_output(run, tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("nothing of the kind\n", encoding="utf-8")
    code, out, err = run("import", "--format", "nccl-tests", file)
    assert (code, out) == (2, "")
    assert "is not nccl-tests output" in err
    assert len(err.splitlines()) == 1


def test_events_that_stand_twice_are_counted_once(run, tmp_path):
    events = ddp_events()
    _, once, _ = run("import", write(tmp_path / "once.json", kineto_document(events)), "--json")
    twice = write(tmp_path / "twice.json", kineto_document(events * 2))
    code, out, errors = run("import", twice, "--json")
    first, second = json.loads(once), json.loads(out)
    repeated = sum("nccl" in event["name"] for event in events)
    warning = f"{repeated} event(s) of collectives repeat others with the same name, ts, dur, pid and tid"
    assert code == 0
    assert f"warning: {twice}: {warning}" in errors
    assert second.pop("warnings")[0].startswith(warning)
    first.pop("warnings")
    assert second == first


@pytest.mark.parametrize("share", [0.6, 0.9, 0.999])
def test_a_cut_off_trace_says_so_once_and_is_named(share, run, tmp_path):
    whole = json.dumps(kineto_document(ddp_events()))
    cut = tmp_path / "cut.json"
    cut.write_text(whole[: int(share * len(whole))], encoding="utf-8")
    _, _, errors = run("import", cut)
    assert errors.count("is cut off at byte") == 1
    assert f"warning: {cut}: is cut off at byte {cut.stat().st_size}: " in errors


@pytest.mark.parametrize("change", [lambda e: "nccl" not in e["name"], lambda e: "ProfilerStep" not in e["name"]])
def test_a_cut_is_blamed_before_what_it_left_out(change, run, tmp_path):
    whole = json.dumps(kineto_document([event for event in ddp_events() if change(event)]))
    cut = tmp_path / "cut.json"
    cut.write_text(whole[:-30], encoding="utf-8")
    code, _, errors = run("import", cut, "--out", tmp_path / "P.json")
    assert code == 2
    assert errors.count("\n") == 1
    assert f"{cut}: no workload can be made: the file is cut off at byte {len(whole) - 30}" in errors


def test_a_cut_trace_of_another_rank_is_named(run, tmp_path):
    first, second = ddp_trace(tmp_path / "0.json"), ddp_trace(tmp_path / "1.json", rank=1)
    text = second.read_text(encoding="utf-8")
    second.write_text(text[: text.rindex("]") - 3], encoding="utf-8")
    _, _, errors = run("import", first, second)
    assert f"warning: {second}: is cut off at byte" in errors
