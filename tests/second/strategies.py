"""Random jobs, clusters and methods for comparing the two implementations.

Two kinds of numbers: any at all, and short binary fractions, with which all arithmetic is exact. The latter make ties
(a gradient becomes ready as a transfer ends, a threshold is met to the byte) that rounding cannot break.
"""

import dataclasses

from hypothesis import strategies as st

from wirebound.model import METHODS, Cluster, Codec, Compressor, Link, Method, Tensor, Workload

MB = 10**6
GRID = 2.0**-10  # about a millisecond


def workload(rows, forward_s, optimizer_s, forwards=None, table=()):
    """Rows of (gap s, bytes); a job without any compute gets one second of optimizer."""
    if forward_s == optimizer_s == 0 and not any(gap for gap, _ in rows):
        optimizer_s = 1.0
    forwards = forwards or [None] * len(rows)
    tensors = (
        Tensor(f"t{i}", size, gap, forward) for i, ((gap, size), forward) in enumerate(zip(rows, forwards, strict=True))
    )
    return Workload("random", 1, tuple(tensors), forward_s, optimizer_s, vector_add=tuple(table))


any_size = st.one_of(st.integers(1, 500 * MB), st.integers(1, 10_000), st.integers(1, 8 * MB))
any_gap = st.one_of(st.just(0.0), st.floats(1e-7, 0.02), st.floats(1e-4, 0.2))
add_tables = st.lists(
    st.tuples(st.integers(1, 100 * MB), st.floats(0, 1e-2)), max_size=4, unique_by=lambda r: r[0]
).map(lambda rows: [(float(size), seconds) for size, seconds in sorted(rows)])


@st.composite
def any_workloads(draw, most=30):
    rows = draw(st.lists(st.tuples(any_gap, any_size), min_size=1, max_size=most))
    forwards = None
    if draw(st.booleans()):
        forwards = draw(st.lists(any_gap, min_size=len(rows), max_size=len(rows)))
    forward_s, optimizer_s = draw(st.one_of(st.just(0.0), st.floats(0, 0.5))), draw(st.floats(0, 0.05))
    return workload(rows, forward_s, optimizer_s, forwards, draw(add_tables))


@st.composite
def exact_workloads(draw, most=20):
    """Gaps on a grid of 2⁻¹⁰ s, sizes of 2¹⁶ bytes and multiples: zeros and ties are frequent."""
    rows = draw(
        st.lists(
            st.tuples(st.integers(0, 8).map(lambda k: k * GRID), st.integers(1, 24).map(lambda k: k * 2**16)),
            min_size=1,
            max_size=most,
        )
    )
    # every layer's share of forward is a power-of-two multiple of the grid as well: the total is their sum
    forwards = draw(st.lists(st.integers(0, 8).map(lambda k: k * GRID), min_size=len(rows), max_size=len(rows)))
    return workload(rows, sum(forwards), 0.0, forwards)


any_links = st.builds(Link, st.floats(1e6, 1e11), st.one_of(st.just(0.0), st.floats(0, 1e-3)), st.floats(0.1, 1))
#: Accelerators and network cards of a node.
nodes_of = st.sampled_from([(1, 1), (1, 1), (2, 1), (2, 2), (3, 1), (4, 2)])
any_clusters = st.builds(
    lambda nodes, inter, node, intra: Cluster(nodes, inter, node[0], intra, node[1]),
    st.integers(1, 9),
    any_links,
    nodes_of,
    any_links,
)
#: 2²⁶ B/s: 2¹⁶ bytes take 2⁻¹⁰ s.
exact_links = st.builds(Link, st.sampled_from([2.0**25, 2.0**26, 2.0**27]), st.integers(0, 4).map(lambda k: k * GRID))
exact_clusters = st.builds(Cluster, st.sampled_from([2, 4]), exact_links, st.sampled_from([1, 1, 2]), exact_links)


@st.composite
def methods(draw, job, exact=False):
    """A built-in method with its rules' thresholds drawn so that they matter for this job."""
    method = draw(st.sampled_from(sorted(METHODS.values(), key=lambda m: m.name)))
    total = sum(tensor.size for tensor in job.tensors)
    if exact:
        size = st.integers(1, 48).map(lambda k: k * 2.0**16)
        window = draw(st.integers(1, 20)) * GRID
        compression = draw(st.sampled_from([1.0, 2.0, 4.0]))
        overlap = draw(st.sampled_from([0.0, 0.5, 1.0]))
        partition = draw(st.integers(max(1, total // 2**16 // 40), 48)) * 2.0**16
        servers = draw(st.sampled_from([0, 1, 2, 4]))
    else:
        size = st.one_of(st.floats(1, total), st.floats(1, total / 4 + 1))
        window = draw(st.floats(1e-5, 0.1))
        compression = draw(st.one_of(st.just(1.0), st.floats(1, 100)))
        overlap = draw(st.floats(0, 1))
        partition = draw(st.floats(total / 40 + 1, 1.1 * total + 2))
        servers = draw(st.integers(0, 12))
    if method.schedule != "priority" and draw(st.booleans()):
        partition = float("inf")
    collectives = ["ring", "halving-doubling", "recursive-doubling", "tree", "blueconnect", "flat-ring", "auto:mpi"]
    collectives += ["byteps", "byteps:0", "byteps:2", "in-network", "in-network:8x128"]
    return dataclasses.replace(
        method,
        collective=draw(st.sampled_from(collectives)) if method.architecture == "all-reduce" else "ring",
        fusion_bytes=draw(size),
        fusion_window_s=window,
        bucket_cap_bytes=draw(size),
        first_bucket_bytes=draw(size),
        merge_below_bytes=draw(st.one_of(st.just(0.0), size)),
        partition_bytes=partition,
        credit_bytes=draw(size),
        servers=servers,
        colocated=draw(st.booleans()),
        push_pull_overlap=overlap,
        compression=compression,
    )


@st.composite
def any_cases(draw):
    job = draw(any_workloads())
    return job, draw(any_clusters), draw(methods(job)), draw(st.sampled_from([1, 1, 1, 2, 3])), draw(st.booleans())


@st.composite
def exact_cases(draw):
    job = draw(exact_workloads())
    return job, draw(exact_clusters), draw(methods(job, exact=True)), draw(st.sampled_from([1, 1, 2])), True


seconds = st.one_of(st.just(0.0), st.floats(0, 5e-3))
codecs = st.builds(Codec, seconds, st.floats(0, 1e-9), seconds, st.floats(0, 1e-9))
compressors = st.builds(
    lambda kind, codec: Compressor(*kind, codec=codec),
    st.sampled_from(
        [
            ("fp16",),
            ("randomk", 0.1),
            ("topk", 0.01),
            ("ef-signsgd",),
            ("qsgd", 4.0, 512),
            ("signsgd",),
            ("gtopk", 0.05),
        ]
    ),
    codecs,
)


@st.composite
def staged_cases(draw):
    """Jobs of whole fp32 values whose method has stages: a compressor, servers with stages of their own, or both."""
    rows = draw(st.lists(st.tuples(any_gap, any_size.map(lambda size: 4 * -(-size // 4))), min_size=1, max_size=14))
    job = workload(rows, draw(st.floats(0, 0.3)), draw(st.floats(0, 0.05)), None, draw(add_tables))
    schedule = draw(st.sampled_from(["bsp", "wfbp", "horovod", "ddp", "mg-wfbp", "priority", "tictac"]))
    servers = schedule == "tictac" or draw(st.booleans())
    compressor = draw(st.one_of(st.none(), compressors) if servers else compressors)
    if servers and compressor is not None and compressor.name == "gtopk":
        compressor = None
    pipelined = draw(st.booleans())
    total = sum(size for _, size in rows)
    method = Method(
        "random",
        "parameter-server" if servers else "all-reduce",
        schedule,
        collective="ring" if servers else draw(st.sampled_from(["ring", "halving-doubling", "flat-ring"])),
        fusion_bytes=draw(st.floats(1, total)),
        fusion_window_s=draw(st.floats(1e-4, 0.1)),
        bucket_cap_bytes=draw(st.floats(1, total)),
        credit_bytes=draw(st.floats(1, total)),
        partition_bytes=float("inf") if compressor else draw(st.floats(total / 20 + 1, 2 * total)),
        servers=draw(st.integers(0, 6)),
        colocated=draw(st.booleans()),
        pipelined=pipelined,
        push_pull_overlap=0.0 if pipelined else draw(st.sampled_from([0.0, 0.0, 0.5, 1.0])),
        incast=draw(st.sampled_from([0.0, 0.0, 0.3])),
        compressor=compressor,
        compress_from_bytes=draw(st.sampled_from([0.0, 0.0, 1e6])),
        compressed_pull=draw(st.booleans()),
    )
    return job, draw(any_clusters.filter(lambda c: c.workers > 1)), method, draw(st.sampled_from([1, 1, 2])), True
