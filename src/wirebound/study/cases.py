"""Questions that practitioners asked in public threads: this tool's answer, computed, next to what was observed.

What is given (models, machines, measured steps) is in the functions; what was observed is in
``data/published/cases.csv``. Nothing is fitted to what was observed, except where the question is which bandwidth
explains it.
"""

from collections.abc import Callable

import pandas as pd

from wirebound.model import Cluster, Link, Method, Tensor, Workload, method_named
from wirebound.model.library import builtin_workload
from wirebound.simulate.need import solve_need
from wirebound.simulate.step import simulate_step
from wirebound.study.data import load_table
from wirebound.units import BYTES_PER_S_PER_GBPS as GBPS

#: NCCL's rings pass through every accelerator, so that a node's link carries 2(P−1)/P of the gradients.
_DDP = method_named("ddp", collective="flat-ring")
_HOROVOD = method_named("horovod", collective="flat-ring")


def _even_workload(name: str, size: int, layers: int, compute_s: float) -> Workload:
    """A model of equal layers, a third of the compute in forward, for a job of which only totals are known."""
    tensors = tuple(Tensor(f"layer{index}", size // layers, 2 / 3 * compute_s / layers) for index in range(layers))
    return Workload(name, 1, tensors, forward_s=compute_s / 3, timing="flop-proportional", source="totals only")


def _cluster(nodes: int, per_node: int, gbps: float) -> Cluster:
    """A cluster whose nodes share one link among their accelerators; exchange inside a node is free."""
    return Cluster(nodes, Link(gbps * GBPS), per_node)


def _bandwidth_gbps(workload: Workload, nodes: int, per_node: int, step_s: float, method: Method = _DDP) -> float:
    """The bandwidth of a node's link, in Gbps, at which a step takes `step_s` seconds."""
    answer = solve_need(
        workload, _cluster(nodes, per_node, 1), method, target=workload.compute_s / step_s, solve="bandwidth"
    )
    assert answer.value is not None
    return answer.value


def _rdma_off() -> float:
    workload = _even_workload("language model, 3.2 billion parameters", 2 * 3_200_000_000, 28, 0.58)
    return _bandwidth_gbps(workload, 2, 4, 2.51) / _bandwidth_gbps(workload, 2, 4, 5.72)


def _slow_ethernet() -> float:
    workload = builtin_workload("resnet50").with_compute_s(32 / 171)
    return 1 / simulate_step(workload, _cluster(2, 2, 1), _HOROVOD).scaling_factor


def _volume() -> float:
    workload = _even_workload("RoBERTa-base", 4 * 125_000_000, 12, 1.0)
    return simulate_step(workload, _cluster(2, 8, 25), _DDP).node_wire_bytes / 1e9


def _one_layer() -> float:
    return _bandwidth_gbps(builtin_workload("bert-base").with_compute_s(0.5), 2, 4, 4.0)


def _fp16() -> float:
    workload, cluster = builtin_workload("resnet50"), _cluster(4, 8, 25)
    full = simulate_step(workload, cluster, _HOROVOD).iteration_s
    half = simulate_step(workload.with_gradient_dtype("fp16"), cluster, _HOROVOD).iteration_s
    return 100 * (full / half - 1)


def _rdma_or_tcp() -> float:
    workload, method = builtin_workload("vgg16"), method_named("horovod")
    tcp, rdma = (_bandwidth_gbps(workload, 4, 4, workload.compute_s * 16 / speedup, method) for speedup in (12.5, 13.8))
    return tcp / rdma


def _no_sync() -> float:
    accumulation = 4
    workload = _even_workload("a job of several nodes", 10**9, 24, 0.91)
    gbps = _bandwidth_gbps(workload, 2, 8, 2.0)
    step = simulate_step(workload, _cluster(2, 8, gbps), _DDP, accumulation=accumulation)
    return step.iteration_s / accumulation


def _two_gpus() -> float:
    workload = _even_workload("a job", 10**9, 24, 1.27)
    link = Link(_bandwidth_gbps(workload, 2, 1, 2.07) * GBPS)
    return 2 * simulate_step(workload, Cluster(2, link), _DDP).scaling_factor


def _servers() -> float:
    workload, link = builtin_workload("resnet50"), Link(21.1 * GBPS)
    servers = simulate_step(workload, Cluster(2, link), method_named("wfbp-ps", servers=2, push_pull_overlap=1.0))
    ring = simulate_step(workload, Cluster(2, link), _HOROVOD)
    return ring.iteration_s / servers.iteration_s


#: The questions by name, as in ``data/published/cases.csv``.
CASES: dict[str, Callable[[], float]] = {
    "rdma-off": _rdma_off,
    "slow-ethernet": _slow_ethernet,
    "volume": _volume,
    "one-layer": _one_layer,
    "fp16": _fp16,
    "rdma-or-tcp": _rdma_or_tcp,
    "no-sync": _no_sync,
    "two-gpus": _two_gpus,
    "servers": _servers,
}


def practitioners_cases() -> pd.DataFrame:
    """Return every question with the answer (`computed`), and whether it lies in the observed range (`agrees`)."""
    table = load_table("cases")
    table["computed"] = [CASES[name]() for name in table["case"]]
    table["agrees"] = table["computed"].between(table["observed_low"], table["observed_high"])
    return table
