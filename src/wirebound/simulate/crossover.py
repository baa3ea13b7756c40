"""From which message size on another all-reduce is the faster one, in closed form.

Leaf functions over workers P, seconds per message α and bytes per second B; results in bytes: 0 where the second is
the faster from the start (or ties at nothing), infinity where it never is.
"""

import math


def ring_beats_halving_doubling(workers: int, latency: float, bandwidth: float) -> float:
    """Bytes from which on a ring is faster than recursive halving and doubling.

    With a power of two never, as both send the same bytes and the ring more messages. Otherwise, with p = 2^⌊log2 P⌋,
    S = (2(P−1) − 2·log2 p − 2)·α·B / (2(p−1)/p + 2 − 2(P−1)/P).
    """
    rounds, power = 0, 1
    while 2 * power <= workers:
        rounds, power = rounds + 1, 2 * power
    if power == workers:
        return math.inf
    messages = 2 * (workers - 1) - 2 * rounds - 2
    share = 2 * (power - 1) / power + 2 - 2 * (workers - 1) / workers
    return messages * latency * bandwidth / share


def ring_beats_pipelined_tree(workers: int, latency: float, bandwidth: float) -> float:
    """Bytes from which on a ring is faster than a pipelined double binary tree (see `trees`).

    With h = S/(2B) the ring takes 2(P−1)α + 4(P−1)/P·h, the tree 2d(α + h) in one piece and
    (2d−f)α + f·h + 2√((2d−f)f·α·h) in the best number of pieces: a linear and, in √h, a quadratic equation.
    """
    if workers <= 2:
        return math.inf
    depth, reached = 0, 1
    while reached < workers:
        depth, reached = depth + 1, 2 * reached
    sends = min(workers, 4)
    ahead = 2 * depth - sends
    share = 4 * (workers - 1) / workers
    half_s = (2 * (workers - 1) - 2 * depth) * latency / (2 * depth - share)
    if ahead * half_s > sends * latency:
        linear = (ahead * sends * latency) ** 0.5
        square = sends - share
        root = (linear * linear + square * (2 * (workers - 1) - ahead) * latency) ** 0.5
        half_s = ((root - linear) / square) ** 2
    return 2 * half_s * bandwidth


def halving_doubling_beats_recursive_doubling(workers: int, latency: float, bandwidth: float) -> float:
    """Bytes from which on halving and doubling is faster than recursive doubling, which sends whole vectors.

    With p = 2^⌊log2 P⌋, S = log2 p·α·B / (log2 p − 2(p−1)/p); never with two or three workers.
    """
    rounds, power = 0, 1
    while 2 * power <= workers:
        rounds, power = rounds + 1, 2 * power
    share = rounds - 2 * (power - 1) / power
    if share <= 0:
        return math.inf
    return rounds * latency * bandwidth / share
