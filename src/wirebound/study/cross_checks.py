"""The engine's equations against others' figures and against computations that share none of its code."""

from collections.abc import Callable, Iterable

import numpy as np
import pandas as pd
from scipy.optimize import linprog

from wirebound.simulate.byteps import byteps_all_reduce
from wirebound.simulate.collectives import (
    halving_doubling_all_reduce,
    recursive_doubling_all_reduce,
    ring_all_reduce,
)
from wirebound.simulate.gather import ring_all_gather
from wirebound.study.errors_in_percent import ape
from wirebound.study.validate import zhang2020_published

#: Messages that travel at the same time: (from, to, bytes).
Round = list[tuple[int, int, float]]

_WORKERS = (2, 4, 8, 16, 32, 64)
_SIZES = (1e3, 1e6, 1e9)
_LATENCY_S, _BANDWIDTH = 2e-5, 1.25e9


def cross_checks() -> pd.DataFrame:
    """Return the largest difference between the engine and each independent source, in percent of the latter.

    Columns: what, against, points, largest_percent.
    """
    rows = [
        ("what-if scaling factors of ResNet-50", "the published table", zhang2020_published()["ape"]),
        ("BytePS, optimum of n workers and k servers", "a linear program for the busiest link", _byteps_errors()),
        *((name, "its messages, one by one", _simulated_errors(*check)) for name, check in _COLLECTIVES.items()),
    ]
    return pd.DataFrame(
        [
            {"what": what, "against": against, "points": len(errors), "largest_percent": float(errors.max())}
            for what, against, errors in rows
        ]
    )


def least_load(workers: int, servers: int) -> float:
    """Return the bytes, as a multiple of S, over the busiest link when n machines and k servers share the summation.

    A linear program without the published solution: a machine sums the share x of the vector and a server y; a machine
    sends 1 − x to be summed elsewhere and its own result to n − 1 others, a server its result to n, and both receive
    as much. Minimize the larger of the two.
    """
    found = linprog(
        c=[0, 0, 1],
        A_ub=[[workers - 2, 0, -1], [0, workers if servers else 0, -1]],
        b_ub=[-1, 0],
        A_eq=[[workers, servers, 0]],
        b_eq=[1],
        bounds=[(0, 1), (0, 1), (0, None)],
    )
    return float(found.x[2])


def played_s(rounds: Iterable[Round], workers: int, latency_s: float, bandwidth: float) -> float:
    """Return the seconds of rounds of messages, each worker going on when it has sent and received those of a round."""
    clock = np.zeros(workers)
    for messages in rounds:
        after = clock.copy()
        for source, target, size in messages:
            arrival = clock[source] + latency_s + size / bandwidth
            after[source], after[target] = max(after[source], arrival), max(after[target], arrival)
        clock = after
    return float(clock.max())


def ring_rounds(size: float, workers: int) -> Iterable[Round]:
    """An all-reduce around a ring: P − 1 rounds that sum a block of S/P each, and P − 1 that spread the sums."""
    for _ in range(2 * (workers - 1)):
        yield [(rank, (rank + 1) % workers, size / workers) for rank in range(workers)]


def _gather_rounds(size: float, workers: int) -> Iterable[Round]:
    for _ in range(workers - 1):
        yield [(rank, (rank + 1) % workers, size) for rank in range(workers)]


def _halving_rounds(size: float, workers: int) -> Iterable[Round]:
    distances = [2**step for step in range(workers.bit_length() - 1)]
    for part, distance in enumerate(distances, start=1):
        yield [(rank, rank ^ distance, size / 2**part) for rank in range(workers)]
    for part, distance in reversed(list(enumerate(distances, start=1))):
        yield [(rank, rank ^ distance, size / 2**part) for rank in range(workers)]


def _doubling_rounds(size: float, workers: int) -> Iterable[Round]:
    for step in range(workers.bit_length() - 1):
        yield [(rank, rank ^ 2**step, size) for rank in range(workers)]


_COLLECTIVES: dict[str, tuple[Callable[..., float], Callable[[float, int], Iterable[Round]]]] = {
    "ring all-reduce": (ring_all_reduce, ring_rounds),
    "halving-doubling all-reduce": (halving_doubling_all_reduce, _halving_rounds),
    "recursive doubling all-reduce": (recursive_doubling_all_reduce, _doubling_rounds),
    "ring all-gather": (ring_all_gather, _gather_rounds),
}


def _simulated_errors(equation: Callable[..., float], rounds: Callable[[float, int], Iterable[Round]]) -> pd.Series:
    points = [(size, workers) for size in _SIZES for workers in _WORKERS]
    return ape(
        pd.Series([equation(size, workers, _LATENCY_S, _BANDWIDTH) for size, workers in points]),
        pd.Series([played_s(rounds(size, workers), workers, _LATENCY_S, _BANDWIDTH) for size, workers in points]),
    )


def _byteps_errors() -> pd.Series:
    points = [(n, k) for n in (2, 3, 4, 8, 16, 64) for k in sorted({0, 1, n // 2, n})]
    return ape(
        pd.Series([byteps_all_reduce(1.0, n, 0.0, 1.0, k) for n, k in points]),
        pd.Series([least_load(n, k) for n, k in points]),
    )
