"""Train under consistency protocols on this machine and record speed, staleness and accuracy: chapter 8's figures.

    python -m wirebound.study.record_consistency --out CONSISTENCY.json [--part speed …] [--scale 0.5]

Parts: ``speed`` (each protocol, straggler and number of workers against the engine's prediction, which is made
first), ``digits-rates`` and ``mnist-rates`` (a grid of learning rates), ``digits`` and ``mnist`` (accuracy over several
seeds, with and without a straggler, each protocol at the best rate of its grid), ``skew`` (digits, where each worker
has few of the classes). A part is added to what the file has already. All together take about ten minutes on two
cores; nothing else should run meanwhile.
"""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from wirebound.errors import InputError
from wirebound.files import require_writable, write_json
from wirebound.model.compute_time import ComputeTime
from wirebound.profile.recording import recording_parser, run_recording, tell
from wirebound.study.consistency_prediction import Costs, calibration, costs_of, measured, plan_of, predicted
from wirebound.techniques.consistency.plan import Outcome, Plan

FORMAT = "wirebound-consistency"
PROTOCOLS = ("bsp", "ssp:3", "asp", "local-sgd:4", "gossip:ring")
STRAGGLERS = (1.0, 1.5, 3.0)
WORKER_COUNTS = (4, 8)
RATES = {"digits": (0.1, 0.2, 0.4), "mnist": (0.05, 0.1, 0.2)}
SEEDS = {"digits": (1, 2, 3, 4), "mnist": (1, 2, 3), "skew": (1, 2, 3, 4)}
SPREAD = 0.2
#: A server that is busy for so long with each update, in two more cases.
BUSY_SERVER_S = 0.004
#: Steps that compute longer than planned by more than this share are worth a warning.
LATE = 0.05
#: What is learnt: workers, mean seconds and number of steps, batch size, seeds.
TASKS: dict[str, dict[str, Any]] = {
    "digits": {"model": "mlp", "workers": 8, "mean_s": 0.02, "steps": 84, "batch_size": 16},
    "mnist": {"model": "cnn", "workers": 4, "mean_s": 0.025, "steps": 80, "batch_size": 16},
}
PARTS = ("speed", "digits-rates", "digits", "mnist-rates", "mnist", "skew")


def compute_time(mean_s: float, straggler: float = 1.0) -> ComputeTime:
    """Return lognormal step times, of worker 0 `straggler` times as long."""
    return ComputeTime(mean_s, "lognormal", SPREAD, factors=(straggler,) if straggler != 1 else ())


def record_part(
    part: str, document: dict[str, Any], *, scale: float = 1.0, tell: Callable[[str], None] = lambda what: None
) -> dict[str, Any]:
    """Measure a part and return what belongs into the document under its name.

    `scale` shortens the runs. Raises `InputError` for an unknown part, and for one that needs a grid of rates.
    """
    if part == "speed":
        return _speed(scale, tell)
    if part not in PARTS:
        raise InputError(f"unknown part {part!r}: there are {', '.join(PARTS)}")
    task, _, grid = part.partition("-")
    if grid:
        return {"runs": _rates(task, scale, tell)}
    task = "digits" if part == "skew" else task
    if f"{task}-rates" not in document.get("parts", {}):
        raise InputError(f"part {part} trains at the best rates of a grid: record the part {task}-rates first")
    return {"runs": _accuracy(part, task, best_rates(document), scale, tell)}


def _speed(scale: float, tell: Callable[[str], None]) -> dict[str, Any]:
    """Calibrate, predict everything, and only then run."""
    calibrated: list[dict[str, Any]] = []
    cases: list[dict[str, Any]] = []
    for workers in WORKER_COUNTS:
        tell(f"speed of {workers} workers")
        settings: dict[str, Any] = {"seed": 1, "workers": workers, "steps": 60, "scale": scale}
        plans = {
            (spec, straggler, 0.0): _plan("digits", spec, straggler, **settings)
            for spec in PROTOCOLS
            for straggler in STRAGGLERS
        }
        for spec in ("ssp:3", "asp"):
            plans[spec, 1.0, BUSY_SERVER_S] = _plan("digits", spec, 1.0, server_s=BUSY_SERVER_S, **settings)
        settled = {key: plan for key, plan in plans.items() if key[1] == 1.0}
        alone = _run_all([calibration(plan, 40) for plan in settled.values()])
        costs = {(spec, server_s): costs_of(one) for (spec, _, server_s), one in zip(settled, alone, strict=True)}
        calibrated += [
            {
                "workers": workers,
                "protocol": spec,
                "server_s": server_s,
                "exchange_s": cost.exchange_s,
                "busy_s": cost.server_s,
            }
            for (spec, server_s), cost in costs.items()
        ]
        foretold = {key: predicted(plan, key[0], costs[key[0], key[2]]) for key, plan in plans.items()}
        for (spec, straggler, server_s), outcome in zip(plans, _run_all(list(plans.values())), strict=True):
            went = measured(outcome, costs[spec, server_s])
            cases.append(
                {
                    "protocol": spec,
                    "workers": workers,
                    "straggler": straggler,
                    "server_s": server_s,
                    "steps": outcome.plan.steps,
                    "seed": outcome.plan.seed,
                    "mean_s": outcome.plan.compute.mean_s,
                    "predicted": _behaviour(foretold[spec, straggler, server_s]),
                    "measured": _behaviour(went),
                    "overrun_s": _overrun(outcome),
                    "largest_ahead": max((one.ahead for one in outcome.applied), default=None),
                }
            )
    return {"calibration": calibrated, "cases": cases}


def _run_all(plans: Sequence[Plan]) -> list[Outcome]:
    """Run plans in processes that get a core as soon as a message comes, where the system allows it."""
    from wirebound.techniques.consistency.run import run_plans
    from wirebound.testbed.scheduling import run_promptly

    return run_plans(plans, on_started=run_promptly)


def _plan(task: str, spec: str, straggler: float, *, seed: int, scale: float, **changes: Any) -> Plan:
    settings = TASKS[task] | changes
    mean_s = settings.pop("mean_s")
    settings["steps"] = max(8, round(settings["steps"] * scale / 4) * 4)  # a multiple of the period of local SGD
    return plan_of(spec, compute_time(mean_s, straggler), data=task, seed=seed, **settings)


def _behaviour(behaviour: Any) -> dict[str, Any]:
    return {
        "steps_per_s": round(behaviour.steps_per_s, 3),
        "waiting": round(behaviour.waiting, 5),
        "staleness": {str(value): times for value, times in behaviour.staleness.items()},
    }


def _overrun(outcome: Outcome) -> float:
    """Mean seconds by which steps computed longer than planned."""
    over_s = [step.computed_s - step.start_s - step.planned_s for step in outcome.steps]
    return round(sum(over_s) / len(over_s), 6)


def _rates(task: str, scale: float, tell: Callable[[str], None]) -> list[dict[str, Any]]:
    tell(f"learning rates on {task}")
    cases = [(spec, 1.0, rate) for spec in PROTOCOLS for rate in RATES[task]]
    plans = [_plan(task, spec, 1.0, seed=0, scale=scale, learning_rate=rate) for spec, _, rate in cases]
    return [_run(*case, outcome) for case, outcome in zip(cases, _run_all(plans), strict=True)]


def best_rates(document: dict[str, Any]) -> dict[tuple[str, str], float]:
    """Return (data, protocol) → the rate of the grid with the smallest loss at the end."""
    best: dict[tuple[str, str], dict[str, Any]] = {}
    grids = [part for name, part in document["parts"].items() if name.endswith("-rates")]
    for row in (row for grid in grids for row in grid["runs"]):
        key = row["data"], row["protocol"]
        if key not in best or row["curve"][-1][2] < best[key]["curve"][-1][2]:
            best[key] = row
    return {key: row["learning_rate"] for key, row in best.items()}


def _accuracy(
    part: str, task: str, rates: dict[tuple[str, str], float], scale: float, tell: Callable[[str], None]
) -> list[dict[str, Any]]:
    stragglers: tuple[float, ...] = (1.0, 3.0)
    specs: tuple[str, ...] = PROTOCOLS
    if part == "skew":
        stragglers, specs = (1.0,), tuple(spec for spec in PROTOCOLS if spec.startswith(("bsp", "local", "gossip")))
    tell(f"accuracy, {part}")
    cases = [
        (spec, straggler, rates[task, spec], seed) for seed in SEEDS[part] for spec in specs for straggler in stragglers
    ]
    plans = [
        _plan(task, spec, straggler, seed=seed, scale=scale, learning_rate=rate, skewed=part == "skew")
        for spec, straggler, rate, seed in cases
    ]
    return [_run(*case[:3], outcome) for case, outcome in zip(cases, _run_all(plans), strict=True)]


def _run(spec: str, straggler: float, rate: float, outcome: Outcome) -> dict[str, Any]:
    plan = outcome.plan
    return {
        "data": plan.data,
        "model": plan.model,
        "protocol": spec,
        "workers": plan.workers,
        "straggler": straggler,
        "steps": plan.steps,
        "mean_s": plan.compute.mean_s,
        "batch_size": plan.batch_size,
        "learning_rate": rate,
        "seed": plan.seed,
        "skewed": plan.skewed,
        "seconds": round(outcome.seconds, 4),
        "steps_per_s": round(outcome.steps_per_s, 3),
        "overrun_s": _overrun(outcome),
        "curve": [[p.updates, round(p.seconds, 4), round(p.loss, 5), round(p.accuracy, 5)] for p in outcome.curve],
    }


def costs_from(row: dict[str, Any]) -> Costs:
    """Return the costs that a row of the calibration holds."""
    return Costs(row["exchange_s"], row["busy_s"])


def record(
    path: Path, parts: Sequence[str], *, scale: float = 1.0, tell: Callable[[str], None] = lambda what: None
) -> list[str]:
    """Measure parts, write each to `path` as soon as it is there, beside those that the file has; return warnings."""
    from wirebound.profile.machine import machine_record
    from wirebound.techniques.learning.data import data_set

    require_writable(path)
    document: dict[str, Any] = {}
    if path.is_file():
        document = json.loads(path.read_text(encoding="utf-8"))
        if document.get("format") != FORMAT:
            raise InputError(f"{path} is not a record of this command: give --out another file")
    heading: dict[str, Any] = {
        "format": FORMAT,
        "version": 1,
        "source": "python -m wirebound.study.record_consistency: real processes on gloo, compute times planned",
        "curve": ["updates", "seconds", "loss on test data", "accuracy on test data"],
        "spread": SPREAD,
        "data": {task: data_set(task).sha256 for task in TASKS},
        "parts": {},
    }
    document = heading | document
    warnings = []
    for part in parts:
        machine = machine_record()
        content = record_part(part, document, scale=scale, tell=tell)
        doubts = disturbed(part, content)
        document["parts"][part] = {"machine": machine, "warnings": doubts, **content}
        write_json(path, document)
        warnings += doubts
    return warnings


def disturbed(part: str, content: dict[str, Any]) -> list[str]:
    """Return a warning where steps computed longer than planned: other work was running, or the cores are too few."""
    runs = content.get("runs", content.get("cases", []))
    late = [run for run in runs if run["overrun_s"] > LATE * run["mean_s"]]
    if not late:
        return []
    worst = max(run["overrun_s"] / run["mean_s"] for run in late)
    return [
        f"{part}: in {len(late)} of {len(runs)} runs steps computed over {LATE:.0%} longer than planned, {worst:.0%} at"
        " most: the cores were too few or busy with other work"
    ]


def main(arguments: list[str] | None = None) -> int:
    """Record into a file; returns the exit code."""
    parser = recording_parser(
        "wirebound.study.record_consistency", __doc__, out="CONSISTENCY.json", what="the figures go"
    )
    parser.add_argument("--part", action="append", choices=PARTS, help="only this one; may be repeated")
    parser.add_argument("--scale", type=float, default=1.0, help="length of the runs (default 1)")
    options = parser.parse_args(arguments)

    def record_all() -> list[str]:
        return record(
            options.out,
            options.part or PARTS,
            scale=options.scale,
            tell=tell,
        )

    return run_recording("record", record_all)


if __name__ == "__main__":
    sys.exit(main())
