"""Random jobs for the laws, cut into what each law may vary."""

import dataclasses
import math

from hypothesis import strategies as st

from second.strategies import any_clusters, any_workloads, methods
from wirebound.model import Cluster, Link

#: More than rounding can do.
ABOVE = 1 + 1e-9
#: Their list of messages does not depend on the network.
FIXED = ("bsp", "wfbp", "horovod", "ddp")

small_workloads = any_workloads(most=12)
proportional_links = st.builds(Link, st.floats(1e6, 1e11))
proportional_clusters = st.builds(
    Cluster, st.integers(2, 9), proportional_links, st.sampled_from([1, 2, 4]), proportional_links
)


@st.composite
def jobs(draw, clusters=any_clusters, schedules=None, **changes):
    """(workload, cluster, method), the method of one of these schedules and with these fields changed."""
    workload = draw(small_workloads)
    method = draw(methods(workload))
    if schedules is not None:
        method = dataclasses.replace(method, schedule=draw(st.sampled_from(schedules)))
    return workload, draw(clusters), dataclasses.replace(method, **changes)


def scaled(workload, *, time=1.0, size=1):
    """The workload with all its times and all its sizes multiplied."""
    tensors = tuple(
        dataclasses.replace(
            t,
            size=t.size * size,
            gap_s=t.gap_s * time,
            forward_s=None if t.forward_s is None else t.forward_s * time,
        )
        for t in workload.tensors
    )
    return dataclasses.replace(
        workload,
        tensors=tensors,
        forward_s=workload.forward_s * time,
        optimizer_s=workload.optimizer_s * time,
        vector_add=tuple((bytes_ * size, seconds * time) for bytes_, seconds in workload.vector_add),
    )


def changed_links(cluster, **change):
    """The cluster with a change, a function of the old value, to a field of both its links."""

    def changed(link):
        return dataclasses.replace(link, **{name: f(getattr(link, name)) for name, f in change.items()})

    return dataclasses.replace(cluster, inter=changed(cluster.inter), intra=changed(cluster.intra))


def scaled_method(method, *, time=1.0, size=1):
    """The method with its window, all its thresholds and the slots of a switch multiplied."""
    sizes = (
        "fusion_bytes",
        "bucket_cap_bytes",
        "first_bucket_bytes",
        "merge_below_bytes",
        "partition_bytes",
        "credit_bytes",
    )
    slots = {"in-network": (512, 256), "in-network:8x128": (8, 128)}.get(method.collective)
    collective = method.collective if slots is None else f"in-network:{slots[0]}x{slots[1] * size}"
    return dataclasses.replace(
        method,
        collective=collective,
        fusion_window_s=method.fusion_window_s * time,
        **{name: getattr(method, name) * size for name in sizes},
    )


FREE = Link(math.inf)
