"""Hand-made and generated jobs that the tests of this folder share."""

from hypothesis import strategies as st

from wirebound.model import Cluster, Link, Tensor, Workload


def made(gaps, sizes, forward_s=0.0, optimizer_s=0.0, forwards=None, vector_add=()):
    """A workload of these backward gaps (s) and sizes (bytes); one without any compute has a second of optimizer."""
    if not any(gaps) and forward_s == optimizer_s == 0:
        optimizer_s = 1.0
    forwards = forwards or [None] * len(gaps)
    tensors = tuple(
        Tensor(f"t{index}", size, gap, forward)
        for index, (size, gap, forward) in enumerate(zip(sizes, gaps, forwards, strict=True))
    )
    return Workload("made", 1, tensors, forward_s, optimizer_s, vector_add=tuple(vector_add))


#: Two workers on 1 B/s without latency: a ring all-reduce of S bytes takes S seconds.
UNIT_CLUSTER = Cluster(2, Link(1.0))

workloads = st.lists(
    st.tuples(st.floats(0, 0.05), st.integers(1, 10**8)),
    min_size=1,
    max_size=14,
).flatmap(
    lambda rows: st.builds(
        made,
        st.just([gap for gap, _ in rows]),
        st.just([size for _, size in rows]),
        st.floats(1e-3, 0.5),
        st.floats(0, 0.05),
    )
)

links = st.builds(Link, st.floats(1e6, 1e11), st.floats(0, 1e-3), st.floats(0.1, 1))
clusters = st.builds(Cluster, st.integers(1, 40), links, st.integers(1, 8), links)
