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
