"""How long a round of federated learning takes: the slowest sampled client's download, training and upload.

A client with downlink D and uplink U (bytes per second), latency α and training time C is done after

    t = 2α + download/D + C + upload/U,

and the server waits for all that it sampled. If m of n clients are sampled without replacement, every set equally
likely, the expected time of a round is the mean of the largest of m values,

    E = Σ_i t_(i) · binom(i − 1, m − 1) / binom(n, m),   t_(1) ≤ … ≤ t_(n),

since t_(i) is the largest of those sets that hold i and m − 1 of the i − 1 before it.

Leaf functions: seconds, bytes, bytes per second.
"""

import math
import random
from collections.abc import Sequence
from statistics import NormalDist

from wirebound.errors import InputError


def client_round_s(
    download: float, upload: float, compute_s: float, downlink: float, uplink: float, latency: float
) -> float:
    """Seconds of one client in one round: 2α + download/D + C + upload/U.

    Raises `InputError` for a link without bandwidth.
    """
    if not (downlink > 0 and uplink > 0):
        raise InputError(f"a client's downlink ({downlink:g} B/s) and uplink ({uplink:g} B/s) must be greater than 0")
    return 2 * latency + download / downlink + compute_s + upload / uplink


def speed_factors(clients: int, spread: float, seed: int) -> list[float]:
    """Speeds of clients relative to their median: quantiles of a log-normal distribution, dealt out at random.

    The i-th of n is exp(spread · Φ⁻¹((i − ½)/n)); a spread of 0 makes all alike. No speed is drawn, so that a few
    clients are as unequal as many; only who has which depends on the seed.
    """
    if clients < 1 or not spread >= 0:
        raise InputError(f"clients = {clients} must be at least 1, and their spread = {spread} at least 0")
    normal = NormalDist()
    factors = [math.exp(spread * normal.inv_cdf((i + 0.5) / clients)) for i in range(clients)]
    random.Random(seed).shuffle(factors)
    return factors


def expected_slowest(times: Sequence[float], sampled: int) -> float:
    """Expected largest of `sampled` times drawn from `times` without replacement; the module says how."""
    if not 1 <= sampled <= len(times):
        raise InputError(f"sampled = {sampled} must be between 1 and the {len(times)} clients")
    sets = math.comb(len(times), sampled)
    return sum(
        slowest * (math.comb(i, sampled - 1) / sets) for i, slowest in enumerate(sorted(times)) if i >= sampled - 1
    )


def elapsed_s(times: Sequence[float], rounds: Sequence[Sequence[int]]) -> list[float]:
    """Seconds after each round, given each client's time and who was sampled: sums of the slowest."""
    total, elapsed = 0.0, []
    for sampled in rounds:
        total += max(times[client] for client in sampled)
        elapsed.append(total)
    return elapsed


def break_even_uplink(
    rounds: float, upload: float, other_s: float, rounds_b: float, upload_b: float, other_b_s: float
) -> float | None:
    """Uplink in bytes per second at which two ways to train take equally long, None if one is faster on every uplink.

    A way takes r·(o + upload/U): r rounds, o seconds of a round without the upload. So
    U = (r·upload − r_b·upload_b) / (r_b·o_b − r·o), if that is greater than 0.
    """
    saved_bytes = rounds * upload - rounds_b * upload_b
    lost_s = rounds_b * other_b_s - rounds * other_s
    if lost_s == 0 or saved_bytes / lost_s <= 0:
        return None
    return saved_bytes / lost_s
