"""predict, messages, need and workloads, through the program's own entry point."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from wirebound.model import METHODS, Cluster, Link, method_named
from wirebound.model.library import builtin_names, builtin_workload
from wirebound.model.workload import GRADIENT_DTYPES
from wirebound.profile.schema import Profile, TensorProfile, save_profile
from wirebound.simulate.step import simulate_step

FIT = {"schema": "wirebound-fit", "version": 1, "collective": "ring-allreduce", "ranks": 4, "flags": [], "verdict": ""}
FIT |= {"link_latency_s": 2e-5, "link_bandwidth_Bps": 1.25e9}
JOB = ["--workload", "resnet50", "--gpus", "64", "--bandwidth", "10 Gbps", "--method", "wfbp-a2a"]


@pytest.fixture
def profile_file(tmp_path):
    path = tmp_path / "mine.json"
    tensors = (TensorProfile("fc", 800, 1, 0.25), TensorProfile("conv", 200, 0, 0.75))
    save_profile(
        Profile("mine", "made up", {}, steps=1, batch_size=4, forward_s=1.0, optimizer_s=0.5, tensors=tensors), path
    )
    return str(path)


def test_predict_says_what_the_engine_says(document):
    found = document("predict", *JOB)
    step = simulate_step(builtin_workload("resnet50"), Cluster(64, Link(1.25e9)), method_named("wfbp-a2a"))
    assert found["iteration_s"] == step.iteration_s
    assert found["compute_s"] == step.compute_s
    assert found["exposed_communication_s"] == step.exposed_s
    assert found["scaling_factor"] == step.scaling_factor
    assert found["wire_bytes_per_worker"] == step.wire_bytes_per_worker
    assert found["link_utilization"] == step.link_utilization
    assert found["messages"] == 161
    assert found["samples_per_s"] == pytest.approx(64 * 32 / step.iteration_s)
    assert found["job"]["bandwidth_Bps"] == 1.25e9


def test_every_option_of_predict_reaches_the_engine(document):
    found = document(
        *["predict", "--workload", "vgg16", "--gpus", "32", "--gpus-per-node", "8", "--bandwidth", "25 Gbps"],
        *["--intra-bandwidth", "10 GB/s", "--latency", "20 us", "--intra-latency", "2 us", "--utilization", "0.5"],
        *["--method", "ddp", "--compression", "4", "--bucket-cap", "5 MiB", "--first-bucket-cap", "2 MiB"],
        *["--batch", "16", "--gradient-dtype", "fp16", "--accumulation", "2", "--no-vector-add"],
    )
    workload = builtin_workload("vgg16").with_batch(16).with_gradient_dtype("fp16")
    cluster = Cluster(4, Link(25 * 125e6, 20e-6, 0.5), 8, Link(1e10, 2e-6))
    method = method_named("ddp", compression=4.0, bucket_cap_bytes=5 * 2**20, first_bucket_bytes=2 * 2**20)
    step = simulate_step(workload, cluster, method, include_vector_add=False, accumulation=2)
    assert found["iteration_s"] == pytest.approx(step.iteration_s, rel=1e-12)
    assert found["messages"] == len(step.messages)
    assert found["samples_per_s"] == pytest.approx(32 * 16 * 2 / step.iteration_s)


@pytest.mark.parametrize(
    ("flags", "changes"), [(["--servers", "3"], {"servers": 3}), (["--colocated"], {"colocated": True})]
)
def test_servers(document, flags, changes):
    job = ["--workload", "vgg16", "--gpus", "8", "--bandwidth", "10 Gbps", "--method", "wfbp-ps"]
    step = simulate_step(builtin_workload("vgg16"), Cluster(8, Link(1.25e9)), method_named("wfbp-ps", **changes))
    assert document("predict", *job, *flags)["iteration_s"] == step.iteration_s


def test_predict_for_people_names_what_was_assumed(wirebound):
    code, out, _ = wirebound(
        *["predict", "--workload", "resnet18", "--gpus", "8", "--gpus-per-node", "4", "--method", "wfbp-a2a"],
        *["--bandwidth", "10 Gbps", "--compression", "2"],
    )
    assert code == 0
    assert "8 GPUs on 2 nodes, 10 Gbps" in out
    for assumed in ("flop-estimated", "exchange for free", "no latency", "compression and decompression take no"):
        assert assumed in out


TWO_LEVELS = "all-reduce is two-level: a ring inside each node, then a ring over the nodes' shared links"


@pytest.mark.parametrize(
    ("gpus", "per_node", "method", "said"),
    [("16", "8", "ddp", True), ("16", "1", "ddp", False), ("8", "8", "ddp", False), ("16", "8", "bsp-ps", False)],
)
def test_two_levels_are_an_assumption_where_there_are_two(document, gpus, per_node, method, said):
    job = ["--workload", "vgg16", "--gpus", gpus, "--gpus-per-node", per_node, "--bandwidth", "10 Gbps"]
    assumed = document("predict", *job, "--method", method)["assumptions"]
    assert any(phrase.startswith(TWO_LEVELS) and "2(P−1)/P·S" in phrase for phrase in assumed) is said
    assert ("adding vectors inside a node takes its measured time" in assumed) is (method == "bsp-ps")


def test_messages_of_ddp(document):
    found = document("messages", "--workload", "resnet18", "--method", "ddp", "--bucket-cap", "25 MiB")["messages"]
    assert [message["bytes"] for message in found] == [2_052_000, 28_852_224, 15_853_824]
    assert [len(message["tensors"]) for message in found] == [2, 12, 48]
    assert found[0]["tensors"] == ["fc.bias", "fc.weight"]
    assert found[-1]["ready_s"] == pytest.approx(builtin_workload("resnet18").backward_s)


def test_messages_with_a_network_have_their_times_on_the_wire(document):
    found = document("messages", *JOB)["messages"]
    step = simulate_step(builtin_workload("resnet50"), Cluster(64, Link(1.25e9)), method_named("wfbp-a2a"))
    assert [(m["start_s"], m["end_s"]) for m in found] == [(m.start_s, m.end_s) for m in step.messages]


def test_messages_that_depend_on_the_network(document, wirebound):
    code, _, err = wirebound("messages", "--workload", "resnet50", "--method", "mg-wfbp")
    assert code == 2
    assert "--gpus, --bandwidth" in err
    job = ["--workload", "resnet50", "--gpus", "64", "--bandwidth", "10 Gbps", "--method", "mg-wfbp"]
    found = document("messages", *job)["messages"]
    assert sum(message["bytes"] for message in found) == builtin_workload("resnet50").size
    assert len(found) == document("predict", *job)["messages"]


def test_messages_for_people(wirebound):
    code, out, _ = wirebound("messages", "--workload", "resnet18", "--method", "ddp")
    assert code == 0
    assert "3 messages" in out
    assert "28,852,224 B" in out
    assert "fc.bias … fc.weight" in out


def need(*changes, solve="compression"):
    job = {"--workload": "vgg16", "--gpus": "64", "--bandwidth": "10 Gbps", "--method": "horovod", "--target": "0.95"}
    job |= dict(zip(changes[::2], changes[1::2], strict=True)) | {"--solve": solve}
    return ["need", *(word for pair in job.items() for word in pair)]


@pytest.mark.parametrize(
    ("solve", "unit", "value"),
    [("compression", "×", 7.926), ("bandwidth", "Gbps", 79.26), ("gpus", "GPUs", 1), ("batch", "samples", 236)],
)
def test_need(document, solve, unit, value):
    found = document(*need(solve=solve))
    assert found["unit"] == unit
    assert found["value"] == pytest.approx(value, rel=1e-3)
    assert found["reachable"] is True
    assert found["scaling_factor"] >= 0.95


def test_need_that_cannot_be_met_is_an_answer_not_a_failure(document, wirebound):
    arguments = need("--workload", "resnet50", "--method", "wfbp-a2a")
    found = document(*arguments)
    assert (found["value"], found["reachable"], found["limited_by"]) == (None, False, "vector-add")
    code, out, _ = wirebound(*arguments)
    assert code == 0
    assert "no compression reaches 95.0%: at best 76.6%, limited by vector-add" in out


def test_need_says_that_the_solved_value_is_ignored(wirebound):
    code, out, err = wirebound(*need(solve="bandwidth"))
    assert code == 0
    assert "at least 79.26 Gbps" in out
    assert "--bandwidth is what is solved for" in err


@pytest.mark.parametrize("command", [["--gradient-dtype", "fp16"], ["--accumulation", "4"]])
def test_precision_and_accumulation_change_what_is_needed(document, command):
    arguments = need("--method", "ddp", solve="bandwidth")
    answer = document(*arguments, *command)
    assert answer["value"] < document(*arguments)["value"]
    job = ["--workload", "vgg16", "--gpus", "64", "--method", "ddp", *command]
    for factor, reaches in ((1 + 1e-9, True), (1 - 1e-6, False)):
        found = document("predict", *job, "--bandwidth", f"{answer['value'] * factor!r} Gbps")
        assert (found["scaling_factor"] >= 0.95) is reaches


def test_need_of_latency_and_what_predict_says_of_it(document, wirebound):
    job = ["--workload", "resnet50", "--gpus", "64", "--bandwidth", "100 Gbps", "--method", "wfbp-a2a"]
    question = ["need", *job, "--no-vector-add", "--latency", "3 us", "--target", "0.9", "--solve", "latency"]
    answer = document(*question)
    assert (answer["unit"], answer["reachable"]) == ("us", True)
    assert "latency_s" not in answer["job"]
    assert not any("no latency" in phrase for phrase in answer["assumptions"])
    for factor, reaches in ((1 - 1e-9, True), (1 + 1e-6, False)):
        found = document("predict", *job, "--no-vector-add", "--latency", f"{answer['value'] * factor!r} us")
        assert (found["scaling_factor"] >= 0.9) is reaches
    _, out, err = wirebound(*question)
    assert "latency at most" in out
    assert err == "--latency is what is solved for: the value given is ignored\n"
    answer = document(*need("--workload", "resnet50", "--method", "wfbp-a2a", solve="latency"))
    assert (answer["value"], answer["reachable"], answer["limited_by"]) == (None, False, "bandwidth")


def test_workloads(document, wirebound):
    found = document("workloads")["workloads"]
    assert [workload["name"] for workload in found] == list(builtin_names())
    assert {w["name"]: w["gradient_bytes"] for w in found}["vgg16"] == 553_463_968
    code, out, _ = wirebound("workloads")
    assert code == 0
    assert len(out.splitlines()) == len(found)


def test_a_profile_is_a_workload(document, profile_file):
    found = document(
        *["predict", "--workload", profile_file, "--gpus", "2", "--bandwidth", "1 kB/s", "--method", "bsp-a2a"]
    )
    assert found["iteration_s"] == pytest.approx(1.0 + 1.0 + 1.0 + 0.5)
    assert found["job"]["workload"] == "mine"


def test_a_fit_is_a_network(document, tmp_path):
    fit = tmp_path / "fit.json"
    fit.write_text(json.dumps(FIT), encoding="utf-8-sig")
    job = ["--workload", "resnet50", "--gpus", "8", "--method", "ddp"]
    by_fit = document("predict", *job, "--network", str(fit))
    by_hand = document("predict", *job, "--bandwidth", "10 Gbps", "--latency", "20 us")
    assert by_fit["iteration_s"] == by_hand["iteration_s"]
    assert not any("doubt" in phrase for phrase in by_fit["assumptions"])


@pytest.mark.parametrize("command", [["predict"], ["need", "--target", "0.5", "--solve", "compression"]])
def test_the_doubts_of_a_fit_are_an_assumption(document, tmp_path, command):
    fit = tmp_path / "fit.json"
    fit.write_text(json.dumps(FIT | {"flags": ["jump"], "verdict": "64 KiB takes 3×"}), encoding="utf-8")
    job = ["--workload", "resnet50", "--gpus", "8", "--method", "ddp", "--network", str(fit)]
    assert "the fitted network is in doubt (64 KiB takes 3×)" in document(*command, *job)["assumptions"]


def test_the_bandwidth_that_is_solved_for_was_not_given_by_a_fit(wirebound, tmp_path):
    fit = tmp_path / "fit.json"
    fit.write_text(json.dumps(FIT), encoding="utf-8")
    job = ["--workload", "vgg16", "--gpus", "8", "--method", "ddp", "--network", str(fit)]
    code, _, err = wirebound("need", *job, "--target", "0.5", "--solve", "bandwidth")
    assert (code, err) == (0, "bandwidth is what is solved for: of --network only the latency is used\n")
    code, _, err = wirebound("need", *job, "--target", "0.5", "--solve", "latency")
    assert (code, err) == (0, "latency is what is solved for: of --network only the bandwidth is used\n")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"link_bandwidth_Bps": None}, "has no link_bandwidth_Bps: fit it again with --collective and --ranks"),
        ({"link_latency_s": None}, "has no link_latency_s"),
        ({"link_bandwidth_Bps": "fast"}, "link_bandwidth_Bps = 'fast' must be"),
        ({"link_bandwidth_Bps": -1}, "must be between 0 and 1e+18"),
        ({"link_bandwidth_Bps": 0}, "must be greater than 0"),
        ({"link_bandwidth_Bps": 10**400}, "must be between 0 and 1e+18"),
        ({"link_bandwidth_Bps": float("nan")}, "must be between 0 and 1e+18"),
        ({"link_latency_s": 1e7}, "must be between 0 and 1e+06"),
        ({"schema": "wirebound-profile"}, "this is a profile: run 'wirebound fit' on it"),
        ({"schema": ["x"]}, "is not a fit"),
        ({"version": 2}, "has fit version 2: this program reads version 1"),
        ({"collective": "carrier-pigeon"}, "the collective 'carrier-pigeon': known are ring-allreduce"),
        ({"collective": []}, "known are ring-allreduce"),
        ({"flags": "x"}, "damaged"),
        ("[]", "is not a fit"),
        ('{"schema": "wirebound-fit", "version": 1, "version": 1}', "the field 'version' stands twice in one object"),
        ("{", "is not JSON"),
    ],
)
def test_a_bad_fit_is_named(wirebound, tmp_path, changes, complaint):
    fit = tmp_path / "fit.json"
    fit.write_text(changes if isinstance(changes, str) else json.dumps(FIT | changes), encoding="utf-8")
    code, out, err = wirebound(
        "predict", "--workload", "vgg16", "--gpus", "2", "--method", "ddp", "--network", str(fit)
    )
    assert (code, out) == (2, "")
    assert "fit.json" in err
    assert complaint in err


MISTAKES = [
    (["predict", *JOB, "--workload", "resnet5"], "did you mean 'resnet50'"),
    (["predict", *JOB, "--method", "wfbp_a2a"], "did you mean 'wfbp-a2a'"),
    (["predict", *JOB, "--workload", "absent.json"], "absent.json: no such profile, the file does not exist"),
    (["predict", *JOB, "--workload", "./nothere"], "nothere: no such profile, the file does not exist"),
    (["predict", *JOB, "--workload", "."], "the name is empty, or '.', which is a folder"),
    (["predict", *JOB, "--gpus", "1.5"], "'1.5'"),
    (["predict", *JOB, "--first-bucket-cap", "0 B"], "--first-bucket-cap '0 B' must be greater than zero"),
    (["predict", *JOB[2:]], "--workload': the built-in ones are resnet18, resnet50"),
    (["predict", *JOB[:-2]], "--method': known are bsp-ps, bsp-a2a"),
    (["predict", *JOB, "--bandwidth", "10"], "--bandwidth: bandwidth '10' has no unit"),
    (["predict", *JOB, "--bandwidth", "1e-310 Gbps"], "'1e-310 Gbps' must be between 1 kbps and 1e12 Gbps"),
    (["predict", *JOB, "--latency", "20"], "--latency: time '20' has no unit"),
    (["predict", *JOB, "--intra-bandwidth", "0 Gbps"], "--intra-bandwidth: bandwidth '0 Gbps' must be greater"),
    (["predict", *JOB, "--utilization", "0"], "--utilization 0.0 must be between 0.000001 and 1"),
    (["predict", *JOB, "--compression", "0.5"], "--compression 0.5 must be"),
    (["predict", *JOB, "--compression", "nan"], "--compression nan must be"),
    (["predict", *JOB, "--gpus", "0"], "--gpus 0 must be between 1 and"),
    (["predict", *JOB, "--gpus", "9" * 400], "must be between 1 and"),
    (["predict", *JOB, "--gpus-per-node", "6"], "--gpus 64 is not a multiple of --gpus-per-node 6"),
    (["predict", *JOB, "--gpus", "many"], "--gpus"),
    (["predict", *JOB, "--batch", "-1"], "--batch -1 must be between 1 and"),
    (["predict", *JOB, "--accumulation", "0"], "--accumulation 0 must be between 1 and"),
    (["predict", *JOB, "--gradient-dtype", "fp12"], "unknown gradient type 'fp12'"),
    (["predict", *JOB, "--gradient-dtype", "FP16"], "did you mean 'fp16'"),
    (["predict", *JOB, "--bandwidth", "10 gbps"], "unknown unit 'gbps': did you mean 'Gbps'?"),
    (["predict", "--batch"], "(see 'wirebound predict --help')"),
    (["testbed", "run", "--rates"], "(see 'wirebound testbed run --help')"),
    (["predict", *JOB, "--bucket-cap", "25"], "--bucket-cap: size '25' has no unit"),
    (["predict", *JOB, "--bucket-cap", "0 B"], "--bucket-cap '0 B' must be greater than zero"),
    (["predict", *JOB, "--servers", "2", "--colocated"], "exclude each other"),
    (["predict", *JOB, "--network", "fit.json"], "--bandwidth and --network"),
    (["predict", *JOB, "--compresion", "2"], "--compresion"),
    (["predict", "--workload", "vgg16", "--gpus", "8", "--method", "ddp"], "give --bandwidth '10 Gbps', or --network"),
    (["predict", "--workload", "vgg16", "--bandwidth", "1 Gbps", "--method", "ddp"], "--gpus"),
    (["need", *JOB, "--solve", "bandwith", "--target", "0.9"], "did you mean 'bandwidth'"),
    (["need", *JOB, "--solve", "batch", "--target", "95"], "--target 95.0 must be a scaling factor"),
    (["need", "--workload", "vgg16", "--method", "ddp", "--solve", "bandwidth", "--target", "0.9"], "give --gpus"),
]


@pytest.mark.parametrize(("arguments", "complaint"), MISTAKES, ids=[complaint for _, complaint in MISTAKES])
def test_a_users_mistake_is_one_line_and_exit_code_2(wirebound, arguments, complaint):
    code, out, err = wirebound(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("wirebound: error: ")
    assert len(err.splitlines()) == 1
    assert complaint in err


def test_options_without_effect_are_said_on_standard_error(wirebound):
    code, out, err = wirebound("predict", *JOB, "--bucket-cap", "1 MiB", "--colocated", "--json")
    assert code == 0
    assert json.loads(out)
    assert err.splitlines() == [
        "--bucket-cap changes nothing with the method wfbp-a2a",
        "--colocated changes nothing with the method wfbp-a2a",
    ]


def test_one_gpu_needs_no_network(document):
    found = document("predict", "--workload", "vgg16", "--gpus", "1", "--method", "ddp")
    assert found["scaling_factor"] == 1
    assert found["job"]["bandwidth_Bps"] is None


def test_need_searches_batches_as_far_as_predict_takes_them(document, wirebound):
    job = ["--workload", "vgg16", "--gpus", "64", "--bandwidth", "1 Mbps", "--method", "bsp-a2a"]
    question = ["need", *job, "--target", "0.95", "--solve", "batch"]
    answer = document(*question)
    assert answer["reachable"]
    assert answer["value"] > 1_048_576
    assert document("predict", *job, "--batch", str(answer["value"]))["scaling_factor"] >= 0.95
    assert document("predict", *job, "--batch", str(answer["value"] - 1))["scaling_factor"] < 0.95
    question[question.index("1 Mbps")] = "1 kbps"
    answer = document(*question)
    assert (answer["value"], answer["reachable"], answer["at_search_limit"]) == (None, False, True)
    _, out, _ = wirebound(*question)
    assert "no batch up to 1,000,000,000 (the most that is searched) reaches 95.0%: there" in out


def test_one_is_singular(wirebound):
    _, out, _ = wirebound("predict", "--workload", "resnet50", "--gpus", "1", "--method", "bsp-a2a")
    assert "1 GPU on 1 node," in out


def test_a_name_cannot_move_the_cursor(wirebound, tmp_path):
    path = tmp_path / "mine.json"
    tensors = (TensorProfile("fc\x9b2J", 800, 0, 0.25),)
    save_profile(Profile("a\x1b[2J\nb", "made\rup", {}, steps=1, batch_size=4, tensors=tensors), path)
    job = ["--workload", str(path), "--gpus", "2", "--bandwidth", "1 kB/s", "--method", "bsp-a2a"]
    for command, shown in (("predict", r"a\x1b[2J\nb (1 tensor"), ("messages", r"1 tensor: fc\x9b2J")):
        code, out, _ = wirebound(command, *job)
        assert code == 0
        assert shown in out
        assert all(mark.isprintable() or mark == "\n" for mark in out)
        code, out, _ = wirebound(command, *job, "--json")
        assert json.loads(out)
        assert all(mark.isprintable() or mark == "\n" for mark in out)


@pytest.mark.parametrize("command", ["predict", "messages", "need"])
def test_help_lists_what_there_is_to_choose(wirebound, command):
    _, out, _ = wirebound(command, "--help")
    words = " ".join(out.split()).replace("- ", "-")
    for name in (*METHODS, *GRADIENT_DTYPES):
        assert name in words


def test_the_programs_help_has_an_example(wirebound):
    code, out, _ = wirebound("--help")
    assert code == 0
    assert "Example: wirebound predict --workload resnet50" in out


@pytest.mark.parametrize("command", ["predict", "messages", "need", "workloads"])
def test_help_has_an_example(wirebound, command):
    code, out, _ = wirebound(command, "--help")
    assert code == 0
    assert f"Example: wirebound {command}" in " ".join(out.split())
    assert "--json" in out


def test_the_installed_program(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "wirebound", "predict", *JOB, "--json"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=tmp_path,
        check=True,
    )
    assert json.loads(done.stdout)["scaling_factor"] == pytest.approx(0.39, abs=0.005)
    assert done.stderr == ""


def test_a_timeline_never_replaces_what_is_read(wirebound, profile_file, tmp_path):
    before = Path(profile_file).read_text(encoding="utf-8")
    job = ["--workload", profile_file, "--gpus", "4", "--bandwidth", "10 Gbps", "--method", "ddp"]
    link = tmp_path / "link.json"
    link.symlink_to(profile_file)
    for target in (profile_file, str(link)):
        code, out, err = wirebound("predict", *job, "--timeline", target)
        assert (code, out) == (2, "")
        assert "is the file that is read" in err
    assert Path(profile_file).read_text(encoding="utf-8") == before


def test_the_printed_answer_of_need_reaches_the_target(wirebound, document):
    job = ["--workload", "resnet50", "--gpus", "64", "--method", "ddp"]
    for target in ("0.873", "0.5", "0.77"):
        _, out, _ = wirebound("need", *job, "--target", target, "--solve", "bandwidth")
        shown = re.search(r"at least ([\d.]+) Gbps", out)[1]
        assert document("predict", *job, "--bandwidth", f"{shown} Gbps")["scaling_factor"] >= float(target)
        _, out, _ = wirebound("need", *job, "--bandwidth", "40 Gbps", "--target", target, "--solve", "latency")
        shown = re.search(r"at most ([\d.]+) us", out)[1]
        found = document("predict", *job, "--bandwidth", "40 Gbps", "--latency", f"{shown} us")
        assert found["scaling_factor"] >= float(target)


@pytest.mark.parametrize(("latency", "faster"), [("100 us", True), ("0", False)])
def test_where_merging_is_worse_than_buckets_it_is_said(wirebound, document, latency, faster):
    job = ["--workload", "resnet50", "--gpus", "16", "--bandwidth", "25 Gbps", "--latency", latency]
    merged, buckets = (document("predict", *job, "--method", method)["iteration_s"] for method in ("mg-wfbp", "ddp"))
    assert (buckets < 0.99 * merged) == faster
    code, out, err = wirebound("predict", *job, "--method", "mg-wfbp")
    assert (code, err) == (0, "")
    said = f"with --method ddp the step is predicted to take {1e3 * buckets:.4g} ms instead of {1e3 * merged:.4g} ms"
    assert (f"  remark          greedy merging does not pay here: {said}\n" in out) == ("remark" in out) == faster
    assert document("predict", *job, "--method", "wfbp-a2a")["remarks"] == []
    advised = document("advise", *job, "--method", "mg-wfbp", "--top", "100")
    assert bool(advised["baseline"]["remarks"]) == faster
    [gain] = [remedy["gain"] for remedy in advised["remedies"] if remedy["change"] == "ddp instead of mg-wfbp"]
    assert gain == pytest.approx(merged / buckets)
