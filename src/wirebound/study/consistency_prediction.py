"""What the engine says about a run under a consistency protocol, and what the run's processes told, side by side."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from statistics import fmean

from wirebound.model.compute_time import ComputeTime
from wirebound.simulate.consistency import trace
from wirebound.simulate.consistency_graphs import neighbours
from wirebound.simulate.consistency_protocols import consistency_named
from wirebound.techniques.consistency.plan import Outcome, Plan, Step

#: The seed of calibrations is this far from that of the run that they are for.
CALIBRATION_SEED = 7_919


@dataclass(frozen=True, slots=True)
class Costs:
    """What the machine adds to planned compute: seconds of a lone exchange, and of the server's work for an update."""

    exchange_s: float
    server_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How a run went: steps of all workers in a second, the share of their time that they waited, mean over them, and
    how often each staleness was seen (staleness → times; empty without a server)."""

    steps_per_s: float
    waiting: float
    staleness: Mapping[int, int]

    @property
    def mean_staleness(self) -> float:
        """The mean; 0 where there is none."""
        total = sum(self.staleness.values())
        return sum(value * times for value, times in self.staleness.items()) / total if total else 0.0


def plan_of(spec: str, compute: ComputeTime, **fields: object) -> Plan:
    """Return the plan of a protocol as `consistency_named` reads it, such as ``ssp:3`` or ``gossip:ring``.

    `fields` are those of `Plan`. Raises `InputError` as both do.
    """
    consistency = consistency_named(spec)
    plan = Plan("asp", compute, **fields)  # type: ignore[arg-type]
    if consistency.name == "gossip":
        assert consistency.parameter is not None
        return replace(plan, protocol="gossip", neighbours=neighbours(consistency.parameter, plan.workers))
    assert not isinstance(consistency.parameter, str)
    return replace(plan, protocol=consistency.name, parameter=consistency.parameter)


def calibration(plan: Plan, steps: int) -> Plan:
    """Return a run from which `costs_of` learns what exchanges cost: no straggler, another seed.

    SSP's are those of ASP, and local SGD exchanges after every step here.
    """
    protocol, parameter = {"ssp": ("asp", None), "local-sgd": ("local-sgd", 1)}.get(
        plan.protocol, (plan.protocol, plan.parameter)
    )
    return replace(
        plan,
        protocol=protocol,
        parameter=parameter,
        compute=replace(plan.compute, factors=()),
        seed=plan.seed + CALIBRATION_SEED,
        steps=steps,
        snapshots=1,
    )


def costs_of(outcome: Outcome) -> Costs:
    """Return the mean seconds from when the last worker of an exchange had computed to its end, and of an update.

    Under ASP an exchange has one worker, and the time in the server's queue does not count; under BSP and local SGD
    all take part, under gossip the neighbours. Each worker's first step is left out. Means, since times add up: now and
    then a process waits for a core, and that is part of what an exchange costs.
    """
    plan = outcome.plan
    computed_s = {(step.worker, step.clock): step.computed_s for step in outcome.steps}
    everybody = tuple(tuple(range(plan.workers)) for _ in range(plan.workers))
    heard = {"asp": ((),) * plan.workers, "ssp": ((),) * plan.workers, "gossip": plan.neighbours}.get(
        plan.protocol, everybody
    )
    one_by_one = [] if plan.protocol == "bsp" else [one for one in outcome.applied if one.clock > 0]
    queued_s = {(one.worker, one.clock): one.taken_s - one.come_s for one in one_by_one}
    lone_s = [
        step.end_s
        - max(computed_s[peer, step.clock] for peer in (step.worker, *heard[step.worker]))
        - queued_s.get((step.worker, step.clock), 0.0)
        for step in outcome.steps
        if exchanges(plan, step) and step.clock > 0
    ]
    busy_s = [one.free_s - one.taken_s for one in one_by_one]
    return Costs(fmean(lone_s), fmean(busy_s) if busy_s else 0.0)


def exchanges(plan: Plan, step: Step) -> bool:
    """Whether a step ends with an exchange."""
    return plan.protocol != "local-sgd" or (step.clock + 1) % (plan.parameter or 1) == 0


def predicted(plan: Plan, spec: str, costs: Costs) -> Behaviour:
    """Simulate the very run: the planned compute times of its seed, from its start, for as many updates."""
    server_s = costs.server_s if plan.protocol in ("ssp", "asp") else 0.0
    run = trace(
        plan.workers, plan.compute, costs.exchange_s, consistency_named(spec), seed=plan.seed, server_s=server_s
    )
    updates = list(islice(run, plan.updates))
    ends = {update.worker: update.end_s for update in updates}
    return Behaviour(
        plan.updates / max(ends.values()),
        math.fsum(update.waited_s for update in updates) / math.fsum(ends.values()),
        dict(sorted(Counter(update.staleness for update in updates).items())) if plan.has_server else {},
    )


def measured(outcome: Outcome, costs: Costs) -> Behaviour:
    """Return what the processes told: a step waited for what its exchange took longer than a lone one."""
    waited_s = math.fsum(
        max(0.0, step.end_s - step.computed_s - costs.exchange_s)
        for step in outcome.steps
        if exchanges(outcome.plan, step)
    )
    ends = {step.worker: step.end_s for step in outcome.steps}
    return Behaviour(
        outcome.steps_per_s,
        waited_s / math.fsum(ends.values()),
        dict(sorted(Counter(one.staleness for one in outcome.applied).items())),
    )


def distance(first: Mapping[int, int], second: Mapping[int, int]) -> float:
    """Return the total variation distance of two distributions given as counts: 0 where equal, 1 where disjoint."""
    totals = sum(first.values()), sum(second.values())
    if not all(totals):
        return 0.0 if totals == (0, 0) else 1.0
    return 0.5 * math.fsum(
        abs(first.get(value, 0) / totals[0] - second.get(value, 0) / totals[1]) for value in {*first, *second}
    )
