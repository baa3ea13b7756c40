"""What each message costs where gradients are encoded, or servers have stages: on the device, and on the wire.

Tensors of one message that travel in the same way share one operation; those that stay uncompressed are all-reduced,
or pushed and pulled, beside them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from wirebound.errors import InputError
from wirebound.model import Cluster, Compressor, Method, Tensor, Workload
from wirebound.model.cluster import FREE_LINK
from wirebound.simulate.all_reduces import FLAT_RING, candidates
from wirebound.simulate.compressors import Travel, gradient_of, payload_bytes, rule_of
from wirebound.simulate.cost import chosen_collective, exchange_sent_bytes, message_cost, sent_bytes
from wirebound.simulate.gather import (
    all_gather,
    all_gather_sent_bytes,
    gtopk_tree,
    gtopk_tree_sent_bytes,
    ring_all_gather,
)
from wirebound.simulate.messages import PlannedMessage
from wirebound.simulate.servers import colocated_one_way_s, exchange_s, one_way_s


class CodedMessage(NamedTuple):
    """Seconds that one message takes: encode and decode on the device, push and pull on the wire.

    Where there is one transfer, `push_s` is all of it and `pull_s` is 0. `sent_bytes` is what the node's link sends.
    """

    encode_s: float
    push_s: float
    pull_s: float
    decode_s: float
    sent_bytes: float


class Load(NamedTuple):
    """Bytes of one message, or of a part of it: uncompressed, one worker's payload, and the payload of the sum."""

    raw: float
    own: float
    summed: float

    def times(self, factor: float) -> "Load":
        """The same in proportion."""
        return Load(self.raw * factor, self.own * factor, self.summed * factor)


Way = Travel | Literal["dense"]


class _Code(NamedTuple):
    """How one tensor is sent; no compressor where it stays uncompressed."""

    compressor: Compressor | None
    way: Way
    load: Load


class Coding:
    """The costs of a workload's messages on a cluster, by a method with compressors, server stages or incast.

    All-reduced payloads take the place of the gradients on every link, and are added as vectors where additions are
    counted. Gathered ones (and votes) go around a ring over the nodes, or, where `method.collective` is none, in
    ⌈log2 P⌉ rounds (see `gather.all_gather`): each node first reduces its gradients uncompressed, its accelerators
    encode and decode a share each and spread the result. With the collective ``flat-ring`` all workers gather from each
    other over the nodes' links. Each of m network cards carries 1/m. One node alone does not encode what is gathered
    between nodes.

    Servers receive a worker's payload and send the sum: in the same code where payloads can be summed or voted on,
    else uncompressed, unless `method.compressed_pull`. Their own coding happens on other machines and is free.

    Raises `InputError` for an unknown compressor or tensor, or gTop-k with servers.
    """

    def __init__(
        self, workload: Workload, cluster: Cluster, method: Method, *, include_vector_add: bool = True
    ) -> None:
        plain = replace(method, compressor=None, compressors_by_tensor=())
        self._workload, self._cluster, self._method = workload, cluster, method
        self._dense = message_cost(workload, cluster, plain, include_vector_add=include_vector_add)
        node = Cluster(1, FREE_LINK, cluster.accelerators_per_node, cluster.intra)
        self._inside = message_cost(workload, node, plain, include_vector_add=include_vector_add)
        self._plain, self._names = plain, candidates(method.collective)
        self._chosen = chosen_collective(workload, cluster, plain, include_vector_add=include_vector_add)
        self._is_flat = method.architecture == "all-reduce" and method.collective == FLAT_RING
        self._cards = cluster.nics_per_node if cluster.nodes > 1 else 1
        self._senders = cluster.workers if self._is_flat else cluster.nodes
        self._codes = self._tensor_codes()
        self._totals = self._by_way((code, code.load.raw) for code in self._codes)

    @property
    def nominal_ratio(self) -> float:
        """Bytes of all gradients ÷ bytes of one worker's payloads."""
        return self._method.compression * self._workload.size / sum(load.own for load in self._totals.values())

    def planning_cost(self, size: float) -> float:
        """Seconds on the wire of a message of `size` bytes, coded as the whole gradient is on average."""
        share = size / self._workload.size
        stages = [self._wire_s(way, load.times(share)) for way, load in self._totals.items()]
        return sum(push_s + pull_s for push_s, pull_s in stages)

    def messages(self, planned: Sequence[PlannedMessage]) -> list[CodedMessage]:
        """Return the costs of each message.

        A tensor that is cut has its payload shared out in proportion; each piece pays the time per tensor of its codec.
        """
        known: dict[tuple[tuple[int, float], ...], CodedMessage] = {}
        coded = []
        for parts in tensor_parts(planned, self._workload.sizes):
            key = tuple([(id(self._codes[tensor]), part) for tensor, part in parts])
            if key not in known:  # equal tensors have the same code: few messages differ
                known[key] = self._message([(self._codes[tensor], part) for tensor, part in parts])
            coded.append(known[key])
        return coded

    def sent(self, planned: Sequence[PlannedMessage]) -> tuple[float, float]:
        """Return the bytes that one worker sends in a step over all its links, and those that its node's link sends."""
        groups = [self._totals]
        if len(self._names) > 1:  # the collective is chosen for each message
            parts = tensor_parts(planned, self._workload.sizes)
            groups = [self._by_way((self._codes[tensor], raw) for tensor, raw in found) for found in parts]
        sent = [self._sent(way, load) for group in groups for way, load in group.items()]
        return sum(worker for worker, _ in sent), sum(node for _, node in sent)

    def wire_ratio(self, planned: Sequence[PlannedMessage]) -> float:
        """Return bytes that cross a node's link without compression ÷ those that do; of one node, its accelerators'.

        With servers both directions count, pushes and pulls; in an all-reduce or a gather they are equal.
        """
        if self._method.architecture == "parameter-server" and self._cluster.nodes > 1:
            crossed = sum(sum(self._server_bytes(way, load)) for way, load in self._totals.items())
            return self._method.compression * 2 * self._workload.size / crossed
        link = 1 if self._cluster.nodes > 1 else 0
        dense = replace(self._plain, compression=1.0)
        sizes = [message.size for message in planned]
        return sent_bytes(self._workload, self._cluster, dense, sizes)[link] / self.sent(planned)[link]

    def _tensor_codes(self) -> list[_Code]:
        method, workload = self._method, self._workload
        chosen = dict(method.compressors_by_tensor)
        unknown = set(chosen) - {tensor.name for tensor in workload.tensors}
        if unknown:
            raise InputError(f"workload {workload.name!r} has no tensor {min(unknown)!r} to compress")
        known: dict[tuple[int, tuple[int, ...] | None, Compressor | None], _Code] = {}
        codes = []
        for tensor in workload.tensors:
            compressor = chosen.get(tensor.name, method.compressor)
            if tensor.name not in chosen and tensor.size < method.compress_from_bytes:
                compressor = None
            key = (tensor.size, tensor.shape, compressor)
            if key not in known:  # networks repeat few tensors many times
                known[key] = self._tensor_code(tensor, compressor)
            codes.append(known[key])
        return codes

    def _tensor_code(self, tensor: Tensor, compressor: Compressor | None) -> _Code:
        own = None if compressor is None else payload_bytes(compressor, gradient_of(self._workload, tensor))
        if compressor is None or own is None:
            return _Code(None, "dense", Load(tensor.size, tensor.size, tensor.size))
        way = rule_of(compressor).travels
        if way == "gtopk-tree" and self._method.architecture == "parameter-server":
            raise InputError(f"{compressor.label} merges in a tree between workers: use an all-reduce method")
        summed = payload_bytes(compressor, gradient_of(self._workload, tensor, self._cluster.workers))
        return _Code(compressor, way, Load(tensor.size, own, own if summed is None else summed))

    @staticmethod
    def _by_way(parts: Iterable[tuple[_Code, float]]) -> dict[Way, Load]:
        """Add up what travels in the same way, of tensors with the uncompressed bytes that are sent of each."""
        loads: dict[Way, Load] = {}
        for code, raw in parts:
            _, own, summed = code.load if raw == code.load.raw else code.load.times(raw / code.load.raw)
            if code.compressor is None:
                own = summed = raw
            held = loads.get(code.way, Load(0, 0, 0))
            loads[code.way] = Load(held.raw + raw, held.own + own, held.summed + summed)
        return loads

    def _message(self, parts: Sequence[tuple[_Code, float]]) -> CodedMessage:
        loads = self._by_way(parts)
        stages = [self._wire_s(way, load) for way, load in loads.items()]
        sent_bytes = sum(self._sent(way, load)[1] for way, load in loads.items())
        encode_s = decode_s = 0.0
        for code, raw in parts:
            if code.compressor is not None:
                codec = code.compressor.codec
                accelerators, payloads = self._coders(code.way)
                if accelerators:
                    size = raw / accelerators
                    encode_s += codec.encode_s + codec.encode_s_per_byte * size
                    decode_s += codec.decode_s * min(payloads, 1) + codec.decode_s_per_byte * size * payloads
        push_s, pull_s = sum(push for push, _ in stages), sum(pull for _, pull in stages)
        return CodedMessage(encode_s, push_s, pull_s, decode_s, sent_bytes)

    def _coders(self, way: Way) -> tuple[int, int]:
        """Over how many accelerators the coding of a node is spread (0: none is done), and the payloads to decode."""
        if way in ("all-reduce", "two-all-reduces"):
            return 1, 1
        if self._senders == 1:
            return 0, 0
        accelerators = 1 if self._is_flat else self._cluster.accelerators_per_node
        if self._method.architecture == "parameter-server":
            return accelerators, 1 if way == "vote" or self._method.compressed_pull else 0
        return accelerators, 1 if way == "gtopk-tree" else self._senders

    def _wire_s(self, way: Way, load: Load) -> tuple[float, float]:
        """Seconds of push and pull, or of the one transfer and 0."""
        if way == "two-all-reduces":  # one factor after the other
            push_s, pull_s = self._wire_s("all-reduce", load.times(0.5))
            return 2 * push_s, 2 * pull_s
        if self._method.architecture == "parameter-server" and self._cluster.nodes > 1:
            return self._servers_s(way, load)
        if way in ("dense", "all-reduce"):
            return self._dense(load.summed), 0.0
        if self._is_flat:
            return self._gather_s(way, load.own), 0.0
        return self._inside(load.raw) + self._gather_s(way, load.own), 0.0

    def _gather_s(self, way: Way, payload: float) -> float:
        link = self._cluster.inter if self._cluster.nodes > 1 else self._cluster.intra
        gather = ring_all_gather if self._method.collective in ("ring", FLAT_RING) else all_gather
        rule = gtopk_tree if way == "gtopk-tree" else gather
        if self._senders == 1:
            return 0.0
        return rule(payload / self._cards, self._senders, link.latency_s, link.effective_bandwidth)

    def _servers_s(self, way: Way, load: Load) -> tuple[float, float]:
        method, link, nodes = self._method, self._cluster.inter, self._cluster.nodes
        push, pull = self._server_bytes(way, load)
        apart = method.schedule == "tictac" or (method.pipelined and not method.colocated)
        if push == pull and not apart and not method.incast and way in ("dense", "all-reduce"):
            return self._dense(push), 0.0
        latency, bandwidth = link.latency_s, link.effective_bandwidth
        ratio = method.compression * self._cards
        if method.colocated:
            push_s, pull_s = (
                colocated_one_way_s(size / ratio, nodes, latency, bandwidth, method.incast) for size in (push, pull)
            )
        else:
            servers = method.servers or nodes
            push_s, pull_s = (
                one_way_s(size / ratio, nodes, servers, latency, bandwidth, method.incast) for size in (push, pull)
            )
        inside_s = self._inside(load.summed if way == "all-reduce" else load.raw)
        if apart:
            return inside_s + push_s, pull_s
        overlap = 0.0 if method.colocated else method.push_pull_overlap
        return inside_s + 2 * latency + exchange_s(push_s - latency, pull_s - latency, overlap), 0.0

    def _server_bytes(self, way: Way, load: Load) -> tuple[float, float]:
        """What a node pushes and pulls."""
        if way in ("dense", "all-reduce", "two-all-reduces", "vote") or self._method.compressed_pull:
            return load.own, load.summed
        return load.own, load.raw

    def _sent(self, way: Way, load: Load) -> tuple[float, float]:
        """Bytes that a worker and its node's link send."""
        nodes, per_node = self._cluster.nodes, self._cluster.accelerators_per_node
        inside = 2 * (per_node - 1) / per_node * load.raw
        if self._method.architecture == "parameter-server" and nodes > 1:
            push, pull = self._server_bytes(way, load)
            node = ((nodes - 1) / nodes * (push + pull) if self._method.colocated else push) / self._method.compression
            if way in ("dense", "all-reduce", "two-all-reduces"):
                inside = 2 * (per_node - 1) / per_node * load.summed / self._method.compression
            return inside + node / per_node, node
        if way in ("dense", "all-reduce", "two-all-reduces"):
            wire = load.summed / self._method.compression
            return exchange_sent_bytes(wire, self._cluster, self._plain, self._chosen(load.summed))
        rule = gtopk_tree_sent_bytes if way == "gtopk-tree" else all_gather_sent_bytes
        sent = 0.0 if self._senders == 1 else rule(load.own, self._senders)
        if self._is_flat:
            return sent, sent if nodes > 1 else 0.0
        return inside + sent / per_node, sent


def tensor_parts(planned: Sequence[PlannedMessage], sizes: Sequence[int]) -> list[list[tuple[int, float]]]:
    """Return the tensors of each message with the bytes of each that it carries.

    The messages lie end to end over the tensors, so that only the first and the last of a message can be cut.
    """
    found = []
    tensor, used = -1, 0.0
    for message in planned:
        left = float(message.size)
        parts = []
        for index in message.tensors:
            if index != tensor:
                tensor, used = index, 0.0
            part = min(left, sizes[index] - used)
            left -= part
            used += part
            parts.append((index, part))
        found.append(parts)
    return found
