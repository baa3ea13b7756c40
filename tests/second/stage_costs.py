"""Seconds of each stage of a message: encode, push, pull, decode. Without separate stages the push is all."""

from dataclasses import dataclass

import simpy

from wirebound.model import Cluster, Link

from .codes import Load, code_of
from .collectives import bruck_gather, gtopk_tree, ring_gather
from .exchange import Network
from .wires import Ranks, everyone


@dataclass(frozen=True)
class Stages:
    encode: float
    push: float
    pull: float
    decode: float


class StageCosts:
    def __init__(self, workload, cluster, method, table):
        self.cluster, self.method = cluster, method
        self.codes = [code_of(tensor, method) for tensor in workload.tensors]
        self.network = Network(cluster, method, table)
        one_node = Cluster(1, Link(float("inf")), cluster.accelerators_per_node, cluster.intra)
        self.inside = Network(one_node, method, table)
        self.servers = method.architecture == "parameter-server" and cluster.nodes > 1
        self.flat = method.collective == "flat-ring" and method.architecture == "all-reduce"
        self.on_a_ring = method.collective in ("ring", "flat-ring")
        per_node = cluster.accelerators_per_node
        self.senders = cluster.nodes * per_node if self.flat else cluster.nodes

    def of(self, tensors):
        """The stages of a message of these whole tensors."""
        loads = {}
        encode = decode = 0.0
        for tensor in tensors:
            compressor, met, load = self.codes[tensor]
            group = "sum" if compressor is None else met
            # what stays uncompressed is an operation beside the summed payloads
            key = ("raw", "sum") if compressor is None else ("coded", group)
            loads[key] = loads.get(key, Load()) + load
            if compressor is not None:
                coders, payloads = self.coding(met)
                if coders:
                    codec, share = compressor.codec, load.raw / coders
                    encode += codec.encode_s + codec.encode_s_per_byte * share
                    if payloads:
                        decode += codec.decode_s + codec.decode_s_per_byte * share * payloads
        ways = [self.wire(met, load) for (_, met), load in loads.items()]
        return Stages(encode, sum(push for push, _ in ways), sum(pull for _, pull in ways), decode)

    def of_bytes(self, size):
        """The stages of a message of so many uncompressed bytes."""
        push, pull = self.wire("sum", Load(size, size, size))
        return Stages(0.0, push, pull, 0.0)

    def whole(self):
        """(bytes of gradient, Load by kind) of all tensors."""
        loads = {}
        for compressor, met, load in self.codes:
            key = ("raw", "sum") if compressor is None else ("coded", met)
            loads[key] = loads.get(key, Load()) + load
        return loads

    def seconds_of_share(self, share):
        """On the wire, of a message with this share of every tensor."""
        return sum(sum(self.wire(met, load.times(share))) for (_, met), load in self.whole().items())

    def coding(self, met):
        """Accelerators over which a node's coding is spread (0: none), and payloads that each decodes."""
        if met == "sum":
            return 1, 1
        if self.senders == 1:
            return 0, 0
        coders = 1 if self.flat else self.cluster.accelerators_per_node
        if self.method.architecture == "parameter-server":
            return coders, 1 if met == "vote" or self.method.compressed_pull else 0
        return coders, 1 if met == "tree" else self.senders

    def wire(self, met, load):
        if self.servers:
            return self.through_servers(met, load)
        if met == "sum":
            return self.network.seconds(load.back), 0.0
        inside = 0.0 if self.flat else self.inside.seconds(load.raw)
        return inside + self.gather(met, load.own)[0], 0.0

    def gather(self, met, size):
        """(seconds, bytes sent) of payloads that cannot be summed on the way; several cards share them."""
        if self.senders == 1:
            return 0.0, 0.0
        between = self.cluster.nodes > 1
        cards = self.cluster.nics_per_node if between else 1
        process = gtopk_tree if met == "tree" else ring_gather if self.on_a_ring else bruck_gather
        env = simpy.Environment()
        ranks = Ranks(env, self.senders, self.cluster.inter if between else self.cluster.intra)
        env.process(process(ranks, size / cards))
        env.run()
        return env.now, ranks.busiest_sent * cards

    def both_ways(self, met, load):
        """Bytes that a node pushes and pulls: the sum comes back uncompressed where its code cannot hold it."""
        if met in ("sum", "vote") or self.method.compressed_pull:
            return load.own, load.back
        return load.own, load.raw

    def through_servers(self, met, load):
        method = self.method
        push, pull = (self.one_way(size / method.compression) for size in self.both_ways(met, load))
        inside = self.inside.seconds(load.back if met == "sum" else load.raw)
        if method.schedule == "tictac" or (method.pipelined and not method.colocated):
            return inside + push, pull
        hidden = (
            0.0 if method.colocated else method.push_pull_overlap * (min(push, pull) - self.cluster.inter.latency_s)
        )
        return inside + push + pull - hidden, 0.0

    def one_way(self, size):
        """All workers' lines and all servers' lines drain at once, each what it has to carry."""
        env, n, link = simpy.Environment(), self.cluster.nodes, self.cluster.inter
        rate = link.bandwidth * link.utilization
        size = size / self.cluster.nics_per_node
        if self.method.colocated:
            senders_of_one, bytes_of_server, bytes_of_worker = n - 1, (n - 1) * size / n, (n - 1) * size / n
        else:
            servers = self.method.servers or n
            senders_of_one, bytes_of_server, bytes_of_worker = n, n * size / servers, size
        goodput = rate * (1 - self.method.incast) if senders_of_one > 1 else rate

        def line(size, rate):
            yield env.timeout(size / rate)

        def drain():
            yield everyone(env, [line(bytes_of_worker, rate), line(bytes_of_server, goodput)])
            yield env.timeout(link.latency_s)

        env.process(drain())
        env.run()
        return env.now

    def sent(self):
        """(bytes that a worker sends, bytes that its node's cards send) in a step."""
        per_node, nodes = self.cluster.accelerators_per_node, self.cluster.nodes
        worker = node = 0.0
        for (_, met), load in self.whole().items():
            if self.servers:
                push, pull = (size / self.method.compression for size in self.both_ways(met, load))
                crossed = (nodes - 1) / nodes * (push + pull) if self.method.colocated else push
                inside = self.inside.exchange(load.back if met == "sum" else load.raw).worker_bytes
                worker, node = worker + inside + crossed / per_node, node + crossed
            elif met == "sum":
                exchange = self.network.exchange(load.back)
                worker, node = worker + exchange.worker_bytes, node + exchange.node_bytes
            else:
                crossed = self.gather(met, load.own)[1]
                if self.flat:
                    worker, node = worker + crossed, node + (crossed if nodes > 1 else 0.0)
                else:
                    worker += self.inside.exchange(load.raw).worker_bytes + crossed / per_node
                    node += crossed
        return worker, node
