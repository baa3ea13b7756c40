"""Plain data: which protocol to train under, with how long steps, and what the processes tell about it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from wirebound.errors import InputError, unknown_name
from wirebound.model.compute_time import ComputeTime
from wirebound.techniques.checks import require_counts

#: Protocols whose workers push gradients to a server, and those whose workers average their models.
WITH_SERVER = ("bsp", "ssp", "asp")
AVERAGING = ("local-sgd", "gossip")


@dataclass(frozen=True, slots=True)
class Plan:
    """One training run. Every worker does `steps` steps, on average where the protocol lets them drift apart.

    `compute` gives the seconds that each step of each worker takes: a worker sleeps when its gradient is there sooner,
    so that a few cores carry many workers. `parameter` is the bound of ``ssp`` (clocks that a worker may be ahead of
    the slowest) or the period of ``local-sgd`` (steps from one average to the next). `neighbours` are, for ``gossip``,
    those whose models each worker takes in. The server takes `server_s` seconds for an update, at least.

    `learning_rate` is that of the mean gradient of all workers: the server applies a single worker's gradient with a
    P-th of it, which is the rule of Zhang et al. (2016), a rate divided by the staleness, at ASP's mean staleness.

    With `skewed` shards each worker has few of the classes. `snapshots` models are kept for evaluation after the run.
    With `own_start` every worker begins with parameters of its own.
    """

    protocol: str
    compute: ComputeTime
    parameter: int | None = None
    neighbours: tuple[tuple[int, ...], ...] = ()
    workers: int = 4
    steps: int = 50
    data: str = "digits"
    model: str = "mlp"
    batch_size: int = 16
    learning_rate: float = 0.1
    seed: int = 0
    skewed: bool = False
    own_start: bool = False
    server_s: float = 0.0
    snapshots: int = 10

    def __post_init__(self) -> None:
        if self.protocol not in WITH_SERVER + AVERAGING:
            raise unknown_name("consistency protocol", self.protocol, WITH_SERVER + AVERAGING)
        require_counts(self, "workers", "steps", "batch_size", "snapshots")
        if self.learning_rate < 0 or self.server_s < 0:
            raise InputError(
                f"learning rate {self.learning_rate} and server time {self.server_s} s must not be below 0"
            )
        if len(self.compute.factors) > self.workers:
            raise InputError(f"{len(self.compute.factors)} factors of compute time for {self.workers} workers")
        least = {"ssp": 0, "local-sgd": 1}.get(self.protocol)
        if least is None:
            if self.parameter is not None:
                raise InputError(f"{self.protocol} takes no parameter: leave {self.parameter} out")
        elif self.parameter is None or self.parameter < least:
            raise InputError(f"{self.protocol} needs a parameter of at least {least}, not {self.parameter}")
        if self.protocol == "local-sgd" and self.steps % (self.parameter or 1):
            raise InputError(f"{self.steps} steps are not a multiple of the period {self.parameter}: make them one")
        if self.protocol == "gossip":
            self._check_neighbours()

    def _check_neighbours(self) -> None:
        """Equal weights mix without bias where each model is taken in by as many as its worker listens to."""
        if len(self.neighbours) != self.workers:
            raise InputError(f"gossip of {self.workers} workers needs the neighbours of each, not {self.neighbours}")
        heard = [peer for peers in self.neighbours for peer in peers]
        for worker, peers in enumerate(self.neighbours):
            if worker in peers or len(set(peers)) < len(peers) or not all(0 <= peer < self.workers for peer in peers):
                raise InputError(f"neighbours {peers} of worker {worker} must be other workers, each once")
            if len(peers) != len(self.neighbours[0]) or heard.count(worker) != len(peers):
                raise InputError(f"worker {worker} must listen to as many as listen to it, and all to equally many")

    @property
    def updates(self) -> int:
        """Steps of all workers together."""
        return self.workers * self.steps

    @property
    def has_server(self) -> bool:
        """Whether gradients go to a parameter server."""
        return self.protocol in WITH_SERVER

    def document(self) -> dict[str, Any]:
        """Return what `plan_from` reads back."""
        return asdict(self)


def plan_from(document: Mapping[str, Any]) -> Plan:
    """Return the plan of a document that went through JSON."""
    compute: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in document["compute"].items()
    }
    neighbours = tuple(tuple(peers) for peers in document["neighbours"])
    return Plan(**{**document, "compute": ComputeTime(**compute), "neighbours": neighbours})


class Step(NamedTuple):
    """One step of one worker: seconds of the monotonic clock, and the version of the parameters that it read.

    From `start_s` to `computed_s` it computes; until `end_s` it exchanges, waiting included. With a server the version
    counts the updates applied to the parameters; without, the exchanges that the worker's own model has been through.
    `planned_s` is how long it was to compute.
    """

    worker: int
    clock: int
    version: int
    planned_s: float
    start_s: float
    computed_s: float
    end_s: float


class Applied(NamedTuple):
    """One gradient on the server, in the order of application.

    `staleness` counts the updates applied between its read and its application, `ahead` how many clocks its worker was
    ahead of the slowest when it read. It came at `come_s` and was taken up at `taken_s`; at `free_s` it was applied,
    whoever might go on had an answer, and the server took the next.
    """

    worker: int
    clock: int
    staleness: int
    ahead: int
    come_s: float
    taken_s: float
    free_s: float


@dataclass(frozen=True, slots=True)
class Point:
    """A model on the way: updates done by then, seconds since the workers began, and how good it was on test data."""

    updates: int
    seconds: float
    loss: float
    accuracy: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the processes of a plan told: steps in the order of their ends, what the server applied, and the curve.

    Clock readings count from when the first worker began. `steps` leaves out those whose gradient was not applied any
    more, as enough had been. `models` are the last parameters, flat: the server's, or each worker's own.
    """

    plan: Plan
    steps: tuple[Step, ...]
    applied: tuple[Applied, ...]
    curve: tuple[Point, ...]
    models: tuple[tuple[float, ...], ...]

    @property
    def seconds(self) -> float:
        """From the first start to the last end."""
        return max(step.end_s for step in self.steps)

    @property
    def steps_per_s(self) -> float:
        """Steps of all workers in a second."""
        return len(self.steps) / self.seconds
