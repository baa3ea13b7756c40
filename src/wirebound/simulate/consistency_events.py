"""The workers of a job, event by event: each computes, exchanges, and waits until its protocol lets it go on."""

import heapq
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from wirebound.simulate.consistency_protocols import Rule

_APPLIED, _COMPUTED = 0, 1  # of two events at the same instant, what has been applied counts first


class Update(NamedTuple):
    """One step of one worker; times in seconds since the workers began.

    `clock` counts the worker's steps from 0. It reads the model at `start_s` and its update is applied at `end_s`,
    after `waited_s` in which it neither computed nor exchanged: for others before the step, for the server after it.
    `staleness` counts the updates of other workers that went into the shared model in between (0 where there is no
    shared model, or all updates go in at once), `age` the clocks that the model may have been old (`Rule.age`).
    """

    worker: int
    clock: int
    start_s: float
    end_s: float
    waited_s: float
    staleness: int
    age: int


class _Running(NamedTuple):
    """A step that has begun: when, after how much waiting, on a model of how many updates and clocks of age."""

    start_s: float
    waited_s: float
    applied: int
    age: int


def updates(draws: Sequence[Iterator[float]], exchange_s: float, rule: Rule, server_s: float = 0.0) -> Iterator[Update]:
    """Yield the updates of all workers in the order in which they are applied, without end.

    `draws` gives the compute seconds of each worker's steps. Every worker counts its exchange on its own, before it
    waits: as it always takes `exchange_s`, a barrier followed by one common exchange ends at the same instant.

    With `server_s` updates go through a server that is busy for so long with each, first come, first served in the
    order in which they were computed. A lone exchange still takes `exchange_s`, of which the server's time is the
    last part: an update is applied at max(computed + exchange_s, previous + server_s).
    """
    workers = len(draws)
    clocks = [0] * workers
    at_clock = {0: workers}  # how many workers are there
    slowest = 0
    applied = 0
    server_free_s = 0.0
    ended_s = [0.0] * workers
    running: list[_Running] = [_Running(0.0, 0.0, 0, 0)] * workers
    waiting: set[int] = set()
    listeners = _listeners(rule, workers)
    events: list[tuple[float, int, int]] = []

    def begin(worker: int, now: float) -> None:
        waited_s = now - ended_s[worker]
        running[worker] = _Running(now, waited_s, applied, rule.age(clocks[worker], slowest))
        heapq.heappush(events, (now + next(draws[worker]), _COMPUTED, worker))

    def may_begin(worker: int) -> bool:
        least = slowest if rule.peers is None else min((clocks[peer] for peer in rule.peers[worker]), default=slowest)
        return least >= rule.needed(clocks[worker])

    for worker in range(workers):
        begin(worker, 0.0)
    while True:
        now, kind, worker = heapq.heappop(events)
        clock = clocks[worker]
        if kind == _COMPUTED:
            end_s = now
            if rule.exchanges(clock):
                end_s += exchange_s
                if server_s > 0:
                    server_free_s = max(end_s, server_free_s + server_s)
                    queued_s = server_free_s - end_s
                    end_s = server_free_s
                    begun = running[worker]
                    running[worker] = begun._replace(waited_s=begun.waited_s + queued_s)
            heapq.heappush(events, (end_s, _APPLIED, worker))
            continue

        begun = running[worker]
        staleness = applied - begun.applied if rule.shared_model else 0
        yield Update(worker, clock, begun.start_s, now, begun.waited_s, staleness, begun.age)
        applied += 1
        ended_s[worker] = now
        clocks[worker] = clock + 1
        at_clock[clock] -= 1
        at_clock[clock + 1] = at_clock.get(clock + 1, 0) + 1
        moved = clock == slowest and at_clock[clock] == 0
        if moved:
            del at_clock[clock]
            slowest += 1
        # Whoever waits for all can go on only when the slowest has moved, whoever waits for neighbours when one has.
        waiting.add(worker)
        if listeners is not None:
            candidates = [worker, *listeners[worker]]
        elif moved:
            candidates = sorted(waiting)
        else:
            candidates = [worker]
        for candidate in candidates:
            if candidate in waiting and may_begin(candidate):
                waiting.remove(candidate)
                begin(candidate, now)


def _listeners(rule: Rule, workers: int) -> list[list[int]] | None:
    """For each worker those that wait for it; None where everybody waits for everybody."""
    if rule.peers is None:
        return None
    listeners: list[list[int]] = [[] for _ in range(workers)]
    for worker, peers in enumerate(rule.peers):
        for peer in peers:
            listeners[peer].append(worker)
    return listeners
