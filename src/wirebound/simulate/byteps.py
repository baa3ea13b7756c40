"""Cost of BytePS: workers' machines and extra servers share the summation so that every link is busy all the time.

Leaf functions, in the units of `wirebound.simulate.collectives`.
"""


def byteps_all_reduce(size: float, workers: int, latency: float, bandwidth: float, servers: int) -> float:
    """Seconds with n workers and 0 ≤ k ≤ n extra servers: 2α + 2n(n−1)S / ((n²+kn−2k)·B) (Jiang et al. 2020).

    No extra server gives the bytes of an all-reduce, n give those of servers of their own with push and pull fully
    overlapped; with two workers extra servers change nothing. More servers than workers stand idle. A push and a pull
    cost α each, as with other servers.
    """
    if workers == 1:  # also the 0/0 of n = k = 1
        return 0.0
    servers = min(servers, workers)
    links = workers * workers + servers * workers - 2 * servers
    return 2 * latency + 2 * workers * (workers - 1) * size / (links * bandwidth)


def byteps_sent_bytes(size: float, workers: int, servers: int) -> float:
    """Bytes that a worker's machine sends, all links being equally busy: 2n(n−1)S / (n²+kn−2k)."""
    if workers == 1:
        return 0.0
    servers = min(servers, workers)
    return 2 * workers * (workers - 1) * size / (workers * workers + servers * workers - 2 * servers)
