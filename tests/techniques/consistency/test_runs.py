"""Real processes under each protocol: bounds hold, and what must be equal to SGD in one process is."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.utils import parameters_to_vector

from wirebound.errors import InputError
from wirebound.model.compute_time import ComputeTime
from wirebound.techniques.consistency.learner import worker_batches
from wirebound.techniques.consistency.plan import Outcome, Plan, plan_from
from wirebound.techniques.consistency.run import run_plans
from wirebound.techniques.learning.data import data_set
from wirebound.techniques.learning.models import learning_model, mean_loss

WORKERS, STEPS, BOUND = 4, 24, 2
RING = tuple(((worker - 1) % WORKERS, (worker + 1) % WORKERS) for worker in range(WORKERS))
EQUAL = ComputeTime(0.01, "lognormal", 0.2)
STRAGGLER = replace(EQUAL, factors=(3.0,))
BASE = Plan("bsp", EQUAL, workers=WORKERS, steps=STEPS, batch_size=8, seed=5, snapshots=4)
PLANS = {
    "bsp": BASE,
    "local-sgd:1": replace(BASE, protocol="local-sgd", parameter=1),
    "ssp": replace(BASE, protocol="ssp", parameter=BOUND, compute=STRAGGLER),
    # Long steps: the order in which equal workers come is then theirs, and not that of a busy machine.
    "asp": replace(BASE, protocol="asp", steps=30, compute=replace(EQUAL, mean_s=0.05)),
    "busy server": replace(BASE, protocol="asp", steps=10, server_s=0.01, skewed=True),
    "local-sgd": replace(BASE, protocol="local-sgd", parameter=6, compute=STRAGGLER, skewed=True),
    "gossip": replace(BASE, protocol="gossip", neighbours=RING, compute=STRAGGLER),
    "mixing": replace(BASE, protocol="gossip", neighbours=RING, learning_rate=0.0, own_start=True),
    "own start": replace(BASE, protocol="gossip", neighbours=RING, learning_rate=0.0, own_start=True, steps=1),
    "everybody": replace(
        BASE, protocol="gossip", neighbours=tuple(tuple({*range(WORKERS)} - {own}) for own in range(WORKERS))
    ),
}


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    return dict(zip(PLANS, run_plans(list(PLANS.values()), time_limit_s=240), strict=True))


def models_of(outcome: Outcome) -> np.ndarray:
    return np.array(outcome.models)


@pytest.fixture(scope="module")
def whole_batch() -> np.ndarray:
    """The parameters after SGD in this process, on batches put together from those of the workers."""
    data = data_set(BASE.data)
    model = learning_model(BASE.model, data, BASE.seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=BASE.learning_rate)
    batches = zip(*[worker_batches(BASE, data, worker) for worker in range(WORKERS)], strict=True)
    for parts in itertools.islice(batches, STEPS):
        optimizer.zero_grad()
        mean_loss(model, torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])).backward()
        optimizer.step()
    return parameters_to_vector(model.parameters()).detach().numpy()


@pytest.mark.parametrize("name", ["bsp", "local-sgd:1", "everybody"])
def test_what_averages_every_step_is_sgd_on_the_whole_batch(name, outcomes, whole_batch):
    models = models_of(outcomes[name])
    assert len(models) == (1 if name == "bsp" else WORKERS)
    np.testing.assert_allclose(models, np.broadcast_to(whole_batch, models.shape), atol=2e-5)


def test_every_update_is_told_once_and_in_its_order(outcomes):
    for outcome in outcomes.values():
        plan = outcome.plan
        assert len(outcome.steps) == plan.updates
        for worker in range(WORKERS):
            own = [step for step in outcome.steps if step.worker == worker]
            assert [step.clock for step in own] == list(range(len(own)))
            assert [step.planned_s for step in own] == list(
                itertools.islice(plan.compute.draws(worker, plan.seed), len(own))
            )
            for step, following in itertools.pairwise(own):
                assert step.end_s <= following.start_s
            assert all(step.start_s + step.planned_s <= step.computed_s <= step.end_s for step in own)


def test_ssp_never_exceeds_its_bound_and_reaches_it(outcomes):
    outcome = outcomes["ssp"]
    assert max(one.ahead for one in outcome.applied) == BOUND
    clocks = [0] * WORKERS
    for one in outcome.applied:  # a second account, from the order of application alone
        clocks[one.worker] += 1
        assert max(clocks) - min(clocks) <= BOUND + 1
    assert {one.ahead for one in outcomes["bsp"].applied} == {0}


def test_staleness_counts_the_updates_between_read_and_application(outcomes):
    for name in ("ssp", "asp", "busy server"):
        outcome = outcomes[name]
        version = {(step.worker, step.clock): step.version for step in outcome.steps}
        assert [one.staleness for one in outcome.applied] == [
            number - version[one.worker, one.clock] for number, one in enumerate(outcome.applied)
        ]


def test_asp_is_as_stale_as_there_are_other_workers(outcomes):
    staleness = [one.staleness for one in outcomes["asp"].applied][WORKERS:]
    assert np.mean(staleness) == pytest.approx(WORKERS - 1, rel=0.05)


def test_nobody_waits_for_the_straggler_under_asp_only(outcomes):
    assert all(one.staleness == 0 for one in outcomes["bsp"].applied)
    slow_s = sum(step.planned_s for step in outcomes["gossip"].steps if step.worker == 0)
    for name in ("gossip", "local-sgd"):
        ends = [step.end_s for step in outcomes[name].steps if step.clock == STEPS - 1]
        assert len(ends) == WORKERS
        assert min(ends) > 0.8 * slow_s


def test_a_busy_server_applies_no_more_than_it_can(outcomes):
    outcome = outcomes["busy server"]
    taken = [one.taken_s for one in outcome.applied]
    assert all(one.free_s - one.taken_s >= outcome.plan.server_s for one in outcome.applied)
    assert min(b - a for a, b in itertools.pairwise(taken)) >= outcome.plan.server_s
    assert all(one.come_s <= one.taken_s for one in outcome.applied)


def test_gossip_keeps_the_mean_and_brings_models_together(outcomes):
    data = data_set(BASE.data)
    starts = np.array(
        [
            parameters_to_vector(learning_model(BASE.model, data, BASE.seed + 1_000 * worker).parameters())
            .detach()
            .numpy()
            for worker in range(WORKERS)
        ]
    )
    once, often = models_of(outcomes["own start"]), models_of(outcomes["mixing"])
    for models in (once, often):
        np.testing.assert_allclose(models.mean(axis=0), starts.mean(axis=0), atol=1e-6)
    # Ring of four with weights 1/3: disagreement shrinks by 1/3 a step, in every direction.
    before, after = (np.linalg.norm(models - models.mean(axis=0)) for models in (starts, once))
    assert after == pytest.approx(before / 3, rel=1e-4)
    assert np.abs(often - often.mean(axis=0)).max() < 1e-6


def test_curves_begin_with_the_start_and_learn(outcomes):
    for name in ("bsp", "ssp", "asp", "local-sgd", "gossip"):
        outcome = outcomes[name]
        curve = outcome.curve
        assert curve[0].updates == 0
        assert curve[-1].updates == outcome.plan.updates
        assert all(a.seconds <= b.seconds for a, b in itertools.pairwise(curve))
        assert curve[-1].seconds <= outcome.seconds
        assert curve[-1].loss < curve[0].loss


def test_averages_count_the_exchanges_of_a_model(outcomes):
    assert {(step.clock, step.version) for step in outcomes["local-sgd"].steps} == {(k, k // 6) for k in range(STEPS)}


def test_a_skewed_shard_has_few_classes():
    data, plan = data_set("digits"), replace(BASE, skewed=True)
    for worker in range(WORKERS):
        _, targets = next(worker_batches(replace(plan, batch_size=10_000), data, worker))
        assert len(targets.unique()) <= 4


def test_a_plan_survives_json():
    import json

    assert plan_from(json.loads(json.dumps(PLANS["gossip"].document()))) == PLANS["gossip"]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"protocol": "bps"}, "bps"),
        ({"workers": 0}, "workers = 0"),
        ({"learning_rate": -1.0}, "-1.0"),
        ({"parameter": 3}, "takes no parameter"),
        ({"protocol": "ssp"}, "at least 0"),
        ({"protocol": "local-sgd", "parameter": 0}, "at least 1"),
        ({"protocol": "local-sgd", "parameter": 7}, "multiple of the period 7"),
        ({"protocol": "gossip"}, "neighbours of each"),
        ({"protocol": "gossip", "neighbours": ((1,), (0,), (0,), (0,))}, "worker 0"),
        ({"protocol": "gossip", "neighbours": ((0,), (1,), (2,), (3,))}, "worker 0"),
        ({"compute": replace(EQUAL, factors=(1.0,) * 5)}, "5 factors"),
    ],
)
def test_a_mistake_in_a_plan_is_named(change, named):
    with pytest.raises(InputError, match=named):
        replace(BASE, **change)


def test_plans_that_cannot_run_together_are_refused():
    with pytest.raises(InputError, match="run them apart"):
        run_plans([BASE, replace(BASE, workers=2)])
    with pytest.raises(InputError, match="mpl"):
        run_plans([replace(BASE, model="mpl")])
    assert run_plans([]) == []
