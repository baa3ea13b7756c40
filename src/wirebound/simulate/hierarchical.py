"""Cost of an all-reduce over links of different speed: torus, BlueConnect, and one flat ring over all of them.

Leaf functions, in the units of `wirebound.simulate.collectives`, whose `hierarchical_all_reduce` is the one for
accelerators that share a network card.
"""

from collections.abc import Sequence


def torus_all_reduce(
    size: float, rows: int, columns: int, latency_1: float, bandwidth_1: float, latency_2: float, bandwidth_2: float
) -> float:
    """Seconds on a 2-D torus of X rows and Y columns, every worker with a card of its own in both directions.

    2(X−1)α₁ + 2(X−1)/X · S/B₁ + 2(Y−1)α₂ + 2(Y−1)/(XY) · S/B₂: rings of X reduce to shards, Y-rings reduce and spread
    the shards, rings of X gather them (Mikami et al. 2018; Ying et al. 2018).
    """
    first_s = 2 * (rows - 1) * latency_1 + 2 * (rows - 1) / rows * size / bandwidth_1
    second_s = 2 * (columns - 1) * latency_2 + 2 * (columns - 1) / (rows * columns) * size / bandwidth_2
    return first_s + second_s


def blueconnect_all_reduce(
    size: float, factors: Sequence[int], latencies: Sequence[float], bandwidths: Sequence[float]
) -> float:
    """Seconds of BlueConnect over P = p1·…·pk workers: Σ 2(p_i−1)α_i + 2 Σ (p_i−1)/(p1…p_i) · S/B_i (Cho et al. 2019).

    Stage i runs rings of p_i workers over links of α_i and B_i, on shards that the stages before it have made smaller.
    One stage is a ring; two are a 2-D torus.
    """
    seconds = 0.0
    reached = 1
    for index in range(len(factors)):
        reached *= factors[index]
        steps = 2 * (factors[index] - 1)
        seconds += steps * latencies[index] + steps / reached * size / bandwidths[index]
    return seconds


def blueconnect_additions(size: float, factors: Sequence[int]) -> list[tuple[int, float]]:
    """Vector additions of one worker of BlueConnect: in stage i p_i−1 of S/(p1…p_i) bytes."""
    additions = []
    reached = 1
    for index in range(len(factors)):
        reached *= factors[index]
        additions.append((factors[index] - 1, size / reached))
    return additions


def flat_ring_all_reduce(
    size: float,
    nodes: int,
    per_node: int,
    cards: int,
    intra_latency: float,
    intra_bandwidth: float,
    inter_latency: float,
    inter_bandwidth: float,
) -> float:
    """Seconds of one ring over all P = X·Y accelerators, laid node after node, which ignores that nodes exist.

    Each of the 2(P−1) rounds lasts as long as its slowest hop: α₁ + S/(P·B₁) inside a node, α₂ + S/(P·B₂) between
    nodes, where one hop leaves and one enters each node. So a node's card carries 2(P−1)/P · S, as in the what-if model
    of Zhang et al. (2020). With several `cards` a node there is one ring for each, which carries its share of S.
    """
    workers = nodes * per_node
    hop_s = 0.0
    if per_node > 1:
        hop_s = intra_latency + size / workers / intra_bandwidth
    if nodes > 1:
        hop_s = max(hop_s, inter_latency + size / (cards * workers) / inter_bandwidth)
    return 2 * (workers - 1) * hop_s
