"""The what-if model of Zhang et al. (2020): a grid of it through the engine, and its arithmetic in exact fractions.

Their model: gradients are fused as Horovod 0.18 does (a message goes out once 5 ms of backward time have passed or
64 MiB have gathered), messages queue first come first served, and one of S bytes on N workers at b bytes per second
and compression ratio c takes 2·S·(N−1)/(N·b·c) + (N−1)·add(S/N). The network has no latency and compression is free.
The scaling factor is t/(t + overhead), overhead being the end of the last message less the sum of backward gaps.
"""

from bisect import bisect_right
from fractions import Fraction
from typing import NamedTuple

from wirebound.model import Cluster, Link, method_named
from wirebound.model.library import builtin_workload, read_published
from wirebound.simulate.step import simulate_step
from wirebound.units import BYTES_PER_S_PER_GBPS

MODELS = ("resnet50", "resnet101", "vgg16")
WORKERS = (16, 32, 64)
LINK_GBPS = (100, 40, 25, 10, 1)
COMPRESSION = (1, 2, 5, 10, 50, 100)


class WhatIf(NamedTuple):
    """One point of the grid; `scaling_factor` is between 0 and 1."""

    model: str
    workers: int
    link_gbps: int
    compression: int
    scaling_factor: float


def scaling_factor(model: str, workers: int, link_gbps: float, compression: float = 1.0) -> float:
    """Return the engine's scaling factor of a built-in workload on a flat ring over fully used links.

    Raises `InputError` for an unknown workload, a bandwidth that is not positive or a ratio below 1.
    """
    cluster = Cluster(nodes=workers, inter=Link(bandwidth=link_gbps * BYTES_PER_S_PER_GBPS))
    method = method_named("horovod", compression=float(compression))
    return simulate_step(builtin_workload(model), cluster, method).scaling_factor


def whatif_grid() -> list[WhatIf]:
    """Return the engine's scaling factors for 3 networks × 3 sizes × 5 bandwidths × 6 compression ratios."""
    return [
        WhatIf(model, workers, gbps, ratio, scaling_factor(model, workers, gbps, ratio))
        for model in MODELS
        for workers in WORKERS
        for gbps in LINK_GBPS
        for ratio in COMPRESSION
    ]


def exact_scaling_factor(model: str, workers: int, link_gbps: int, compression: int) -> Fraction:
    """Return the scaling factor of the published arithmetic without any rounding: a check of the engine."""
    gradients = [
        (int(row["size_bytes"]), Fraction(row["gap_us"]))
        for row in read_published("zhang2020_backward.csv")
        if row["workload"] == model
    ]
    iteration_us = next(
        Fraction(row["iteration_ms"]) * 1000
        for row in read_published("zhang2020_compute.csv")
        if row["workload"] == model
    )
    additions = [
        (int(row["vector_bytes"]), Fraction(row["add_us"])) for row in read_published("zhang2020_vector_add.csv")
    ]
    us_per_byte = Fraction(2 * (workers - 1) * 10**6, workers * link_gbps * BYTES_PER_S_PER_GBPS * compression)
    clock = since_emit = network_free = Fraction(0)
    gathered = 0
    for position, (size, gap) in enumerate(gradients, start=1):
        clock += gap
        since_emit += gap
        gathered += size
        if since_emit >= 5000 or gathered >= 64 * 2**20 or position == len(gradients):
            transfer = us_per_byte * gathered + (workers - 1) * _exact_add(Fraction(gathered, workers), additions)
            network_free = max(network_free, clock) + transfer
            since_emit, gathered = Fraction(0), 0
    return iteration_us / (iteration_us + network_free - clock)


def _exact_add(size: Fraction, table: list[tuple[int, Fraction]]) -> Fraction:
    """Microseconds of one addition: linear between measured sizes, flat outside them."""
    right = bisect_right([measured for measured, _ in table], size)
    if right in (0, len(table)):
        return table[0 if right == 0 else -1][1]
    (size_0, time_0), (size_1, time_1) = table[right - 1], table[right]
    return time_0 + (time_1 - time_0) * (size - size_0) / (size_1 - size_0)
