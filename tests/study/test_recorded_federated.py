"""What the recording of federated runs holds: everything planned, of this checkout's data, with believable values."""

import json
import math
import re
from pathlib import Path

import pytest

from wirebound.study.federated_plan import METHODS, PLAN, TASKS
from wirebound.study.federated_results import curves_of, rounds_to, uplink_to
from wirebound.study.federated_runs import federated_document, run_key, run_planned
from wirebound.study.record_federated import main

FILE = Path(__file__).parents[2] / "data" / "recorded" / "federated.json"
#: A host name, a user's folder, an address: nothing of the kind belongs into a record.
PRIVATE = re.compile(r"/home|/root|/tmp|/Users|\\Users|\d+\.\d+\.\d+\.\d+|hostname")


@pytest.fixture(scope="module")
def document():
    return json.loads(FILE.read_text(encoding="utf-8"))


def test_it_has_every_planned_run_once(document):
    assert [run_key(row) for row in document["runs"]] == list(PLAN)


def test_it_is_of_these_settings_and_data(document):
    now = federated_document()
    for part in ("format", "version", "tasks", "methods", "data"):
        assert document[part] == json.loads(json.dumps(now[part])), part
    assert document["machine"]["usable_cores"]


def test_it_is_small_and_names_no_owner():
    text = FILE.read_text(encoding="utf-8")
    assert len(text) < 400_000
    assert not PRIVATE.search(text)


@pytest.mark.parametrize(("task", "weights"), [("digits-mlp", 17_226), ("mnist-cnn", 105_866)])
def test_bytes_are_those_of_the_models(document, task: str, weights: int):
    curves = curves_of(document, task, "1")
    assert curves["fedavg"][0].uplink_bytes == curves["fedavg"][0].downlink_bytes == 4 * weights
    assert curves["topk"][0].uplink_bytes == 8 * math.ceil(0.05 * weights)
    buckets = math.ceil(weights / 512)
    assert curves["quantize"][0].uplink_bytes == 8 * buckets + math.ceil(weights / 8)
    assert curves["dropout"][0].downlink_bytes == curves["dropout"][0].uplink_bytes < 4 * 0.75 * weights


def test_averaging_learns_and_clients_hold_all_samples(document):
    for task, least in (("digits-mlp", 0.93), ("mnist-cnn", 0.88)):
        for curve in curves_of(document, task, "1")["fedavg"]:
            assert curve.accuracy[-1] > least
            data = document["data"][TASKS[task].data]
            assert sum(curve.sizes) == data["train"]
            assert len(curve.sampled) == TASKS[task].rounds
            # accuracies are counts of test samples
            right = curve.accuracy[-1] * data["test"]
            assert right == pytest.approx(round(right), abs=0.05)


def test_averaging_saves_rounds_and_one_bit_saves_bytes_with_every_seed(document):
    for alpha in ("inf", "1", "0.1"):
        curves = curves_of(document, "digits-mlp", alpha)
        for single, epoch, epochs in zip(curves["fedsgd"], curves["fedavg"], curves["epochs-5"], strict=True):
            assert single.seed == epoch.seed == epochs.seed
            assert rounds_to(single, 0.9) > rounds_to(epoch, 0.9) > rounds_to(epochs, 0.9)
    for task in TASKS:
        curves = curves_of(document, task, "1")
        for whole, coded in zip(curves["fedavg"], curves["quantize"], strict=True):
            assert uplink_to(whole, 0.9) > 20 * uplink_to(coded, 0.9)


def test_a_recorded_run_can_be_repeated(document):
    """The splits exactly; accuracies but for the order of sums on another processor."""
    planned = next(one for one in PLAN if one.method == "fedsgd")
    split, row = run_planned(planned)
    recorded = next(row for row in document["runs"] if run_key(row) == planned)
    assert split in document["splits"]
    assert (row["uplink_bytes"], row["downlink_bytes"]) == (recorded["uplink_bytes"], recorded["downlink_bytes"])
    assert row["accuracy"][:3] == pytest.approx(recorded["accuracy"][:3], abs=0.03)
    assert set(METHODS) == {one.method for one in PLAN}


def test_the_recorder_refuses_what_it_cannot_add_to(tmp_path, capsys):
    other = tmp_path / "other.json"
    other.write_text("[]", encoding="utf-8")
    assert main(["--out", str(other)]) == 2
    assert main(["--out", str(other), "--processes", "0"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert "is no recording" in said[0]
    assert "--processes 0" in said[1]
    assert other.read_text(encoding="utf-8") == "[]"
