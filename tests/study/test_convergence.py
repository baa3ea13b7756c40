"""Tables of the experiments on accuracy: against numbers worked out by hand, and against other programs."""

import dataclasses
import hashlib
import json
import math

import pytest
from scipy import stats

from wirebound.errors import InputError
from wirebound.model import Cluster, Codec, Link, Tensor, Workload, method_named
from wirebound.simulate.compressors import compressor_named
from wirebound.simulate.step import simulate_step
from wirebound.study.convergence import (
    TASKS,
    TUNING_SEED,
    comparison_runs,
    good_rates,
    sweep_runs,
    task_named,
    tuning_runs,
)
from wirebound.study.convergence_tables import (
    curves_of,
    interval,
    methods_table,
    plain_methods,
    points_table,
    ratio_interval,
    runs_table,
    steps_to,
)
from wirebound.study.convergence_time import live_step_gains, recorded_workload, step_gains, time_gains
from wirebound.techniques.learning.runs import Curve, Point

TASK = task_named("digits")
RATES = {"digits": 0.05}


def curve(accuracies, seed=0, compressor="none", *, step_bytes=100, diverged_at=None, rate=0.05):
    run = dataclasses.replace(TASK.run(rate, seed, compressor), steps=max(1, 10 * (len(accuracies) - 1)))
    points = tuple(Point(10 * n, 10.0 * n * step_bytes, 1.0, value) for n, value in enumerate(accuracies))
    return Curve(run, points, diverged_at, 1.0)


PLAIN = [curve([0.0, 0.4, 0.8, 0.8, 0.8], seed) for seed in range(3)]
SLOW = [curve([0.0, 0.2, 0.4, 0.6, 0.8], seed, "topk:0.01", step_bytes=2) for seed in range(3)]


def test_intervals_are_students():
    values = [0.91, 0.94, 0.92, 0.97]
    found = interval(values)
    low, high = stats.t.interval(0.95, 3, loc=found.mean, scale=stats.sem(values))
    assert (found.low, found.high) == pytest.approx((low, high))
    assert interval([0.5]) == (0.5, 0.5, 0.5)
    assert math.isnan(interval([]).mean)
    assert ratio_interval([0.5, 2.0]).mean == pytest.approx(1.0)
    assert ratio_interval([2.0, 2.0]) == pytest.approx((2, 2, 2))


def test_steps_to_an_accuracy_are_read_off_between_points():
    assert steps_to(PLAIN[0], 0.6) == pytest.approx(15)
    assert steps_to(PLAIN[0], 0.4) == pytest.approx(10)
    assert steps_to(PLAIN[0], 0.9) is None
    assert steps_to(curve([0.5, 0.4]), 0.3) == 0


def test_methods_are_compared_with_the_plain_run_of_the_same_seed():
    runs = runs_table([*PLAIN, *SLOW], RATES, target_share=0.75)
    assert list(runs["target"]) == pytest.approx([0.6] * 6)
    table = methods_table(runs).set_index("compressor")
    slow = table.loc["topk:0.01"]
    assert slow["steps_ratio"] == slow["steps_ratio_low95"] == pytest.approx(30 / 15)
    assert slow["lost"] == pytest.approx(0.8 - 0.6)
    assert slow["saved"] == pytest.approx(0.98)
    assert (slow["seeds"], slow["arrived"], slow["diverged"]) == (3, 3, 0)
    assert table.loc["none", "steps_ratio"] == pytest.approx(1)
    assert table.loc["none", "lost"] == 0


def test_runs_that_diverge_or_do_not_arrive_are_counted():
    lame = [curve([0.0, 0.1, 0.2], 0, "topk:0.01"), curve([0.0], 1, "topk:0.01", diverged_at=3), SLOW[2]]
    row = methods_table(runs_table([*PLAIN, *lame], RATES, 0.75)).set_index("compressor").loc["topk:0.01"]
    assert (row["seeds"], row["arrived"], row["diverged"]) == (3, 1, 1)
    assert row["lost"] == pytest.approx(0.8 - (0.1 + 0.6) / 2)
    assert math.isnan(row["steps_ratio"])


def test_a_method_that_diverged_with_every_seed_has_no_means():
    lost = [curve([0.0], seed, "topk:0.01", diverged_at=3) for seed in range(3)]
    row = methods_table(runs_table([*PLAIN, *lost], RATES, 0.75)).set_index("compressor").loc["topk:0.01"]
    assert (row["seeds"], row["arrived"], row["diverged"]) == (3, 0, 3)
    assert math.isnan(row["accuracy"])
    assert math.isnan(row["lost"])


def test_the_plain_run_is_the_one_at_the_rate_of_the_task():
    fast = [curve([0.0, 0.9, 0.9, 0.9], seed, rate=0.15) for seed in range(3)]
    table = methods_table(runs_table([*PLAIN, *fast], RATES, 0.75)).set_index("learning_rate")
    assert table.loc[0.05, "lost"] == 0
    assert table.loc[0.15, "lost"] == pytest.approx(-0.1)
    assert table.loc[0.15, "steps_ratio"] == pytest.approx(10 * 0.6 / 0.9 / 15)


def test_a_run_without_its_plain_run_is_left_out():
    assert len(runs_table([PLAIN[0], SLOW[0], SLOW[1]], RATES, 0.75)) == 2


def test_points_are_one_row_each():
    table = points_table([*PLAIN, SLOW[0]])
    assert len(table) == 20
    assert set(table["compressor"]) == {"none", "topk:0.01"}


def test_rates_are_the_smallest_that_come_close_to_the_best():
    tuning = [
        curve([0, 0.5, 0.7], TUNING_SEED, rate=0.02),
        curve([0, 0.7, 0.8], TUNING_SEED, rate=0.05),
        curve([0, 0.7, 0.805], TUNING_SEED, rate=0.15),
        curve([0], TUNING_SEED, "signsgd", rate=0.003, diverged_at=1),
        curve([0, 0.2, 0.3], TUNING_SEED, "signsgd", rate=0.001),
    ]
    assert good_rates(tuning) == {"none": 0.05, "signsgd": 0.001}
    document = {"curves": [one.fields() for one in [*tuning, *PLAIN]]}
    assert curves_of(document) == PLAIN
    assert curves_of(document, seeds=2) == PLAIN[:2]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.data)
def test_no_run_is_asked_for_twice_and_all_compressors_are_there(task):
    rates = {"none": task.rates[1], "signsgd": task.sign_rates[0]}
    runs = [*tuning_runs(task), *comparison_runs(task, rates, range(3))]
    assert len(set(runs)) == len(runs) == len(task.rates) + len(task.sign_rates) + 3 * len(task.compressors)
    assert len({run.label for run in runs}) == len(task.compressors) >= 12
    assert {run.learning_rate for run in runs if run.label == "signsgd" and run.seed != TUNING_SEED} == {
        task.sign_rates[0]
    }


def test_the_sweep_varies_what_it_says():
    rates = {"none": 0.05, "signsgd": 0.001}
    runs = sweep_runs(TASK, rates, [0])
    assert len(set(runs)) == len(runs)
    assert {run.label for run in runs if not run.error_feedback} >= {"topk:0.1", "topk:0.001", "onebit", "ef-signsgd"}
    assert {run.warm_up_steps for run in runs if run.label == "dgc:0.001"} == {0, TASK.steps // 20}
    assert {run.learning_rate for run in runs if run.label == "qsgd:1,512"} == {0.05, 0.15}
    with pytest.raises(InputError, match=r"digitz.*digits"):
        task_named("digitz")


WORKLOAD = Workload("one", 8, (Tensor("w", 4_000_000, 0.01, shape=(1000, 1000)),), forward_s=0.005)
RECORDED = {
    "name": "one",
    "step": {"batch_size": 8, "forward_s": 0.005, "optimizer_s": 0.0, "tensors": [["w", [1000, 1000], 0.01]]},
}


def test_a_recorded_task_is_a_workload():
    assert recorded_workload(RECORDED) == WORKLOAD


def test_time_gain_is_step_gain_over_steps_ratio():
    codec = Codec(encode_s=1e-3)
    cluster = Cluster(4, Link(1.0, 2e-5))
    steps = step_gains(WORKLOAD, {"four": cluster}, {"1 Gbps": 1.25e8}, {"topk:0.01": codec}, method="ddp")
    there = Cluster(4, Link(1.25e8, 2e-5))
    plain = simulate_step(WORKLOAD, there, method_named("ddp")).iteration_s
    coded = simulate_step(WORKLOAD, there, method_named("ddp", compressor=compressor_named("topk:0.01", codec)))
    assert steps.loc[0, "step_gain"] == pytest.approx(plain / coded.iteration_s)
    assert steps.loc[0, "nominal_ratio"] == pytest.approx(4_000_000 / (8 * 10_000))
    methods = methods_table(runs_table([*PLAIN, *SLOW], RATES, 0.75))
    gains = time_gains(steps, methods)
    assert gains.loc[0, "time_gain"] == pytest.approx(plain / coded.iteration_s / 2)
    lame = methods_table(runs_table([*PLAIN, *SLOW[:2], curve([0, 0.1], 2, "topk:0.01")], RATES, 0.75))
    assert math.isnan(time_gains(steps, lame).loc[0, "time_gain"])


def test_methods_of_the_comparison_are_those_at_its_rates():
    sweep = [curve([0, 0.1], seed, "topk:0.01", rate=0.02) for seed in range(3)]
    table = methods_table(runs_table([*PLAIN, *SLOW, *sweep], RATES, 0.75))
    chosen = plain_methods(table, "digits", ["topk:0.01", "none", "absent"], {"none": 0.05})
    assert list(chosen["compressor"]) == ["topk:0.01", "none"]
    assert chosen.loc[0, "learning_rate"] == 0.05


def test_live_step_gains_compare_with_the_plain_step_of_the_same_run(tmp_path):
    predictions = b"{}"
    (tmp_path / "testbed_predictions.json").write_bytes(predictions)
    common = {"model": "resnet20", "ranks": 2, "rate_Bps": 1.25e7, "method": "ddp"}
    cases = [
        common | {"compressor": None, "predicted_s": 0.4, "measured_s": 0.5},
        common | {"compressor": "topk:0.01", "predicted_s": 0.1, "measured_s": 0.2},
        common | {"method": "bsp-a2a", "compressor": None, "predicted_s": 9.0, "measured_s": 9.0},
    ]
    run = {
        "predictions_sha256": hashlib.sha256(predictions).hexdigest(),
        "predictions_written_unix_s": 1,
        "workers_started_unix_s": 2,
        "cases": cases,
    }
    (tmp_path / "testbed_training.json").write_text(json.dumps(run), encoding="utf-8")
    table = live_step_gains(tmp_path)
    assert len(table) == 1
    assert table.loc[0, "compressor"] == "topk:0.01"
    assert table.loc[0, "error_percent"] == pytest.approx(50)
    assert table.loc[0, "predicted_gain"] == pytest.approx(4)
    assert table.loc[0, "measured_gain"] == pytest.approx(2.5)


def test_the_recorded_live_steps_hold_compressors():
    table = live_step_gains()
    if table.empty:
        pytest.skip("no recorded steps with compressors beside this package")
    assert {"fp16", "topk:0.01", "powersgd:2"} <= set(table["compressor"])
    assert (table["error_percent"] >= 0).all()
