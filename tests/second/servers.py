"""Parameter servers as messages: every worker's vector is cut into one shard per server."""

import simpy

from .wires import Port, Ranks, everyone


def _one_way(env, senders, receivers, size, latency):
    """Every sender gives every receiver `size` bytes; a transfer holds the sender's line and the receiver's.

    In turn t, sender i serves receiver i + t, and waits where that number belongs to nobody: so no two meet at a line.
    The shards of one sender travel back to back, so the latency is paid once.
    """
    turns = max(len(senders), len(receivers))

    def sender(number):
        port = senders[number]
        for turn in range(turns):
            target = (number + turn) % turns
            if target < len(receivers):
                with port.line.request() as out, receivers[target].line.request() as into:
                    yield out & into
                    yield env.timeout(size / port.bandwidth)
                port.sent += size
            else:
                yield env.timeout(size / port.bandwidth)

    yield everyone(env, [sender(number) for number in range(len(senders))])
    yield env.timeout(latency)


def separate_servers(env, workers, link, servers, size, overlap):
    """Push through the workers' uplinks and the servers' inbound lines, pull through the two other directions.

    A share `overlap` of the pull's time runs while the push is still going on: cards are full duplex.
    """
    up, down = workers.ports, [Port(env, link) for _ in range(workers.count)]
    into, out = [Port(env, link) for _ in range(servers)], [Port(env, link) for _ in range(servers)]
    shard = size / servers
    turns = max(workers.count, servers)
    one_way = turns * shard / up[0].bandwidth

    def pull():
        yield env.timeout((1 - overlap) * one_way + link.latency_s)
        yield env.process(_one_way(env, out, down, shard, link.latency_s))

    push = env.process(_one_way(env, up, into, shard, link.latency_s))
    yield push & env.process(pull())


def colocated_servers(env, machines: Ranks, link, size):
    """Every machine is a worker and the server of one shard: a push and then a pull with every other machine."""
    n = machines.count
    inbound = [simpy.Resource(env, capacity=1) for _ in range(n)]

    def machine(number):
        port = machines.ports[number]
        for _direction in ("push", "pull"):
            for turn in range(1, n):
                with port.line.request() as out, inbound[(number + turn) % n].request() as into:
                    yield out & into
                    yield env.timeout(size / n / port.bandwidth)
                port.sent += size / n
            yield env.timeout(link.latency_s)

    yield everyone(env, [machine(number) for number in range(n)])
