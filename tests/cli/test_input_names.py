"""Names of inputs and outputs that no file has, and files that are of another kind: one line, with the name."""

import json

import pytest

from wirebound.profile.schema import CollectiveTiming, Profile, TensorProfile, profile_document, save_profile

JOB = ["predict", "--workload", "resnet50", "--gpus", "64", "--method", "ddp"]
READERS = [
    ([*JOB, "--network"], "--network: "),
    ([*JOB, "--bandwidth", "10 Gbps", "--compressor", "topk:0.01", "--codec"], "--codec: "),
    (["import"], ""),
    (["fit"], ""),
]


@pytest.mark.parametrize(("command", "option"), READERS)
@pytest.mark.parametrize(
    ("name", "said"),
    [("-", "'-' does not stand for standard input: name a file"), ("", "the name is empty, or '.', which is a folder")],
)
def test_inputs_without_a_name(command, option, name, said, wirebound, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, errors = wirebound(*command, name)
    assert (code, out, len(errors.splitlines())) == (2, "", 1)
    assert f"error: {option}{said}" in errors


def test_a_file_may_be_named_so(wirebound, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "-").write_text("bytes,seconds\n100,1e-4\n100000,2e-4\n1000000,1e-3\n", encoding="utf-8")
    assert wirebound("fit", "./-")[0] == 0


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "--out: the name is empty"),
        ("times.csv/FIT.json", "times.csv is a file, not a folder: choose another"),
        ("times.csv/more/FIT.json", "times.csv is a file, not a folder: choose another"),
        ("none/FIT.json", "its folder none does not exist: create it first"),
    ],
)
def test_outputs_that_cannot_be(name, said, wirebound, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "times.csv").write_text("bytes,seconds\n100,1e-4\n100000,2e-4\n", encoding="utf-8")
    code, _, errors = wirebound("fit", "times.csv", "--out", name)
    assert (code, len(errors.splitlines())) == (2, 1)
    assert said in errors


@pytest.mark.parametrize(
    ("rows", "more", "said"),
    [
        ("100,1\n", (), "measurements of 1 size(s)"),
        ("100,1\n1000,0.5\n10000,0.2\n", ("--collective", "ring-allreduce", "--ranks", "4"), "the times do not grow"),
    ],
)
def test_times_that_fix_no_line_are_named(rows, more, said, wirebound, tmp_path):
    file = tmp_path / "times.csv"
    file.write_text("bytes,seconds\n" + rows, encoding="utf-8")
    code, _, errors = wirebound("fit", str(file), *more)
    assert (code, len(errors.splitlines())) == (2, 1)
    assert f"error: {file}: {said}" in errors


def test_profiles_that_are_no_workload_are_named(wirebound, tmp_path):
    file = tmp_path / "P.json"
    job = ["predict", "--workload", str(file), "--gpus", "4", "--method", "ddp", "--bandwidth", "1 Gbps"]
    timings = (CollectiveTiming("ring-allreduce", 2, 1024, 1e-4),)
    save_profile(Profile("x:y", "a test", {}, steps=0, collectives=timings), file)
    assert f"error: {file}: profile 'x:y' has no gradient tensors" in wirebound(*job)[2]
    torn = Profile("x:y", "a test", {}, 1, 1, tensors=(TensorProfile("fc", 41, 0, 0.1, shape=(5, 2)),))
    file.write_text(json.dumps(profile_document(torn)), encoding="utf-8")
    assert f"error: {file}: workload 'x:y': tensor 0 (fc) has 41 bytes, but its shape" in wirebound(*job)[2]


def test_a_fit_is_no_profile(wirebound, tmp_path):
    file = tmp_path / "FIT.json"
    file.write_text(json.dumps({"schema": "wirebound-fit", "version": 1}), encoding="utf-8")
    for command in (["fit", str(file)], ["predict", "--workload", str(file), "--gpus", "4", "--method", "ddp"]):
        code, _, errors = wirebound(*command)
        assert (code, len(errors.splitlines())) == (2, 1)
        assert f"error: {file}: is a fit, not a profile" in errors
