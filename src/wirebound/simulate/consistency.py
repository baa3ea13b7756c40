"""What a consistency protocol is worth: speed, staleness and waiting of workers that are not equally fast."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from wirebound.errors import InputError
from wirebound.model.compute_time import ComputeTime
from wirebound.simulate.consistency_events import Update, updates
from wirebound.simulate.consistency_protocols import Consistency

#: The measured time is cut into so many batches, whose means tell how far the simulated mean may be off.
BATCHES = 20
#: Student's t at 97.5 % with BATCHES − 1 = 19 degrees of freedom.
T_975 = 2.093
#: No more updates are simulated.
UPDATE_LIMIT = 10_000_000


@dataclass(frozen=True, slots=True)
class Distribution:
    """How often each whole number was seen: pairs of (number, times), ascending."""

    counts: tuple[tuple[int, int], ...]

    @property
    def total(self) -> int:
        """How many were seen."""
        return sum(times for _, times in self.counts)

    @property
    def mean(self) -> float:
        """The arithmetic mean."""
        return sum(number * times for number, times in self.counts) / self.total

    @property
    def largest(self) -> int:
        """The largest number seen."""
        return self.counts[-1][0]

    def quantile(self, share: float) -> int:
        """The smallest number that at least this share of all seen does not exceed."""
        seen, total = 0, self.total
        for number, times in self.counts:
            seen += times
            if seen >= share * total:
                return number
        return self.largest


@dataclass(frozen=True, slots=True)
class ConsistencyResult:
    """A job under a consistency protocol in steady state. Times in seconds.

    `steps_per_s` counts the steps of all workers, so samples per second are that times the batch of one worker;
    `period_s` = workers / `steps_per_s` is the mean time of a step. Both come with the standard error of their means
    over `BATCHES` batches. Per group of `group` workers that go in step: `group_steps_per_s`, how fast it gets on, and
    `waiting`, the share of its time in which it neither computes nor exchanges.

    `staleness` is that of each update: how many updates of other groups were applied to the shared model between the
    read that it was computed from and its own application (mean P − 1 for ASP, whatever the workers' speeds); 0 for
    protocols whose updates are applied together or only to the worker's own model. `age` is that of each read, in
    clocks: the reader's clock minus the number of steps of every worker that are in what it reads for certain; 0 for
    BSP, at most s for SSP(s) (Ho et al. 2013), below H for local SGD, the graph's diameter − 1 for gossip. Under ASP
    nothing bounds it: where workers differ for good it grows with the steps simulated.

    `steady` is false where the two halves of the measured time differ in speed by more than chance and 1 %, or where
    SSP's fastest worker cannot have reached its bound yet.
    """

    consistency: Consistency
    workers: int
    group: int
    compute: ComputeTime
    exchange_s: float
    server_s: float
    steps: int
    warm_up: int
    period_s: float
    period_error_s: float
    waiting: tuple[float, ...]
    group_steps_per_s: tuple[float, ...]
    staleness: Distribution
    age: Distribution
    steady: bool

    @property
    def age_grows(self) -> bool:
        """Whether ages grow for as long as the workers run: nothing holds ASP's back where they differ for good."""
        return self.consistency.name == "asp" and len({self.compute.factor(i) for i in range(self.workers)}) > 1

    @property
    def steps_per_s(self) -> float:
        """Steps of all workers in a second."""
        return self.workers / self.period_s

    @property
    def steps_per_s_error(self) -> float:
        """Standard error of `steps_per_s`, to first order."""
        return self.steps_per_s * self.period_error_s / self.period_s

    @property
    def period_interval_s(self) -> tuple[float, float]:
        """The 95 % interval of `period_s`."""
        half = T_975 * self.period_error_s
        return self.period_s - half, self.period_s + half

    @property
    def mean_waiting(self) -> float:
        """The share of their time that workers wait, mean over all."""
        return math.fsum(self.waiting) / len(self.waiting)


def trace(
    workers: int,
    compute: ComputeTime,
    exchange_s: float,
    consistency: Consistency,
    *,
    seed: int = 0,
    server_s: float = 0.0,
    group: int = 1,
) -> Iterator[Update]:
    """Yield the updates that `simulate_consistency` measures, from the start and without end.

    With a `group` above 1 an update is one of a whole group, and its `worker` the group's number.
    """
    _check(workers, compute, exchange_s, consistency, server_s, group)
    groups = workers // group
    draws = [
        map(max, *[compute.draws(worker, seed) for worker in range(first, first + group)])
        if group > 1
        else compute.draws(first, seed)
        for first in range(0, workers, group)
    ]
    return updates(draws, exchange_s, consistency.rule(groups), server_s)


def simulate_consistency(
    workers: int,
    compute: ComputeTime,
    exchange_s: float,
    consistency: Consistency,
    *,
    steps: int | None = None,
    seed: int = 0,
    warm_up: int | None = None,
    server_s: float = 0.0,
    group: int = 1,
) -> ConsistencyResult:
    """Simulate workers that train under a consistency protocol, and measure them in steady state.

    Each step of a worker takes its compute time, then `exchange_s` seconds of exchange: the part of communication
    that compute does not hide (with local SGD only every H-th step has one). With `server_s`, for SSP and ASP, updates
    queue for a server that is busy for so long with each (see `consistency_events.updates`), so that no more than
    1 / server_s a second are applied. Neighbouring workers in a `group` (the accelerators of a node) go in step: a
    group computes as long as its slowest member.

    Measured are `steps` steps per worker, on average, rounded up to whole batches (for local SGD of whole periods),
    after `warm_up` steps that are thrown away. Defaults: up to 2,000 steps, fewer with many workers; a quarter of that
    to warm up, and with SSP as long as its fastest worker takes to get as far ahead as it may. The same seed gives
    every protocol the same compute times.

    Raises `InputError` for numbers out of range, a server where the protocol has none, or more than `UPDATE_LIMIT`
    updates.
    """
    _check(workers, compute, exchange_s, consistency, server_s, group)
    groups = workers // group
    cycle = consistency.rule(groups).cycle
    if steps is None:
        steps = min(2_000, max(2 * BATCHES, 50_000 // groups))
    if steps < 1 or (warm_up is not None and warm_up < 0):
        raise InputError(f"steps {steps} must be at least 1, and warm-up steps {warm_up} not negative")
    batch_steps = -(-steps // (BATCHES * cycle)) * cycle
    steps = BATCHES * batch_steps
    transient = _steps_to_the_bound(groups, group, compute, exchange_s, consistency)
    if warm_up is None:
        warm_up = math.ceil(steps / 4 + min(transient, 10 * steps))
    warm_up = -(-warm_up // cycle) * cycle
    if (warm_up + steps) * groups > UPDATE_LIMIT:
        raise InputError(
            f"{consistency} on {workers} workers takes {(warm_up + steps) * groups:,} updates to simulate, more than"
            f" {UPDATE_LIMIT:,}: ask for fewer steps or workers, or a smaller parameter"
        )

    run = trace(workers, compute, exchange_s, consistency, seed=seed, server_s=server_s, group=group)
    ended_s = 0.0
    group_ended_s = [0.0] * groups
    for update in islice(run, warm_up * groups):
        ended_s = group_ended_s[update.worker] = update.end_s
    batch_ends_s = [ended_s]
    waited_s, total_s, done = [0.0] * groups, [0.0] * groups, [0] * groups
    staleness: Counter[int] = Counter()
    age: Counter[int] = Counter()
    for _ in range(BATCHES):
        for update in islice(run, batch_steps * groups):
            worker, ended_s = update.worker, update.end_s
            waited_s[worker] += update.waited_s
            total_s[worker] += ended_s - group_ended_s[worker]
            group_ended_s[worker] = ended_s
            done[worker] += 1
            staleness[update.staleness] += 1
            age[update.age] += 1
        batch_ends_s.append(ended_s)

    periods_s = [(batch_ends_s[i + 1] - batch_ends_s[i]) / batch_steps for i in range(BATCHES)]
    period_s = (batch_ends_s[-1] - batch_ends_s[0]) / steps
    return ConsistencyResult(
        consistency=consistency,
        workers=workers,
        group=group,
        compute=compute,
        exchange_s=exchange_s,
        server_s=server_s,
        steps=steps,
        warm_up=warm_up,
        period_s=period_s,
        period_error_s=_standard_error(periods_s),
        waiting=tuple(waited / total if total > 0 else 0.0 for waited, total in zip(waited_s, total_s, strict=True)),
        group_steps_per_s=tuple(count / (batch_ends_s[-1] - batch_ends_s[0]) for count in done),
        staleness=Distribution(tuple(sorted(staleness.items()))),
        age=Distribution(tuple(sorted(age.items()))),
        steady=transient <= warm_up and _halves_agree(periods_s),
    )


def _check(
    workers: int, compute: ComputeTime, exchange_s: float, consistency: Consistency, server_s: float, group: int
) -> None:
    for value, what in ((workers, "workers"), (group, "workers of a group")):
        if value < 1:
            raise InputError(f"{what} = {value} must be at least 1")
    if workers % group:
        raise InputError(f"{workers} workers are not a multiple of {group}: groups must be full")
    if len(compute.factors) > workers:
        raise InputError(f"{len(compute.factors)} factors of compute time are too many for {workers} workers")
    for seconds, what in ((exchange_s, "exchange"), (server_s, "server's time for an update")):
        if not 0 <= seconds < math.inf:
            raise InputError(f"{what} {seconds} s must be finite and not negative")
    if server_s > 0 and not consistency.rule(workers // group).shared_model:
        raise InputError(f"{consistency} has no server that updates queue for: leave its time at 0, or use ssp or asp")


def _steps_to_the_bound(
    groups: int, group: int, compute: ComputeTime, exchange_s: float, consistency: Consistency
) -> float:
    """Steps until SSP's fastest worker is s ahead of the slowest: n − n·fastest/slowest = s; 0 where all are alike."""
    if consistency.name != "ssp" or not isinstance(consistency.parameter, int):
        return 0.0
    means = [
        exchange_s + max(compute.mean_of(worker) for worker in range(first * group, (first + 1) * group))
        for first in range(groups)
    ]
    fastest, slowest = min(means), max(means)
    return consistency.parameter / (1 - fastest / slowest) if fastest < slowest else 0.0


def _standard_error(values: list[float]) -> float:
    """Standard error of the mean of batches, taken to be independent."""
    mean = math.fsum(values) / len(values)
    return math.hypot(*(value - mean for value in values)) / math.sqrt((len(values) - 1) * len(values))


def _halves_agree(periods_s: list[float]) -> bool:
    half = len(periods_s) // 2
    first, second = periods_s[:half], periods_s[half:]
    before, after = math.fsum(first) / half, math.fsum(second) / half
    allowed = 4 * math.hypot(_standard_error(first), _standard_error(second))
    return abs(after - before) <= max(allowed, 0.01 * before)
