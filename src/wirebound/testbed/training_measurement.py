"""Train a case for real in the processes of a network, and put together what its ranks saw."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from wirebound.errors import WireboundError
from wirebound.model import Step, Workload
from wirebound.profile.spread import interquartile_range, median
from wirebound.testbed.processor_cost import require_paced
from wirebound.testbed.ranks import GlooRanks
from wirebound.testbed.speed import set_rate
from wirebound.testbed.training_case import TrainingCase, training_job


class SeenMessage(NamedTuple):
    """A message as the ranks saw it: medians over the steps, seconds since backward began; `tensors` as planned.

    It starts when the last rank hands it over, and ends when the last rank has it.
    """

    kind: str
    size: int
    ready_s: float
    start_s: float
    end_s: float
    tensors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TrainedCase:
    """What a case took: the median period of a step, the interquartile range, and its parts; in seconds."""

    measured_s: float
    spread_s: float
    forward_s: float
    backward_s: float
    rest_s: float
    steps: int
    messages: tuple[SeenMessage, ...]


def measure_case(group: GlooRanks, case: TrainingCase, workload: Workload, step: Step, *, steps: int) -> TrainedCase:
    """Train a case `steps` steps; `workload` and `step` are what was predicted.

    Raises `WireboundError` when a process fails, no connection can be slowed down, or the workers' parameters differ by
    a bit in the end.
    """
    set_rate(group, case.rate_Bps)
    job = training_job(case, workload, step, steps=steps)
    # A server has a connection to every worker: they share its link.
    pace_Bps = group.network.pace_Bps(case.ranks if case.servers else 1)
    order = {
        "do": "train",
        "job": asdict(job),
        "store": str(group.network.folder / f"store{time.monotonic_ns()}"),
        "pace_Bps": pace_Bps,
    }
    limit_s = 120 + 20 * (steps + job.warmup + 1) * step.iteration_s
    answers = group.ask(order, time_limit_s=limit_s)
    require_paced(answers[: case.ranks + case.servers], pace_Bps)
    if len({answer["parameters_sha256"] for answer in answers[: case.ranks]}) > 1:
        raise WireboundError(f"the workers' parameters differ after training with {case.label}: a sum went wrong")
    return summary(answers[: case.ranks], [tensor.name for tensor in workload.tensors], steps)


def summary(answers: Sequence[dict[str, Any]], names: Sequence[str], steps: int) -> TrainedCase:
    """Put together what the workers tell of `steps` steps and the start of one more."""
    starts = [[step[0] for step in answer["steps"]] for answer in answers]
    periods = [sum(of_rank[i + 1] - of_rank[i] for of_rank in starts) / len(starts) for i in range(steps)]
    parts = [step for answer in answers for step in answer["steps"][:steps]]
    return TrainedCase(
        measured_s=median(periods),
        spread_s=interquartile_range(periods),
        forward_s=median([forward - start for start, forward, _, _ in parts]),
        backward_s=median([backward - forward for _, forward, backward, _ in parts]),
        rest_s=median([end - backward for _, _, backward, end in parts]),
        steps=steps,
        messages=_messages(answers, names, steps),
    )


def _messages(answers: Sequence[dict[str, Any]], names: Sequence[str], steps: int) -> tuple[SeenMessage, ...]:
    places = {name: index for index, name in enumerate(names)}
    backward_began = [sum(answer["steps"][number][1] for answer in answers) / len(answers) for number in range(steps)]
    # Of each message in each step, what every rank saw: its kind, its tensors and which of several parts of them.
    seen: dict[tuple[Any, ...], dict[int, list[tuple[float, float, float]]]] = {}
    for answer in answers:
        counts: Counter[tuple[Any, ...]] = Counter()
        for kind, step, size, ready_s, start_s, end_s, tensors in sorted(answer["messages"], key=lambda m: m[4]):
            if not 0 <= step < steps:
                continue
            part = (kind, size, tuple(sorted(places[name] for name in tensors)))
            number = counts[step, part]
            counts[step, part] += 1
            seen.setdefault((*part, number), {}).setdefault(step, []).append((ready_s, start_s, end_s))
    found = []
    for (kind, size, tensors, _), of_steps in seen.items():
        moments = [
            [max(moment) - backward_began[step] for moment in zip(*of_ranks, strict=True)]
            for step, of_ranks in of_steps.items()
        ]
        ready_s, start_s, end_s = (median([moment[i] for moment in moments]) for i in range(3))
        found.append(SeenMessage(kind, size, ready_s, start_s, end_s, tensors))
    return tuple(sorted(found, key=lambda message: message.start_s))
