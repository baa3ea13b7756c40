"""The outlook's experiments in training: ratios that change over rounds, and differences to the last step."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from wirebound.errors import WireboundError
from wirebound.techniques.compress.compressor import GradientCompressor
from wirebound.techniques.learning.data import data_set
from wirebound.techniques.outlook.exchange import ByTensor, Plan
from wirebound.techniques.outlook.train import Curve, Job, Point, sizes_of, train

#: A small and a larger task. Learning rates fall once, as Accordion watches for that.
JOBS = {
    "digits": Job("digits", "mlp", batch_size=16, steps=200, decay_steps=(140,)),
    "mnist": Job("mnist", "cnn", batch_size=8, steps=100, decay_steps=(70,)),
}


@dataclass(frozen=True, slots=True)
class RoundSettings:
    """Two shares of Top-k, and when which is used; a tenth of a percent is where DGC ends."""

    mild: float = 0.1
    strong: float = 0.001
    window: int = 10
    threshold: float = 0.5
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)


def rounds(job: Job, settings: RoundSettings, seed: int) -> list[dict[str, Any]]:
    """Train once with Accordion, then with its own counts early, late and spread evenly: the same bytes."""
    from wirebound.techniques.outlook import rounds as schedules

    job = replace(job, seed=seed)
    sizes = sizes_of(job)
    accordion = schedules.Accordion(
        sizes,
        mild=settings.mild,
        strong=settings.strong,
        window=settings.window,
        threshold=settings.threshold,
        decay_steps=job.decay_steps,
    )
    rows = [_row("adaptive", seed, train(job, accordion))]
    counts = accordion.counts
    shares = [sum(counts[name][step] for name in sizes) / sum(sizes.values()) for step in range(job.steps)]
    rows[0]["shares"] = shares
    for name, schedule in (
        ("constant", schedules.constant(counts)),
        ("dense first", schedules.early(counts)),
        ("dense last", schedules.late(counts)),
    ):
        plan = schedules.Scheduled(schedule, sizes)
        rows.append(_row(name, seed, train(job, plan)))
    return rows


@dataclass(frozen=True, slots=True)
class DifferenceSettings:
    """Senders that keep one hundredth of the values; the learning rate of each is tuned on a seed of its own."""

    share: float = 0.01
    extrapolation: float = 0.5
    learning_rates: tuple[float, ...] = (0.01, 0.03, 0.1)
    tuning_seed: int = 100
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)


def senders(settings: DifferenceSettings) -> dict[str, tuple[GradientCompressor | None, dict[str, Any]]]:
    """Return what is sent by each method, and how its job differs."""
    from wirebound.techniques.compress.dgc import Dgc
    from wirebound.techniques.compress.difference import Difference
    from wirebound.techniques.compress.topk import TopK

    top = TopK(settings.share)
    at_sender = {"momentum_at": "sender"}
    known: dict[str, tuple[GradientCompressor | None, dict[str, Any]]] = {
        "dense": (None, {}),
        "gradient, error feedback": (top, {}),
        "gradient, difference": (Difference(top), {}),
        "gradient, extrapolated": (Difference(top, extrapolation=settings.extrapolation), {}),
        "velocity, error feedback": (top, at_sender),
        "velocity, difference": (Difference(top), at_sender),
        "DGC": (Dgc(settings.share), {"momentum": 0.0}),
    }
    return known


def tuned_rate(job: Job, name: str, settings: DifferenceSettings) -> tuple[float, list[float]]:
    """Return the learning rate with the least loss in training at the end, and the losses of all."""
    losses = [
        _final_loss(_with(job, name, settings, seed=settings.tuning_seed, learning_rate=rate), name, settings)
        for rate in settings.learning_rates
    ]
    return settings.learning_rates[losses.index(min(losses))], losses


#: The loss that a run is given which ended in infinite values: none that learns comes near it.
DIVERGED_LOSS = 1e6


def _final_loss(job: Job, name: str, settings: DifferenceSettings) -> float:
    """The training loss at the end of a run."""
    try:
        loss = train(job, _plan(name, settings)).train_loss
    except WireboundError:
        return DIVERGED_LOSS
    return loss if math.isfinite(loss) else DIVERGED_LOSS


def difference_row(job: Job, name: str, settings: DifferenceSettings, seed: int, rate: float) -> dict[str, Any]:
    """Train one method at its learning rate; a run that overflows has the accuracy of guessing, and sent 0 bytes."""
    try:
        curve = train(_with(job, name, settings, seed=seed, learning_rate=rate), _plan(name, settings))
    except WireboundError:
        guess = Point(job.steps, DIVERGED_LOSS, 1 / data_set(job.data).classes, 0)
        curve = Curve((guess,), DIVERGED_LOSS, 0, 0)
    return _row(name, seed, curve) | {"learning_rate": rate}


def _with(job: Job, name: str, settings: DifferenceSettings, **more: Any) -> Job:
    return replace(job, **(senders(settings)[name][1] | more))


def _plan(name: str, settings: DifferenceSettings) -> Plan:
    return ByTensor({}, senders(settings)[name][0])


@dataclass(frozen=True, slots=True)
class CorrelationSettings:
    """One worker, uncompressed; `velocity_batch` is the batch at which velocities are watched as well."""

    batches: tuple[int, ...] = (16, 64, 256, 1024)
    velocity_batch: int = 64
    steps: int = 90
    stages: int = 3
    seed: int = 0


def correlation(job: Job, settings: CorrelationSettings, batch: int, sent: str) -> list[dict[str, Any]]:
    """Return for each tensor and stage of training how much a gradient (or velocity) has of the one before.

    ``cosine`` is a mean over the stage's steps, ``energy`` that of all differences over that of all that is sent in
    them, ``neighbours`` the mean correlation of values side by side, None for vectors.
    """
    from wirebound.techniques.outlook.correlation import TimeCorrelation, neighbour_correlation

    time, space = TimeCorrelation(), []

    def watch(step: int, gradients: Any) -> None:
        time(step, gradients)
        for name, of_workers in gradients.items():
            space.append((step, name, neighbour_correlation(of_workers[0])))

    watched = replace(
        job,
        workers=1,
        batch_size=batch,
        steps=settings.steps,
        decay_steps=(),
        seed=settings.seed,
        momentum_at="sender" if sent == "velocity" else "receiver",
    )
    train(watched, ByTensor({}), watch=watch)
    rows = []
    for name in sizes_of(watched):
        for stage in range(settings.stages):
            steps = range(settings.steps * stage // settings.stages, settings.steps * (stage + 1) // settings.stages)
            found = [row for row in time.rows if row[1] == name and row[0] in steps]
            beside = [value for step, of, value in space if of == name and step in steps and value is not None]
            rows.append(
                {
                    "sent": sent,
                    "batch": batch,
                    "tensor": name,
                    "stage": stage,
                    "cosine": _mean([row[2] for row in found]),
                    "energy": sum(row[3] for row in found) / sum(row[4] for row in found) if found else None,
                    "neighbours": _mean(beside),
                }
            )
    return rows


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _row(variant: str, seed: int, curve: Curve) -> dict[str, Any]:
    return {
        "variant": variant,
        "seed": seed,
        "accuracy": curve.last.accuracy,
        "loss": curve.last.loss,
        "train_loss": curve.train_loss,
        "sent_bytes": curve.sent_bytes,
        "dense_bytes": curve.dense_bytes,
    }
