"""The recorded training: complete, of the data that the packages ship, and the same again for the same seeds."""

import dataclasses
import json
import platform
from pathlib import Path

import pytest

from wirebound.simulate.compressors import gradient_of, payload_bytes, rule_of
from wirebound.study import convergence
from wirebound.study import record_convergence as recorder
from wirebound.study.convergence import TASKS, TUNING_SEED, comparison_runs, good_rates, sweep_runs, tuning_runs
from wirebound.study.convergence_tables import curves_of
from wirebound.study.convergence_time import recorded_workload
from wirebound.study.record_convergence import SCHEMA, VERSION, document_text
from wirebound.techniques.learning.data import data_set
from wirebound.techniques.learning.distributed import train_runs
from wirebound.techniques.learning.models import learning_model
from wirebound.techniques.learning.runs import curve_of

RECORDED = Path(__file__).parents[2] / "data" / "recorded" / "convergence.json"
BY_NAME = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.data)


@pytest.fixture(scope="module")
def document():
    return json.loads(RECORDED.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def curves(document):
    return {curve.run: curve for curve in map(curve_of, document["curves"])}


def test_it_says_what_it_is_and_stays_small(document):
    assert (document["schema"], document["version"]) == (SCHEMA, VERSION)
    assert document["machine"]["cores"] >= 1
    assert set(document["packages"]) == {"torch", "numpy", "scikit-learn", "mlxtend"}
    assert RECORDED.stat().st_size < 500_000
    assert document_text(document) == RECORDED.read_text(encoding="utf-8")


@BY_NAME
def test_the_data_and_the_model_are_those_of_this_package(document, task):
    described = document["tasks"][task.data]
    if task.data == "text" and document["machine"]["python"].split(".")[:2] != platform.python_version().split(".")[:2]:
        pytest.skip("the text comes with Python and differs from version to version")
    data = data_set(task.data)
    if not (task.data == "text" and document["machine"]["python"] != platform.python_version()):
        assert described["sha256"] == data.sha256
    shapes = {name: list(each.shape) for name, each in learning_model(task.model, data, 0).named_parameters()}
    assert {name: shape for name, shape, _ in described["step"]["tensors"]} == shapes


@BY_NAME
def test_all_runs_are_there_at_the_rates_that_tuning_chose(document, curves, task):
    rates = document["tasks"][task.data]["rates"]
    assert good_rates([curves[run] for run in tuning_runs(task)]) == rates
    wanted = [*tuning_runs(task), *comparison_runs(task, rates, range(task.seeds))]
    if task.sweep:
        wanted += sweep_runs(task, rates, range(document["sweep_seeds"]))
    assert {run for run in curves if run.data == task.data} == set(wanted)


def test_points_are_in_order_and_bytes_are_those_of_the_layouts(document, curves):
    for run, curve in curves.items():
        steps = [point.step for point in curve.points]
        assert steps == [0, *run.marks][: len(steps)]
        assert (len(steps) == len(run.marks) + 1) == (curve.diverged_at is None)
        assert all(0 <= point.accuracy <= 1 and point.loss >= 0 for point in curve.points)
        if run.compressor is None or run.warm_up_steps or rule_of(run.compressor).travels == "gtopk-tree":
            continue
        workload = recorded_workload(document["tasks"][run.data])
        summed = run.workers if run.compressor.name == "terngrad-shared" else 1
        sizes = [payload_bytes(run.compressor, gradient_of(workload, tensor, summed)) for tensor in workload.tensors]
        whole = [tensor.size if size is None else size for size, tensor in zip(sizes, workload.tensors, strict=True)]
        if len(steps) > 2:
            before, last = curve.points[-2:]
            assert last.sent_bytes - before.sent_bytes == (last.step - before.step) * sum(whole), run.label


def test_tuning_has_a_seed_of_its_own(document):
    assert all(curve.run.seed != TUNING_SEED for curve in curves_of(document))


def test_the_same_seeds_give_the_recorded_curves(document, curves):
    """The first steps only: other processors add in another order, and training makes small differences grow."""
    rates = document["tasks"]["digits"]["rates"]
    task = next(task for task in TASKS if task.data == "digits")
    spacing = task.steps // task.points
    runs = [task.run(rates["none"], 0, name) for name in ("none", "topk:0.01", "powersgd:4")]
    again = train_runs([dataclasses.replace(run, steps=2 * spacing, points=2) for run in runs], time_limit_s=280)
    for run, curve in zip(runs, again, strict=True):
        recorded = curves[run].points[:3]
        assert [point.step for point in curve.points] == [point.step for point in recorded]
        assert [round(point.sent_bytes) for point in curve.points] == [point.sent_bytes for point in recorded]
        assert [point.loss for point in curve.points] == pytest.approx([point.loss for point in recorded], rel=0.02)
        assert curve.points[-1].accuracy == pytest.approx(recorded[-1].accuracy, abs=0.02)


def test_recording_writes_the_document_and_keeps_a_journal(tmp_path, monkeypatch, capsys):
    small = dataclasses.replace(TASKS[0], steps=4, points=2, compressors=("none", "topk:0.01"), sweep=False)
    monkeypatch.setattr(convergence, "task_named", lambda name: small)
    timings = recorder.measure_coding_against_copy(["topk:0.1"], [4096], repetitions=1)
    monkeypatch.setattr(recorder, "measure_coding_against_copy", lambda: timings)
    out, journal = tmp_path / "convergence.json", tmp_path / "curves.jsonl"
    arguments = ["--out", str(out), "--journal", str(journal), "--task", "digits", "--seeds", "2"]
    assert recorder.main(arguments) == 0
    document = json.loads(out.read_text(encoding="utf-8"))
    assert document_text(document) == out.read_text(encoding="utf-8")
    curves = [curve_of(fields) for fields in document["curves"]]
    assert len(curves) == 3 + 3 + 2 * 2
    assert set(document["tasks"]["digits"]["rates"]) == {"none", "signsgd"}
    assert document["coding"][0]["bytes"] == 4096
    assert all(document["coding"][0][name] > 0 for name in ("encode_s", "decode_s", "copy_s"))
    kept = journal.read_bytes()
    assert recorder.main(arguments) == 0
    assert journal.read_bytes() == kept
    assert "record: learning rates" in capsys.readouterr().err


def test_mistakes_are_one_line(tmp_path, capsys):
    assert recorder.main(["--out", str(tmp_path / "x.json"), "--task", "digitz"]) == 2
    assert "digitz" in capsys.readouterr().err
    assert recorder.main(["--out", str(tmp_path)]) == 2
    assert "is a folder" in capsys.readouterr().err
