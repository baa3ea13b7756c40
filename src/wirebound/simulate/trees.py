"""Cost of a double binary tree whose pipeline has to fill, and whose busiest worker sets the pace.

Leaf functions, in the units of `wirebound.simulate.collectives`. `double_tree_all_reduce` there is the usual estimate:
it leaves the filling out and takes the bytes that a worker sends on average, so that it is never slower than a ring.
"""


def pipelined_double_tree_all_reduce(size: float, workers: int, latency: float, bandwidth: float) -> float:
    """Seconds of a double binary tree with the best number m of pieces: (2d−f + f·m)·(α + S/(2mB)).

    Each of two trees of depth d = ⌈log2 P⌉ carries half of the vector, in m pieces, up to its root and down again
    (Sanders et al. 2009; as in NCCL). The first piece makes 2d hops. For each further one the busiest worker sends f
    messages: 2 with two workers, 3 with three, else 4 (up in both trees, down to two children in the one where it is
    an inner node), so that long vectors take f/2 · S/B. The best m = √((2d−f)·S/(2B) / (f·α)), at least 1, is taken
    without rounding. The equation is this project's own: simulated message by message, trees take up to 15 % longer
    for long vectors and up to 40 % for those of one piece.
    """
    if workers == 1:
        return 0.0
    depth, reached = 0, 1
    while reached < workers:
        depth, reached = depth + 1, 2 * reached
    sends = min(workers, 4)
    ahead = 2 * depth - sends
    half_s = size / 2 / bandwidth
    if ahead * half_s <= sends * latency:  # one piece is best
        return (ahead + sends) * (latency + half_s)
    return float(ahead * latency + sends * half_s + 2 * (ahead * sends * latency * half_s) ** 0.5)


def double_tree_busiest_sent_bytes(size: float, workers: int) -> float:
    """Bytes that the busiest worker of a double binary tree sends: S with two workers, 3/2·S with three, else 2·S."""
    return min(workers, 4) / 2 * size if workers > 1 else 0.0
