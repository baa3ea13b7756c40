"""The model of the runs of Shi et al. (2020): effective figures of the cluster, and the step that follows from them."""

import dataclasses
from dataclasses import dataclass
from typing import NamedTuple

from wirebound.fit.shi2020_runs import GPUS_PER_NODE, Run
from wirebound.fit.shi2020_settings import HOROVOD_FUSION_BYTES, ByteScheduler, method_of, workload_of
from wirebound.model import Cluster, Link, Method, Workload
from wirebound.simulate.collectives import ring_all_reduce
from wirebound.simulate.servers import parameter_server
from wirebound.simulate.step import simulate_step

_CHOSEN = ByteScheduler()


@dataclass(frozen=True, slots=True)
class Calibration:
    """Effective figures of the cluster: bandwidths in B/s, times in s. Mappings are by network.

    - `intra_all_reduce`, `inter_all_reduce`: rate of the ring's slowest hop inside a node and between nodes.
    - `intra_server`, `inter_server`: the same for BytePS, whose machines push and pull over one link.
    - `message_s`, `hop_s`: start-up of a message of the ring, and its latency on each of 2(P−1) hops.
    - `server_message_s`: cost of a partition of BytePS.
    - `push_pull_overlap`: share of pull hidden under push.
    - `bert_contention`: share of the time in which network and BERT's compute are both busy that is lost to them.
    - `bert_unhidden_s_per_byte`: time per gradient byte that BERT's runs take longer and that nothing overlaps.
    """

    intra_all_reduce: float
    intra_server: float
    inter_all_reduce: dict[str, float]
    inter_server: dict[str, float]
    message_s: float
    hop_s: dict[str, float]
    server_message_s: float
    push_pull_overlap: float
    bert_contention: float
    bert_unhidden_s_per_byte: float


def predict_iteration_s(run: Run, calibration: Calibration, bytescheduler: ByteScheduler = _CHOSEN) -> float:
    """Return the predicted seconds of one step of `run`, by the engine.

    `bytescheduler` says how ByteScheduler over all-reduce works; other methods do not look at it.
    """
    workload, method, path = workload_of(run), method_of(run), slowest_path(run, calibration)
    simulated = workload
    scheduled = run.method == "bytescheduler-a2a"
    if scheduled:
        simulated, method = bytescheduler.workload(workload), bytescheduler.method
        path = _fused(path) if bytescheduler.fused else path
    cluster, method = effective_cluster(path, method)
    step = simulate_step(simulated, cluster, method, include_vector_add=False)
    iteration_s = step.iteration_s
    if run.is_bert:
        both_s = workload.compute_s + step.communication_s - iteration_s
        iteration_s += calibration.bert_contention * max(0.0, both_s)
    if scheduled:
        host_s = bytescheduler.host_s_per_tensor * len(workload.tensors)
        iteration_s = max(iteration_s, workload.compute_s + host_s)
    return iteration_s + unhidden_s(run, workload, calibration)


def unhidden_s(run: Run, workload: Workload, calibration: Calibration) -> float:
    """Return the seconds that nothing overlaps: BERT's runs show them with every method, ResNet-50's do not.

    Its cause is not known. It is no optimizer's time: the parameter servers' script has plain SGD, the all-reduce
    script AdamW, and both show it.
    """
    return calibration.bert_unhidden_s_per_byte * workload.size if run.is_bert else 0.0


class Path(NamedTuple):
    """What sets the pace of a message: a ring over `workers`, or as many servers as the `workers` nodes."""

    servers: bool
    workers: int
    latency_s: float
    bandwidth: float
    push_pull_overlap: float = 0.0

    def seconds(self, size: float) -> float:
        """Seconds of a message of `size` bytes, by the engine's equations."""
        if self.servers:
            workers, overlap = self.workers, self.push_pull_overlap
            return parameter_server(size, workers, workers, self.latency_s, self.bandwidth, overlap)
        return ring_all_reduce(size, self.workers, self.latency_s, self.bandwidth)

    @property
    def startup_s(self) -> float:
        """Seconds of a message without bytes."""
        return self.seconds(0.0)

    @property
    def s_per_byte(self) -> float:
        """Seconds of each further byte."""
        return (self.seconds(_REFERENCE_BYTES) - self.startup_s) / _REFERENCE_BYTES


_REFERENCE_BYTES = 1e9


def slowest_path(run: Run, calibration: Calibration) -> Path:
    """Return the path that sets the pace of the messages of `run`.

    All-reduce is a flat ring over all GPUs. One node alone reduces among its GPUs and uses no server. Otherwise
    partitions pass node and servers as a pipeline, in which the slower stage sets the pace.
    """
    one_node = run.gpus == GPUS_PER_NODE
    if run.architecture == "all-reduce":
        slowest, latency_s = calibration.intra_all_reduce, calibration.message_s / (2 * (run.gpus - 1))
        if not one_node:
            slowest = min(slowest, calibration.inter_all_reduce[run.network])
            latency_s += calibration.hop_s[run.network]
        return Path(False, run.gpus, latency_s, slowest)
    partition_s = calibration.server_message_s
    inside = Path(False, GPUS_PER_NODE, partition_s / (2 * (GPUS_PER_NODE - 1)), calibration.intra_server)
    if one_node:
        return inside
    bandwidth, overlap = calibration.inter_server[run.network], calibration.push_pull_overlap
    between = Path(True, run.gpus // GPUS_PER_NODE, partition_s / 2, bandwidth, overlap)
    return max(between, inside, key=lambda path: path.s_per_byte)


def effective_cluster(path: Path, method: Method) -> tuple[Cluster, Method]:
    """Return the cluster and method for which the engine prices a message as `path` does."""
    cluster = Cluster(nodes=path.workers, inter=Link(bandwidth=path.bandwidth, latency_s=path.latency_s))
    if path.servers:
        overlap = path.push_pull_overlap
        return cluster, dataclasses.replace(method, servers=path.workers, push_pull_overlap=overlap)
    return cluster, dataclasses.replace(method, architecture="all-reduce", collective="ring")


def _fused(path: Path) -> Path:
    """The path on which a message pays its share, by bytes, of the start-up of a full fusion buffer."""
    factor = path.s_per_byte / (path.s_per_byte + path.startup_s / HOROVOD_FUSION_BYTES)
    return path._replace(latency_s=0.0, bandwidth=path.bandwidth * factor)
