"""Compiled loops of the sweep: the leaf functions of this package over many networks at once.

A network is a compression ratio, a latency and a bandwidth; a block of `BLOCK` of them goes through a step together,
message by message, so that the processor works on several at a time. Every network sees the very operations of
`simulate.step` in their order (no fast-math: the decisions of MG-WFBP are discontinuous), so the results are the same
to the last bit. Kernels release the GIL: threads share the work, each with networks of its own.

Compiled when first used. What calls a rule of another module is compiled anew in every process: Numba's cache on disk
looks at one file only, and would keep a rule that has changed elsewhere. Prices are passed to kernels as pointers, so
that a kernel is compiled once for all collectives.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit, types

from wirebound.simulate.all_reduces import FLAT_RING
from wirebound.simulate.collectives import ALL_REDUCES, hierarchical_all_reduce, ring_additions, vector_add
from wirebound.simulate.hierarchical import flat_ring_all_reduce
from wirebound.simulate.priority_kernel import forward_end_s, priority_order
from wirebound.simulate.schedules import mg_wfbp_merges
from wirebound.simulate.servers import colocated_parameter_server, parameter_server

#: Networks that go through a step together; their arrays stay in the processor's first cache.
BLOCK = 512

# Division by zero cannot happen after validation; NumPy's error model leaves out the check, which would stop
# vectorization. All numbers are IEEE doubles in the order that the source says.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
_FLOATS = types.float64[::1]
_COUNTS = types.int64[::1]
_SHAPE = types.Tuple([*[types.int64] * 3, *[types.float64] * 2, types.int64, types.float64])  # type: ignore[no-untyped-call]
_NETWORKS = types.UniTuple(_FLOATS, 4)  # type: ignore[no-untyped-call]
_PRICE_SIGNATURE = types.void(_FLOATS, _FLOATS, _FLOATS, _FLOATS, _SHAPE, _FLOATS)
_PRICE = types.FunctionType(_PRICE_SIGNATURE)


@cache
def compiled(leaf: Callable[..., Any]) -> Any:
    """Return a leaf function compiled on its first call, from the cache on disk where that can be written."""
    try:
        return njit(leaf, cache=True, **_OPTIONS)
    except RuntimeError:  # no folder for the cache can be written to
        return njit(leaf, **_OPTIONS)


def _between_nodes(kind: str) -> Any:
    """Seconds between nodes by the kind of exchange, all with the same arguments: a registered all-reduce, or servers.

    `kind` is the name of a collective, ``"servers"`` or ``"colocated"``.
    """
    if kind == "servers":
        apart = compiled(parameter_server)
        return njit(
            lambda wire, nodes, latency, bandwidth, servers, overlap: apart(
                wire, nodes, servers, latency, bandwidth, overlap
            ),
            **_OPTIONS,
        )
    leaf = compiled(colocated_parameter_server if kind == "colocated" else ALL_REDUCES[kind].seconds)
    return njit(
        lambda wire, nodes, latency, bandwidth, servers, overlap: leaf(wire, nodes, latency, bandwidth), **_OPTIONS
    )


@cache
def price_function(kind: str) -> Any:
    """Return the compiled seconds of messages without vector additions, element by element of its arrays.

    `price(sizes, ratios, latencies, bandwidths, shape, out)`: message k of `sizes` bytes before compression on network
    k; `shape` is (nodes, accelerators per node, network cards per node, intra-node latency s, intra-node bandwidth B/s,
    servers, push-pull overlap). It puts together what `cost.exchange_cost` puts together.
    """
    if kind == FLAT_RING:
        return _flat_ring_price()
    between, hierarchical = _between_nodes(kind), compiled(hierarchical_all_reduce)

    def price(sizes, ratios, latencies, bandwidths, shape, out):  # type: ignore[no-untyped-def]
        nodes, per_node, cards, intra_latency, intra_bandwidth, servers, overlap = shape
        if nodes == 1:
            for k in range(len(out)):
                out[k] = 0.0
        else:
            for k in range(len(out)):
                out[k] = between(sizes[k] / ratios[k] / cards, nodes, latencies[k], bandwidths[k], servers, overlap)
        if per_node > 1:
            for k in range(len(out)):
                out[k] = hierarchical(sizes[k] / ratios[k], per_node, intra_latency, intra_bandwidth, out[k])

    return njit(_PRICE_SIGNATURE, **_OPTIONS)(price)


def _flat_ring_price() -> Any:
    flat_ring = compiled(flat_ring_all_reduce)

    def price(sizes, ratios, latencies, bandwidths, shape, out):  # type: ignore[no-untyped-def]
        nodes, per_node, cards, intra_latency, intra_bandwidth, _, _ = shape
        for k in range(len(out)):
            wire = sizes[k] / ratios[k]
            out[k] = flat_ring(
                wire, nodes, per_node, cards, intra_latency, intra_bandwidth, latencies[k], bandwidths[k]
            )

    return njit(_PRICE_SIGNATURE, **_OPTIONS)(price)


@cache
def additions_function(kind: str) -> Any:
    """Return the compiled seconds of vector additions: `additions(sizes, nodes, per_node, table_bytes, table_s, out)`.

    With servers only the additions inside a node count (see `cost.message_cost`).
    """
    servers, flat = kind in ("servers", "colocated"), kind == FLAT_RING
    between = compiled(ring_additions if servers or flat else ALL_REDUCES[kind].additions)
    inside, add = compiled(ring_additions), compiled(vector_add)

    def additions(sizes, nodes, per_node, table_bytes, table_s, out):  # type: ignore[no-untyped-def]
        if flat:  # one ring of all accelerators, and none inside the nodes
            nodes, per_node = nodes * per_node, 1
        for k in range(len(sizes)):
            seconds = 0.0
            if per_node > 1:
                for count, piece in inside(sizes[k], per_node):
                    if count:
                        seconds += count * add(piece, table_bytes, table_s)
            if nodes > 1 and not servers:
                for count, piece in between(sizes[k] / per_node, nodes):
                    if count:
                        seconds += count * add(piece, table_bytes, table_s)
            out[k] = seconds

    signature = types.void(_FLOATS, types.int64, types.int64, _FLOATS, _FLOATS, _FLOATS)
    return njit(signature, **_OPTIONS)(additions)


@cache
def _read_networks() -> Any:
    """Spread networks `first`, `first` + 1, … of the grid of `networks` over three arrays."""

    def read(first, count, networks, ratio, latency, bandwidth):  # type: ignore[no-untyped-def]
        ratios, latencies, bandwidths, utilizations = networks
        row, u = divmod(first, len(utilizations))
        row, b = divmod(row, len(bandwidths))
        r, a = divmod(row, len(latencies))
        for k in range(count):
            ratio[k], latency[k], bandwidth[k] = ratios[r], latencies[a], bandwidths[b] * utilizations[u]
            u += 1  # on to the next network, as an odometer counts: divisions would cost as much as the step
            if u == len(utilizations):
                u, b = 0, b + 1
                if b == len(bandwidths):
                    b, a = 0, a + 1
                    if a == len(latencies):
                        a, r = 0, r + 1

    return njit(**_OPTIONS)(read)


@cache
def fifo_kernel() -> Any:
    """Return the kernel of fixed messages, first come, first served.

    `fifo(price, start, stop, networks, shape, sizes, ready, adds, end, busy)` writes, for the
    networks from `start` up to `stop` of the grid `networks` (compression ratios, latencies, bandwidths, utilizations;
    the last fastest), the seconds from the start of backward to the last message's end into `end`
    and, unless `busy` has no elements, the seconds that the network is busy.
    """
    read = _read_networks()

    def fifo(  # type: ignore[no-untyped-def]
        price, start, stop, networks, shape, sizes, ready, adds, end, busy
    ):
        size, ratio, latency, bandwidth = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
        cost = np.empty(BLOCK)
        for first in range(start, stop, BLOCK):
            count = min(BLOCK, stop - first)
            read(first, count, networks, ratio, latency, bandwidth)
            free = end[first - start : first - start + count]
            free[:] = 0.0
            worked = busy[first - start : first - start + count]
            worked[:] = 0.0
            for message in range(len(sizes)):
                size[:] = sizes[message]
                price(size[:count], ratio[:count], latency[:count], bandwidth[:count], shape, cost[:count])
                at, add = ready[message], adds[message]
                if len(worked) == 0:
                    for k in range(count):
                        free[k] = max(free[k], at) + (cost[k] + add)
                else:
                    for k in range(count):
                        begin = max(free[k], at)
                        free[k] = begin + (cost[k] + add)
                        worked[k] += free[k] - begin

    i = types.int64
    f = _FLOATS
    return njit(types.void(_PRICE, i, i, _NETWORKS, _SHAPE, f, f, f, f, f), **_OPTIONS)(fifo)


@cache
def mg_wfbp_kernel() -> Any:
    """Return the kernel of MG-WFBP, which chooses its messages by the network: `schedules.mg_wfbp_ends`, then FIFO.

    `mg_wfbp(price, start, stop, networks, shape, sizes, ready, adds, add_0, merge_below, end,
    busy)`: `sizes` and `ready` of the tensors, `adds[a, b]` the additions of a message of the tensors a to b, `add_0`
    of an empty one; the rest as in `fifo_kernel`.
    """
    read, merges = _read_networks(), compiled(mg_wfbp_merges)

    def mg_wfbp(  # type: ignore[no-untyped-def]
        price, start, stop, networks, shape, sizes, ready, adds, add_0, merge_below, end, busy
    ):
        ratio, latency, bandwidth = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
        startup, per_byte, cost = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
        held, planned_free = np.empty(BLOCK), np.empty(BLOCK)
        begins = np.empty(BLOCK, np.int64)
        closes = np.empty(BLOCK, np.bool_)
        tensors = len(sizes)
        total = sizes.sum()
        for first in range(start, stop, BLOCK):
            count = min(BLOCK, stop - first)
            read(first, count, networks, ratio, latency, bandwidth)
            free = end[first - start : first - start + count]
            worked = busy[first - start : first - start + count]
            worked[:] = 0.0
            # The affine cost through the two ends of the true one, as in `messages`.
            held[:] = 0.0
            price(held[:count], ratio[:count], latency[:count], bandwidth[:count], shape, startup[:count])
            held[:] = total
            price(held[:count], ratio[:count], latency[:count], bandwidth[:count], shape, per_byte[:count])
            for k in range(count):
                startup[k] += add_0
                per_byte[k] = max(0.0, per_byte[k] + adds[0, tensors - 1] - startup[k]) / total
                free[k] = planned_free[k] = held[k] = 0.0
                begins[k] = 0
            for tensor in range(tensors):
                last = tensor == tensors - 1
                size, at = sizes[tensor], ready[tensor]
                following = np.inf if last else ready[tensor + 1]
                small = 0.0 if last else merge_below
                closing = 0
                for k in range(count):
                    held[k] += size
                    begin = max(planned_free[k], at)
                    close = not merges(following - begin, startup[k], size, small)
                    closes[k] = close
                    closing += close
                    planned_free[k] = begin + startup[k] + per_byte[k] * held[k] if close else planned_free[k]
                if closing == 0:
                    continue
                price(held[:count], ratio[:count], latency[:count], bandwidth[:count], shape, cost[:count])
                for k in range(count):
                    cost[k] += adds[begins[k], tensor]
                    begins[k] = tensor + 1 if closes[k] else begins[k]
                if len(worked) > 0:
                    for k in range(count):
                        begin = max(free[k], at)
                        worked[k] += (begin + cost[k]) - begin if closes[k] else 0.0
                for k in range(count):
                    free[k] = max(free[k], at) + cost[k] if closes[k] else free[k]
                    held[k] = 0.0 if closes[k] else held[k]

    i = types.int64
    f = _FLOATS
    r = types.float64
    return njit(types.void(_PRICE, i, i, _NETWORKS, _SHAPE, f, f, r[:, ::1], r, r, f, f), **_OPTIONS)(mg_wfbp)


@cache
def priority_kernel() -> Any:
    """Return the kernel of partitions by priority in steady state: `priority.priority_transfers`, `next_backward_s`.

    `priority(price, start, stop, networks, shape, sizes, ready, adds, tensors, credit,
    tensor_bytes, forward_gaps, optimizer_s, backward_s, end, busy)`: `sizes`, `ready`, `adds` and the `tensors` they
    belong to of the partitions; `end` is when the next forward pass ends, the rest as in `fifo_kernel`.
    """
    read, order, forward_end = _read_networks(), compiled(priority_order), compiled(forward_end_s)

    def priority(  # type: ignore[no-untyped-def]
        price,
        start,
        stop,
        networks,
        shape,
        sizes,
        ready,
        adds,
        tensors,
        credit,
        tensor_bytes,
        forward_gaps,
        optimizer_s,
        backward_s,
        end,
        busy,
    ):
        partitions = len(sizes)
        ratio, latency, bandwidth = np.empty(partitions), np.empty(partitions), np.empty(partitions)
        cost = np.empty(partitions)
        arrived = np.empty(len(tensor_bytes))
        for network in range(start, stop):
            read(network, 1, networks, ratio, latency, bandwidth)
            ratio[:], latency[:], bandwidth[:] = ratio[0], latency[0], bandwidth[0]
            price(sizes, ratio, latency, bandwidth, shape, cost)
            for k in range(partitions):
                cost[k] += adds[k]
            arrived[:] = 0.0
            worked = 0.0
            for index, begin_s, end_s in order(ready, tensors, sizes, cost, credit):
                arrived[tensors[index]] = max(arrived[tensors[index]], end_s)
                worked += end_s - begin_s
            end[network - start] = forward_end(arrived, tensor_bytes, forward_gaps, optimizer_s, backward_s)
            if len(busy) > 0:
                busy[network - start] = worked

    i = types.int64
    f = _FLOATS
    r = types.float64
    signature = types.void(_PRICE, i, i, _NETWORKS, _SHAPE, f, f, f, _COUNTS, r, f, f, r, r, f, f)
    return njit(signature, **_OPTIONS)(priority)
