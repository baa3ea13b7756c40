"""Cost of one exchange with parameter servers: leaf functions, in the units of `wirebound.simulate.collectives`."""


def parameter_server(
    size: float, workers: int, servers: int, latency: float, bandwidth: float, overlap: float
) -> float:
    """Seconds to push and pull `size` bytes through k servers that are machines of their own.

    One way takes max(S/B, n·S/(k·B)): the worker's link or the servers' links, whichever is slower. Push and pull
    together take (2 − overlap) times that, overlap in [0, 1] being the share of pull hidden under push. Each of the
    two messages costs α, so 2α come on top.
    """
    one_way = max(size / bandwidth, workers * size / (servers * bandwidth))
    return 2 * latency + (2 - overlap) * one_way


def parameter_server_sent_bytes(size: float) -> float:
    """Bytes that a worker sends to servers of their own: S, the push; the pull is received."""
    return size


def colocated_parameter_server(size: float, workers: int, latency: float, bandwidth: float) -> float:
    """Seconds to push and pull through servers that share the n workers' machines: 2α + 2(n−1)/n · S/B.

    Each machine keeps 1/n of the parameters, so (n−1)/n of every push and pull crosses its link.
    """
    return 2 * latency + 2 * (workers - 1) / workers * size / bandwidth


def colocated_parameter_server_sent_bytes(size: float, workers: int) -> float:
    """Bytes that a machine sends, as worker (push) and as server (the others' pull): 2(n−1)/n · S."""
    return 2 * (workers - 1) / workers * size


def one_way_s(size: float, workers: int, servers: int, latency: float, bandwidth: float, incast: float) -> float:
    """Seconds to push, or to pull, `size` bytes through k servers of their own: α + max(S/B, n·S/(k·B·(1−incast))).

    `incast` in [0, 1) is the share of its goodput that a server's link loses when several workers use it at once.
    """
    goodput = bandwidth * (1 - incast) if workers > 1 else bandwidth
    return latency + max(size / bandwidth, workers * size / (servers * goodput))


def colocated_one_way_s(size: float, workers: int, latency: float, bandwidth: float, incast: float) -> float:
    """Seconds to push, or to pull, through servers on all n workers' machines: α + (n−1)/n · S/(B·(1−incast)).

    One server is sent to by n − 1 others; two machines alone have no incast.
    """
    goodput = bandwidth * (1 - incast) if workers > 2 else bandwidth
    return latency + (workers - 1) / workers * size / goodput


def exchange_s(push_s: float, pull_s: float, overlap: float) -> float:
    """Seconds of a push and its pull, of which the share `overlap` of the shorter is hidden under the other."""
    return (2 - overlap) * min(push_s, pull_s) + abs(push_s - pull_s)
