"""--compressor, its codec, the stages of servers and --timeline, through the program's own entry point."""

import json

import pytest

from wirebound.cli.job_compression import DEVICE_MEMORY_BANDWIDTH, LAUNCH_S
from wirebound.model import Cluster, Codec, Link, method_named
from wirebound.model.library import builtin_workload
from wirebound.simulate.compressors import COMPRESSORS, compressor_named, estimated_codec
from wirebound.simulate.step import simulate_step

JOB = ["--workload", "resnet50", "--gpus", "16", "--bandwidth", "10 Gbps"]
CLUSTER = Cluster(16, Link(1.25e9))


@pytest.mark.parametrize("flags", [[], ["--free-codec"], ["--device-memory-bandwidth", "2 TB/s"], ["--codec", "FILE"]])
def test_a_compressor_and_its_codec_reach_the_engine(document, tmp_path, flags):
    path = tmp_path / "codec.json"
    path.write_text('{"schema": "wirebound-codec", "version": 1, "encode_s_per_byte": 1e-10}', encoding="utf-8")
    bare = compressor_named("topk:0.01")
    memory = 2e12 if "2 TB/s" in flags else DEVICE_MEMORY_BANDWIDTH
    codec = estimated_codec(bare, memory, LAUNCH_S)
    if flags == ["--free-codec"]:
        codec = Codec()
    elif "FILE" in flags:
        codec = Codec(encode_s_per_byte=1e-10)
    flags = [str(path) if flag == "FILE" else flag for flag in flags]
    found = document("predict", *JOB, "--method", "ddp", "--compressor", "topk:0.01", *flags)
    workload = builtin_workload("resnet50")
    step = simulate_step(workload, CLUSTER, method_named("ddp", compressor=compressor_named("topk:0.01", codec)))
    dense = simulate_step(workload, CLUSTER, method_named("ddp"))
    assert found["iteration_s"] == step.iteration_s
    assert (found["encode_s"], found["decode_s"]) == (step.encode_s, step.decode_s)
    assert found["nominal_ratio"] == step.nominal_ratio == pytest.approx(50, rel=0.01)
    assert found["wire_ratio"] == step.wire_ratio == pytest.approx(50 * 2 / 16, rel=0.01)
    assert found["end_to_end_gain"] == dense.iteration_s / step.iteration_s
    assert found["job"]["compressor"] == "topk:0.01"
    assert found["job"]["codec"]["encode_s_per_byte"] == codec.encode_s_per_byte


def test_a_ratio_that_costs_nothing_is_reported_alike(document):
    found = document("predict", *JOB, "--method", "horovod", "--compression", "5")
    assert (found["nominal_ratio"], found["wire_ratio"], found["encode_s"]) == (5, 5, 0)
    assert found["end_to_end_gain"] > 1
    plain = document("predict", *JOB, "--method", "horovod")
    assert (plain["nominal_ratio"], plain["wire_ratio"], plain["end_to_end_gain"]) == (1, 1, 1)
    assert plain["iteration_s"] == pytest.approx(found["end_to_end_gain"] * found["iteration_s"])


@pytest.mark.parametrize(
    ("flags", "changes"),
    [
        (["--pipelined"], {"pipelined": True}),
        (["--incast", "0.25"], {"incast": 0.25}),
        (["--compressor", "onebit", "--free-codec", "--compressed-pull"], {"compressed_pull": True}),
        (["--compressor", "onebit", "--free-codec", "--compress-from", "1 MiB"], {"compress_from_bytes": 2.0**20}),
    ],
)
def test_options_of_servers(document, flags, changes):
    if "onebit" in flags:
        changes = changes | {"compressor": compressor_named("onebit")}
    found = document("predict", *JOB, "--method", "wfbp-ps", *flags)
    step = simulate_step(builtin_workload("resnet50"), CLUSTER, method_named("wfbp-ps", **changes))
    assert found["iteration_s"] == step.iteration_s


@pytest.mark.parametrize("name", ["p3", "tictac"])
def test_orders_are_methods(document, name):
    found = document("predict", *JOB, "--method", name)
    assert found["iteration_s"] == simulate_step(builtin_workload("resnet50"), CLUSTER, method_named(name)).iteration_s
    sent = document("messages", *JOB, "--method", name)["messages"]
    assert sum(message["bytes"] for message in sent) == builtin_workload("resnet50").size


def test_people_see_three_ratios_and_what_was_assumed(wirebound):
    code, out, _ = wirebound("predict", *JOB, "--gpus-per-node", "8", "--method", "ddp", "--compressor", "dgc:0.001")
    assert code == 0
    assert "compression     nominal 496.2×, on the wire 496×, end to end" in out
    for assumed in ("an estimate, not a measurement", "at 900 GB/s of device memory", "reduces its gradients uncomp"):
        assert assumed in out
    _, out, _ = wirebound("predict", *JOB, "--method", "wfbp-ps", "--compressor", "terngrad", "--free-codec")
    assert "send the sum uncompressed" in out
    assert "take no time (--free-codec)" in out
    _, out, _ = wirebound("predict", *JOB, "--method", "tictac")
    assert "all pushes end before the first pull" in out


def test_need_with_a_compressor(document, wirebound):
    question = ["need", "--workload", "vgg16", "--gpus", "64", "--method", "horovod", "--target", "0.9"]
    free = document(*question, "--solve", "bandwidth", "--compressor", "powersgd:4", "--free-codec")
    dense = document(*question, "--solve", "bandwidth")
    assert free["value"] < dense["value"] / 4
    coded = document(*question, "--solve", "bandwidth", "--compressor", "topk:0.01")
    assert (coded["reachable"], coded["limited_by"]) == (False, "encoding and decoding")
    code, _, err = wirebound(*question, "--bandwidth", "10 Gbps", "--solve", "compression", "--compressor", "fp16")
    assert code == 2
    assert "leave --compressor out" in err


@pytest.mark.parametrize(("method", "lanes"), [("ddp", ["device", "link"]), ("p3", ["device", "push", "pull"])])
def test_timeline_is_a_trace(document, tmp_path, method, lanes):
    path = tmp_path / "trace.json"
    found = document("predict", *JOB, "--method", method, "--compressor", "fp16", "--timeline", str(path))
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    assert [event["args"]["name"] for event in events if event["name"] == "thread_name"] == lanes
    last = max(event["ts"] + event["dur"] for event in events if event["ph"] == "X")
    assert last <= 2e6 * found["iteration_s"] * (1 + 1e-9)
    encoding = sum(event["dur"] for event in events if event.get("cat") == "encode")
    assert encoding == pytest.approx(2e6 * found["encode_s"])


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--compressor", "topk:3"], "--compressor: compressor 'topk:3': '3' is not the share"),
        (["--compressor", "zip"], "--compressor: unknown compressor 'zip'"),
        (["--compressor", "fp16", "--compression", "2"], "--compressor and --compression exclude each other"),
        (["--compressor", "fp16", "--codec", "x.json", "--free-codec"], "--codec and --free-codec exclude each other"),
        (["--compressor", "fp16", "--codec", "x.json"], "x.json: no such codec"),
        (["--compressor", "fp16", "--device-memory-bandwidth", "9"], "--device-memory-bandwidth: bandwidth '9' has no"),
        (["--compressor", "fp16", "--compress-from", "9"], "--compress-from: size '9' has no unit"),
        (["--compressor", "gtopk:0.1"], "merges in a tree between workers"),
        (["--incast", "1"], "--incast 1.0 must be between 0 and 0.999999"),
        (["--timeline", "no/such/folder.json"], "does not exist: create it first"),
    ],
)
def test_mistakes_are_one_line(wirebound, flags, complaint):
    code, out, err = wirebound("predict", *JOB, "--method", "wfbp-ps", *flags)
    assert (code, out) == (2, "")
    assert complaint in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("method", "flags", "said"),
    [
        ("ddp", ["--pipelined"], "--pipelined changes nothing with the method ddp"),
        ("ddp", ["--incast", "0.1"], "--incast changes nothing with the method ddp"),
        ("ddp", ["--free-codec"], "--free-codec changes nothing with no --compressor"),
        ("ddp", ["--compress-from", "1 kB"], "--compress-from changes nothing with no --compressor"),
        ("wfbp-ps", ["--colocated", "--pipelined"], "--pipelined changes nothing with servers on the workers' nodes"),
        (
            "ddp",
            ["--compressor", "fp16", "--free-codec", "--device-memory-bandwidth", "1 TB/s"],
            "--device-memory-bandwidth changes nothing with --free-codec",
        ),
    ],
)
def test_options_without_effect_are_named(wirebound, method, flags, said):
    code, _, err = wirebound("predict", *JOB, "--method", method, *flags)
    assert code == 0
    assert said in err


def test_help_lists_compressors(wirebound):
    _, out, _ = wirebound("predict", "--help")
    words = " ".join(out.split()).replace("- ", "-")
    for name in (*COMPRESSORS, "p3", "tictac"):
        assert name in words
