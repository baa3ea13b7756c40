"""Plain data: what to train with which compressor, and how well it went."""

import dataclasses
from dataclasses import dataclass
from typing import Any, NamedTuple

from wirebound.errors import InputError
from wirebound.model import Compressor
from wirebound.techniques.checks import require_counts, require_momentum


@dataclass(frozen=True, slots=True)
class LearningRun:
    """One training run of data-parallel workers: SGD with momentum, a constant learning rate, one compressor or none.

    `batch_size` is each worker's. `error_feedback` off is for compressors that have the setting (Top-k, random-k,
    1-bit SGD and EF-signSGD). `warm_up_steps` is the length of each of DGC's four stages of warm-up. DGC gathers
    momentum before it selects, so with it the optimizer has none. The model is evaluated at about `points` steps, on
    the first `test_samples` of the test part where given. Raises `InputError` for numbers out of range.
    """

    data: str
    model: str
    steps: int
    learning_rate: float
    seed: int = 0
    compressor: Compressor | None = None
    error_feedback: bool = True
    warm_up_steps: int = 0
    momentum: float = 0.9
    batch_size: int = 16
    workers: int = 4
    points: int = 20
    test_samples: int | None = None

    def __post_init__(self) -> None:
        require_counts(self, "steps", "batch_size", "workers", "points")
        if not 0 < self.learning_rate < float("inf"):
            raise InputError(f"learning rate = {self.learning_rate} must be greater than 0 and finite")
        require_momentum(self.momentum)
        if self.test_samples is not None and self.test_samples < self.workers:
            raise InputError(f"test samples = {self.test_samples} must be at least the {self.workers} workers")
        if self.warm_up_steps and (self.compressor is None or self.compressor.name != "dgc"):
            raise InputError("warm-up of the share of values kept is DGC's: choose dgc, or warm_up_steps=0")

    @property
    def label(self) -> str:
        """The compressor as the command line writes it, ``none`` without."""
        return self.compressor.label if self.compressor else "none"

    @property
    def marks(self) -> tuple[int, ...]:
        """The steps after which the model is evaluated: evenly spread, the last one among them; 0 is before all."""
        count = min(self.points, self.steps)
        return tuple(round(self.steps * number / count) for number in range(1, count + 1))

    def fields(self) -> dict[str, Any]:
        """Return the fields in plain types; `run_of` takes them back."""
        plain = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        chosen = self.compressor
        return plain | {"compressor": [chosen.name, chosen.parameter, chosen.bucket] if chosen else None}


def run_of(fields: dict[str, Any]) -> LearningRun:
    """Return the run whose `fields` these are."""
    chosen = fields["compressor"]
    return LearningRun(**fields | {"compressor": Compressor(*chosen) if chosen else None})


class Point(NamedTuple):
    """After `step` steps: payload bytes that a worker has handed over so far (the workers' mean), and the test part.

    `loss` is the mean cross-entropy in nats, `accuracy` the share of targets predicted right, from 0 to 1.
    """

    step: int
    sent_bytes: float
    loss: float
    accuracy: float


@dataclass(frozen=True, slots=True)
class Curve:
    """A run and its points. A run diverged in step `diverged_at`, where a loss or a gradient was no longer finite.

    It has no points from there on. `seconds` is what the run took on this machine, evaluation included.
    """

    run: LearningRun
    points: tuple[Point, ...]
    diverged_at: int | None
    seconds: float

    @property
    def last_accuracy(self) -> float:
        """The mean accuracy of the last three points, which varies less than the last; 0 where the run diverged."""
        last = [point.accuracy for point in self.points[-3:]]
        return 0.0 if self.diverged_at is not None else sum(last) / len(last)

    def fields(self) -> dict[str, Any]:
        """Return the fields in plain types; `curve_of` takes them back."""
        return {
            "run": self.run.fields(),
            "points": [list(point) for point in self.points],
            "diverged_at": self.diverged_at,
            "seconds": self.seconds,
        }


def curve_of(fields: dict[str, Any]) -> Curve:
    """Return the curve whose `fields` these are."""
    points = tuple(Point(*point) for point in fields["points"])
    return Curve(run_of(fields["run"]), points, fields["diverged_at"], fields["seconds"])
