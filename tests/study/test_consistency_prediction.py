"""What is predicted and what is measured are counted alike; the recorded run was predicted from its own inputs."""

import itertools
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from wirebound.errors import InputError
from wirebound.model.compute_time import ComputeTime
from wirebound.simulate.consistency import trace
from wirebound.simulate.consistency_protocols import consistency_named
from wirebound.study.consistency_prediction import (
    Costs,
    calibration,
    costs_of,
    distance,
    measured,
    plan_of,
    predicted,
)
from wirebound.study.record_consistency import (
    PARTS,
    PROTOCOLS,
    SEEDS,
    STRAGGLERS,
    TASKS,
    WORKER_COUNTS,
    best_rates,
    compute_time,
    costs_from,
    main,
)
from wirebound.techniques.consistency.plan import Applied, Outcome, Plan, Step

RECORDED = Path(__file__).parents[2] / "data" / "recorded" / "consistency.json"
PRIVATE = re.compile(r"/home|/root|/tmp|/Users|\\Users|\d+\.\d+\.\d+\.\d+|hostname")
EVEN = ComputeTime(1.0)


def test_without_jitter_the_prediction_is_arithmetic():
    """Steps of 1 s, one worker 3 s, exchanges of 0.5 s, 4 workers, 12 steps: BSP takes 3.5 s a step."""
    slow = replace(EVEN, factors=(3.0,))
    told = predicted(plan_of("bsp", slow, workers=4, steps=12), "bsp", Costs(0.5, 9.0))
    assert told.steps_per_s == pytest.approx(4 / 3.5)
    # Three workers wait 2 of 3.5 s, but for the last step, after which nobody waits.
    assert told.waiting == pytest.approx(3 * 11 * 2 / (12 * 3.5 + 3 * (11 * 3.5 + 1.5)))
    assert told.staleness == {0: 48}
    assert predicted(plan_of("gossip:ring", slow, workers=4, steps=12), "gossip:ring", Costs(0.5)).staleness == {}


def test_a_server_that_is_busy_for_long_limits_the_rate():
    plan = plan_of("asp", EVEN, workers=4, steps=50)
    assert predicted(plan, "asp", Costs(0.5, 0.5)).steps_per_s == pytest.approx(2, rel=0.02)


def bsp_outcome() -> Outcome:
    """Two workers, two steps of 1 s and 2 s of compute, exchanges of 0.25 s after the slower one."""
    plan = Plan("bsp", EVEN, workers=2, steps=2)
    steps = [
        Step(worker, clock, 2 * clock, 1.0 + worker, 2.25 * clock, 2.25 * clock + 1 + worker, 2.25 * (clock + 1))
        for clock in range(2)
        for worker in range(2)
    ]
    applied = [
        Applied(step.worker, step.clock, 0, 0, step.end_s - 0.15, step.end_s - 0.1, step.end_s) for step in steps
    ]
    return Outcome(plan, tuple(steps), tuple(applied), (), ())


def test_an_exchange_costs_what_comes_after_the_last_worker():
    assert costs_of(bsp_outcome()) == Costs(pytest.approx(0.25))
    told = measured(bsp_outcome(), Costs(0.25))
    assert told.steps_per_s == pytest.approx(4 / 4.5)
    assert told.waiting == pytest.approx(2 * 1 / 9)
    assert told.staleness == {0: 4}


def test_of_servers_that_apply_one_by_one_the_work_is_known_too():
    outcome = replace(bsp_outcome(), plan=Plan("asp", EVEN, workers=2, steps=2))
    # Not counting 0.05 s in the queue, nor the first steps.
    assert costs_of(outcome) == Costs(pytest.approx((1.2 + 0.2) / 2), pytest.approx(0.1))


@pytest.mark.parametrize("spec", PROTOCOLS)
def test_a_run_that_goes_as_simulated_is_measured_as_predicted(spec):
    """Steps made from the engine's trace: both sides count speed, waiting and staleness alike."""
    costs = Costs(0.002, 0.001)
    plan = plan_of(spec, compute_time(0.02, 1.5), workers=4, steps=40, seed=3)
    server_s = costs.server_s if plan.protocol in ("ssp", "asp") else 0.0
    run = trace(4, plan.compute, costs.exchange_s, consistency_named(spec), seed=3, server_s=server_s)
    updates = list(itertools.islice(run, plan.updates))
    draws = [plan.compute.draws(worker, plan.seed) for worker in range(4)]
    steps, applied = [], []
    for update in updates:
        compute_s = next(draws[update.worker])
        # The engine lets a worker wait before its next step, a real one before its exchange ends.
        steps.append(Step(update.worker, update.clock, 0, compute_s, update.start_s, update.start_s + compute_s, 0.0))
        applied.append(Applied(update.worker, update.clock, update.staleness, update.age, 0.0, 0.0, 0.0))
    for number, (step, update) in enumerate(zip(steps, updates, strict=True)):
        following = [later.start_s for later in updates[number + 1 :] if later.worker == step.worker]
        steps[number] = step._replace(end_s=max(update.end_s, following[0] if following else 0.0))
    outcome = Outcome(plan, tuple(steps), tuple(applied) if plan.has_server else (), (), ())
    foretold, went = predicted(plan, spec, costs), measured(outcome, costs)
    assert went.steps_per_s == pytest.approx(foretold.steps_per_s)
    assert went.waiting == pytest.approx(foretold.waiting, abs=0.01)
    assert went.staleness == foretold.staleness


def test_a_calibration_has_no_straggler_and_other_random_numbers():
    plan = plan_of("local-sgd:4", compute_time(0.02, 3.0), workers=8, steps=40, seed=1)
    alone = calibration(plan, 30)
    assert (alone.steps, alone.parameter) == (30, 1)
    assert alone.compute.factors == ()
    assert alone.seed != plan.seed
    assert calibration(plan_of("ssp:3", EVEN), 10).protocol == "asp"


def test_plans_follow_their_names():
    assert plan_of("ssp:3", EVEN).parameter == 3
    assert [sorted(peers) for peers in plan_of("gossip:ring", EVEN).neighbours] == [[1, 3], [0, 2], [1, 3], [0, 2]]
    with pytest.raises(InputError, match="bps"):
        plan_of("bps", EVEN)


def test_distance_of_distributions():
    assert distance({1: 2, 2: 2}, {1: 10, 2: 10}) == 0
    assert distance({1: 1}, {2: 1}) == 1
    assert distance({1: 1, 2: 1}, {1: 1}) == pytest.approx(0.5)
    assert distance({}, {}) == 0
    assert distance({}, {1: 1}) == 1


def test_the_recorder_refuses_what_it_cannot_do_in_one_line(tmp_path, capsys):
    other = tmp_path / "other.json"
    other.write_text("{}", encoding="utf-8")
    assert main(["--out", str(other), "--part", "speed"]) == 2
    assert "not a record of this command" in capsys.readouterr().err
    assert main(["--out", str(tmp_path / "new.json"), "--part", "digits"]) == 2
    assert "record the part digits-rates first" in capsys.readouterr().err
    assert not (tmp_path / "new.json").exists()


@pytest.fixture(scope="module")
def recorded():
    return json.loads(RECORDED.read_text(encoding="utf-8"))


def test_the_record_is_whole_small_and_names_nobody(recorded):
    text = RECORDED.read_text(encoding="utf-8")
    assert len(text) < 400_000
    assert not PRIVATE.search(text)
    assert {"speed", "digits-rates", "digits"} <= set(recorded["parts"]) <= set(PARTS)
    assert all({"cores", "python", "torch"} <= set(part["machine"]) for part in recorded["parts"].values())
    cases = {(c["protocol"], c["workers"], c["straggler"]) for c in recorded["parts"]["speed"]["cases"]}
    assert cases == {(spec, n, factor) for spec in PROTOCOLS for n in WORKER_COUNTS for factor in STRAGGLERS}
    for task in TASKS.keys() & recorded["parts"].keys():
        runs = recorded["parts"][task]["runs"]
        assert {run["seed"] for run in runs} == set(SEEDS[task])
        assert {(run["protocol"], run["straggler"]) for run in runs} == {(s, f) for s in PROTOCOLS for f in (1.0, 3.0)}
        for run in runs:
            assert run["learning_rate"] == best_rates(recorded)[task, run["protocol"]]
            assert run["curve"][-1][0] == run["workers"] * run["steps"]
            assert run["curve"][-1][2] < run["curve"][0][2]


def test_recorded_predictions_follow_from_recorded_inputs(recorded):
    part = recorded["parts"]["speed"]
    costs = {(row["workers"], row["protocol"], row["server_s"]): costs_from(row) for row in part["calibration"]}
    for case in part["cases"]:
        plan = plan_of(
            case["protocol"],
            compute_time(case["mean_s"], case["straggler"]),
            workers=case["workers"],
            steps=case["steps"],
            seed=case["seed"],
            server_s=case["server_s"],
        )
        again = predicted(plan, case["protocol"], costs[case["workers"], case["protocol"], case["server_s"]])
        assert again.steps_per_s == pytest.approx(case["predicted"]["steps_per_s"], abs=1e-3)
        assert {str(value): times for value, times in again.staleness.items()} == case["predicted"]["staleness"]


def test_recorded_runs_kept_the_bounds_of_their_protocols(recorded):
    for case in recorded["parts"]["speed"]["cases"]:
        consistency = consistency_named(case["protocol"])
        if consistency.name == "ssp":
            assert case["largest_ahead"] <= consistency.parameter
        if consistency.name in ("ssp", "asp"):
            assert sum(case["measured"]["staleness"].values()) == case["steps"] * case["workers"]
        # No run was faster than its slowest worker's planned compute, where somebody waits for that.
        if consistency.name in ("bsp", "local-sgd", "gossip"):
            slowest_s = case["straggler"] * case["mean_s"] * case["steps"]
            assert case["measured"]["steps_per_s"] < 1.1 * case["workers"] * case["steps"] / slowest_s
