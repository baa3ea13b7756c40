"""Run plans in processes of their own: one process per worker and one server, which go through all plans."""

import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from wirebound.errors import InputError
from wirebound.techniques.consistency.curve import evaluated
from wirebound.techniques.consistency.plan import Applied, Outcome, Plan, Step
from wirebound.techniques.launch import started_processes, wait_for
from wirebound.techniques.learning.data import DataSet, data_set
from wirebound.techniques.learning.models import learning_model


def run_plans(
    plans: Sequence[Plan],
    *,
    time_limit_s: float = 600.0,
    timeout_s: float = 120.0,
    on_started: Callable[[int], object] = lambda pid: None,
) -> list[Outcome]:
    """Run plans with equally many workers one after the other on this machine, and return what they told.

    The processes start once for all plans; `on_started` is called with the id of each. Raises `InputError` for plans
    with different numbers of workers or with data or models that do not exist, `WireboundError` with one line when a
    process fails or `time_limit_s` passes; however it ends, no process is left behind.
    """
    if not plans:
        return []
    if len({plan.workers for plan in plans}) > 1:
        raise InputError("plans with different numbers of workers cannot share their processes: run them apart")
    sets = {plan.data: data_set(plan.data) for plan in plans}
    for plan in plans:
        learning_model(plan.model, sets[plan.data], plan.seed)  # a mistake shows before anything starts
    with tempfile.TemporaryDirectory(prefix="wirebound-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        commands = prepare(plans, sets, folder, timeout_s=timeout_s)
        with started_processes(commands, folder) as started:
            for one in started:
                on_started(one.process.pid)
            wait_for(started, time_limit_s)
        return [_outcome(plan, sets[plan.data], folder, number) for number, plan in enumerate(plans)]


def prepare(
    plans: Sequence[Plan], sets: dict[str, DataSet], folder: Path, *, timeout_s: float = 120.0
) -> dict[str, list[str]]:
    """Write orders and data to `folder`; return the commands of all processes by name.

    Workers read the data from there: that is quicker than to have each import the package that ships it.
    """
    for name, data in sets.items():
        torch.save({field.name: getattr(data, field.name) for field in fields(data)}, folder / f"{name}.pt")
    orders = folder / "orders.json"
    document = {"plans": [plan.document() for plan in plans], "timeout_s": timeout_s}
    orders.write_text(json.dumps(document), encoding="utf-8")
    names = [f"worker {rank}" for rank in range(plans[0].workers)]
    if any(plan.has_server for plan in plans):
        names.append("server")
    command = [sys.executable, "-m", "wirebound.techniques.consistency.process", str(orders)]
    return {name: [*command, str(rank)] for rank, name in enumerate(names)}


def _outcome(plan: Plan, data: DataSet, folder: Path, number: int) -> Outcome:
    told, models = [], []
    for rank in range(plan.workers + plan.has_server):
        path = folder / f"plan-{number}-rank-{rank}"
        told.append(json.loads(path.with_suffix(".json").read_text(encoding="utf-8")))
        models.append(torch.load(path.with_suffix(".pt")))
    steps = [Step._make(fields) for one in told[: plan.workers] for fields in one["steps"]]
    began_s = min(step.start_s for step in steps)
    steps = [
        step._replace(start_s=step.start_s - began_s, computed_s=step.computed_s - began_s, end_s=step.end_s - began_s)
        for step in steps
    ]
    applied: tuple[Applied, ...] = ()
    if plan.has_server:
        rows = [Applied._make(fields) for fields in told[-1]["applied"]]
        applied = tuple(
            a._replace(come_s=a.come_s - began_s, taken_s=a.taken_s - began_s, free_s=a.free_s - began_s) for a in rows
        )
        counted = {(one.worker, one.clock) for one in applied}
        steps = [step for step in steps if (step.worker, step.clock) in counted]
        kept, course, last = told[-1]["kept"], models[-1], models[-1][-1:]
    else:
        kept, course = _averaged(plan, [one["kept"] for one in told], models)
        last = torch.stack([own[-1] for own in models])
    points = evaluated(plan, data, [(count, max(0.0, at_s - began_s)) for count, at_s in kept], course)
    return Outcome(
        plan, tuple(sorted(steps, key=lambda step: step.end_s)), applied, points, tuple(map(tuple, last.tolist()))
    )


def _averaged(plan: Plan, kept: list[Any], models: list[Tensor]) -> tuple[list[tuple[int, float]], Tensor]:
    """Return the mean over the workers of the models kept at the same step; it is there when the last worker is."""
    moments = [(rows[0][0] * plan.workers, max(moment_s for _, moment_s in rows)) for rows in zip(*kept, strict=True)]
    return moments, torch.stack(models).mean(dim=0)
