"""Cost of decentralized averaging with neighbours: leaf functions, in the units of `wirebound.simulate.collectives`.

Gossip is no all-reduce: a round brings the workers closer to their mean and no more. How many rounds that is worth is
told by the spectral gap of the graph's mixing matrix.
"""


def gossip(size: float, degree: int, latency: float, bandwidth: float) -> float:
    """Seconds of exchanging a vector with `degree` neighbours: dα + d·S/B (D-PSGD, Lian et al. 2017)."""
    return degree * latency + degree * size / bandwidth


def gossip_sent_bytes(size: float, degree: int) -> float:
    """Bytes that a worker sends to its neighbours: d·S."""
    return degree * size
