"""Plain data: what to train with which technique, and what the processes tell about it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from wirebound.errors import InputError
from wirebound.techniques.checks import require_counts
from wirebound.techniques.recorder import MessageRecord


@dataclass(frozen=True, slots=True)
class Job:
    """What to train and how. `batch_size` is each worker's; `steps` are measured after `warmup` more.

    `technique` is one of the seven or ``ddp``. With `accumulation` each step adds up the gradients of that many batches
    before it communicates. `choices` has fields of `catalogue.Choices` by name; for ``ddp`` it has `bucket_cap_bytes`
    and `compressor`, the fields of a `model.Compressor`. `servers` are the parameter servers, each a process of its own
    (techniques without them have none); servers that are colocated with workers are started on the workers' machines,
    which is the launcher's business, and behave alike.
    """

    model: str
    technique: str
    workers: int = 2
    servers: int = 0
    steps: int = 10
    warmup: int = 2
    batch_size: int = 16
    accumulation: int = 1
    seed: int = 0
    learning_rate: float = 0.01
    momentum: float = 0.9
    threads: int = 1
    backend: str = "gloo"
    timeout_s: float = 120.0
    choices: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_counts(self, "workers", "steps", "batch_size", "accumulation")
        if self.servers < 0 or self.warmup < 0:
            raise InputError(f"servers = {self.servers} and warmup = {self.warmup} must not be negative")


class StepTimes(NamedTuple):
    """One step in seconds of the monotonic clock. The optimizer, or the waiting for averages, is in the last part.

    With bytescheduler, the updates and the waiting are in the forward pass of the *next* step.
    """

    start_s: float
    forward_end_s: float
    backward_end_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class WorkerResult:
    """What one worker tells of the measured steps, which are numbered from 0; its last parameters as a hash."""

    pid: int
    steps: tuple[StepTimes, ...]
    messages: tuple[MessageRecord, ...]
    losses: tuple[float, ...]
    parameters_sha256: str

    @property
    def step_s(self) -> tuple[float, ...]:
        """Seconds of each step, from its start to the start of the next."""
        return tuple(step.end_s - step.start_s for step in self.steps)


@dataclass(frozen=True, slots=True)
class ServerResult:
    """What one parameter server tells of the whole job: averages computed, bytes of gradients received and sent."""

    pid: int
    averages: int
    received_bytes: int
    sent_bytes: int


@dataclass(frozen=True, slots=True)
class JobResult:
    """What all processes of a job told, in the order of their ranks."""

    workers: tuple[WorkerResult, ...]
    servers: tuple[ServerResult, ...]
