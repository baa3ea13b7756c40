"""The suites traces and testbed: what they count, and that they refuse predictions that were not made before."""

import hashlib
import json
import math
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from wirebound.errors import WireboundError
from wirebound.model.library import read_published
from wirebound.study.validate_testbed import (
    _left_out_errors,
    intervals_from_other_workload,
    intervals_of_replays,
    order_of_pairs,
    recorded_cases,
    recorded_folder,
    testbed_summary,
)
from wirebound.study.validate_traces import traced_steps, traced_sums, traces_summary

testbed_summary.__test__ = False  # its name begins as a test's does


@pytest.fixture
def folder(tmp_path):
    """Copies of the recorded files, to be damaged."""
    recorded = recorded_folder()
    assert recorded is not None
    for file in recorded.glob("testbed_*vgg16.json"):
        shutil.copy(file, tmp_path)
    return tmp_path


def changed(file: Path, **values):
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | values), encoding="utf-8")


def test_traced_steps_are_replayed_as_a_queue_written_out_by_hand():
    table = traced_steps().set_index(["trace", "step"])
    for step in read_published("trace_steps.csv"):
        end = 0.0
        for message in read_published("trace_messages.csv"):
            if (message["trace"], message["step"]) == (step["trace"], step["step"]):
                end = max(end, float(message["ready_us"])) + float(message["duration_us"])
        expected = float(step["forward_us"]) + max(float(step["backward_us"]), end) + float(step["rest_us"])
        found = table.loc[(step["trace"], int(step["step"]))]
        assert found["replayed_s"] == pytest.approx(expected * 1e-6, rel=1e-9)
        assert found["replayed_ape"] == pytest.approx(100 * abs(expected / float(step["step_us"]) - 1))


def test_a_step_is_predicted_from_the_other_steps_alone():
    table = traced_steps()
    assert table.loc[table["trace"] == "unbucketed-2", "predicted_s"].isna().all()  # it has one step
    summary = traces_summary()
    assert (summary["held_out"], summary["replayed"]["points"]) == (3, 4)
    assert summary["mean_ape"] < 5
    assert summary["replayed"]["p90_ape"] < 2
    # Holistic Trace Analysis, as the importer, counts the overlap of this one as 15.6 % of communication.
    assert traced_sums().set_index("trace").loc["ddp-resnet50-2xa100", "overlap_percent"] == pytest.approx(
        15.6, abs=0.05
    )


def test_testbed_counts_what_was_recorded():
    cases, summary = recorded_cases(), testbed_summary()
    cases = cases[cases["held_out"]]
    assert summary["points"] == summary["held_out"] == len(cases) >= 40
    assert summary["mean_ape"] == pytest.approx(
        np.mean([abs(case.predicted_s / case.measured_s - 1) for case in cases.itertuples()]) * 100
    )
    assert sum(part["points"] for part in summary["by_kind"].values()) == len(cases)
    assert summary["pairs"] > 20


def test_predictions_must_be_those_that_were_hashed_and_made_before(folder):
    assert len(recorded_cases(folder)) > 10
    changed(folder / "testbed_replay_vgg16.json", workers_started_unix_s=0)
    with pytest.raises(WireboundError, match=r"testbed_replay_vgg16\.json: its predictions were written after"):
        recorded_cases(folder)
    changed(folder / "testbed_replay_vgg16.json", workers_started_unix_s=1e12)
    changed(folder / "testbed_predictions_vgg16.json", tier="another")
    with pytest.raises(WireboundError, match="hash fits no file beside it"):
        recorded_cases(folder)


def test_no_recorded_files_are_no_points(tmp_path):
    assert recorded_cases(tmp_path).empty
    assert order_of_pairs(recorded_cases(tmp_path)) == (0, 0)
    assert intervals_of_replays(0.9, tmp_path).empty
    assert intervals_from_other_workload(0.9, tmp_path).empty


def test_pairs_within_a_tenth_are_no_test_of_their_order():
    rows = [("a", 1.0, 1.0), ("b", 2.0, 1.05), ("c", 0.5, 2.0)]
    cases = pd.DataFrame(
        [
            {
                "run": run,
                "kind": "replay",
                "workload": "w",
                "batch": 0,
                "ranks": 2,
                "rate_mbps": 1.0,
                "method": m,
                "predicted_s": p,
                "measured_s": t,
            }
            for run in (0, 1)  # methods of different runs are no pairs
            for m, p, t in rows
        ]
    )
    assert order_of_pairs(cases) == (0, 4)  # a–b is a tie; c was predicted the fastest and is the slowest


def test_intervals_of_replays_hold_their_predictions_and_grow_with_the_level():
    narrow, wide = intervals_of_replays(0.5), intervals_of_replays(0.9)
    for table in (narrow, wide):
        assert (table["low_s"] <= table["predicted_s"] * (1 + 1e-9)).all()
        assert (table["high_s"] >= table["predicted_s"] * (1 - 1e-9)).all()
        assert table["promised"].all()
    assert ((wide["high_s"] - wide["low_s"]) >= (narrow["high_s"] - narrow["low_s"])).all()
    assert wide["held"].mean() > 0.75
    assert not intervals_of_replays(0.999)["promised"].any()


def test_training_runs_are_read_with_their_model_batch_and_compressor(tmp_path):
    predictions = tmp_path / "testbed_training_predictions.json"
    predictions.write_text('{"schema": "wirebound-testbed-training-predictions"}', encoding="utf-8")
    case = {"model": "resnet20", "batch_size": 16, "ranks": 2, "rate_Bps": 12.5e6, "method": "ddp"}
    slow = case | {"compressor": None, "held_out": True, "predicted_s": 0.3, "measured_s": 0.2}
    fast = case | {"compressor": "fp16", "held_out": True, "predicted_s": 0.15, "measured_s": 0.15}
    known = case | {"compressor": "topk:0.01", "held_out": False, "predicted_s": 1.0, "measured_s": 0.5}
    run = {
        "schema": "wirebound-testbed-training",
        "predictions_sha256": hashlib.sha256(predictions.read_bytes()).hexdigest(),
        "predictions_written_unix_s": 1.0,
        "workers_started_unix_s": 2.0,
        "cases": [slow, fast, known],
    }
    (tmp_path / "testbed_training.json").write_text(json.dumps(run), encoding="utf-8")
    cases = recorded_cases(tmp_path)
    assert cases[["kind", "workload", "batch", "rate_mbps"]].drop_duplicates().values.tolist() == [
        ["training", "resnet20", 16, 100.0]
    ]
    assert cases["method"].tolist() == ["ddp", "ddp fp16", "ddp topk:0.01"]
    assert cases["held_out"].tolist() == [True, True, False]
    assert cases["ape"].tolist() == pytest.approx([50, 0, 100])
    assert order_of_pairs(cases[cases["held_out"]]) == (1, 1)
    assert intervals_of_replays(0.9, tmp_path).empty


@pytest.mark.parametrize(("sharpness", "more"), [(1.0, {}), (1.0, {"sharpness": 1.7}), (2.5, {"sharpness": 1.7})])
def test_a_calibration_that_its_own_curve_describes_leaves_no_error(sharpness, more):
    """Times made of (α^m + (β·S)^m)^(1/m): every size follows from the others."""
    sizes = [64, 1000, 3000, 6000, 12_000, 24_000, 48_000, 96_000, 200_000, 400_000, 800_000, 2_000_000]
    times = [((4e-4) ** sharpness + (1.5e-8 * size) ** sharpness) ** (1 / sharpness) for size in sizes]
    assert _left_out_errors({"sizes": sizes, "median_s": times, **more}) == pytest.approx([0.0] * 12, abs=1e-4)
    bent = [time * (1.3 if index == 3 else 1) for index, time in enumerate(times)]
    assert _left_out_errors({"sizes": sizes, "median_s": bent, **more})[3] == pytest.approx(-math.log(1.3), abs=0.02)
