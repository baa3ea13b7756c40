"""A calibrated prediction of the 252 runs of Shi et al. (2020).

The engine predicts every run; a few effective figures of the cluster, which nobody published, are calibrated on the
runs of four methods at 4 and 16 GPUs. What each stands for:

- All-reduce is a flat ring over all GPUs. Its slowest hop is the PCIe path inside a node or the node's link.
- BytePS reduces inside a node, pushes to as many server machines as there are worker nodes, and pulls; its partitions
  pass these stages as a pipeline, so that the slowest stage sets the pace.
- A message of the ring costs a start-up, and a latency on each of its 2(P−1) hops.
- BERT's runs show a cost per byte that nothing overlaps, on one node too and with every method; ResNet-50's show none.
  Its cause is not known; it is spent after all communication, as an optimizer's time is.
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from wirebound.model import Cluster, Link, Method, Workload, method_named
from wirebound.model.library import builtin_workload, read_published
from wirebound.simulate.messages import planned_messages
from wirebound.simulate.step import simulate_step

NETWORKS = ("10gbe-tcp", "100gbe-tcp", "100gbib-rdma")
#: In the order of the protocol's list: ties in a ranking go to the first.
TECHNIQUES = ("bsp-ps", "bsp-a2a", "wfbp-ps", "wfbp-a2a", "mg-wfbp", "bytescheduler-ps", "bytescheduler-a2a")
GPUS_PER_NODE = 4
CALIBRATION_METHODS = ("bsp-ps", "bsp-a2a", "wfbp-ps", "wfbp-a2a")
CALIBRATION_GPUS = (4, 16)

_FUSION_BYTES = 512 * 2**20
_BYTEPS_PARTITION_BYTES = 4_096_000
_MERGE_BELOW_BYTES = 8192 * 4


@dataclass(frozen=True, slots=True)
class Run:
    """One measured run: `samples_per_s` is the throughput of all GPUs."""

    workload: str
    samples_per_gpu: int
    network: str
    link_gbps: int
    method: str
    gpus: int
    single_gpu_per_s: float
    samples_per_s: float
    std_per_s: float
    suspect: bool

    @property
    def iteration_s(self) -> float:
        """Measured seconds of one step."""
        return self.samples_per_gpu * self.gpus / self.samples_per_s

    @property
    def split(self) -> str:
        """``suspect``, ``calibration`` or ``held_out``, by the protocol of the fidelity score."""
        if self.suspect:
            return "suspect"
        calibrates = self.method in CALIBRATION_METHODS and self.gpus in CALIBRATION_GPUS
        return "calibration" if calibrates else "held_out"

    @property
    def architecture(self) -> str:
        """``parameter-server`` or ``all-reduce``."""
        return "parameter-server" if self.method.endswith("-ps") else "all-reduce"


@dataclass(frozen=True, slots=True)
class Calibration:
    """Effective figures of the cluster: bandwidths in B/s, times in s. Mappings are by network."""

    intra_all_reduce: float
    intra_server: float
    inter_all_reduce: dict[str, float]
    inter_server: dict[str, float]
    message_s: float
    hop_s: dict[str, float]
    server_message_s: float
    push_pull_overlap: float
    bert_unhidden_s_per_byte: float


def read_runs() -> list[Run]:
    """Return the 252 runs in the order of the published table."""
    return [
        Run(
            workload=row["workload"],
            samples_per_gpu=int(row["samples_per_gpu"]),
            network=row["network"],
            link_gbps=int(row["link_gbps"]),
            method=row["method"],
            gpus=int(row["gpus"]),
            single_gpu_per_s=float(row["single_gpu_per_s"]),
            samples_per_s=float(row["samples_per_s"]),
            std_per_s=float(row["std_per_s"]),
            suspect=row["suspect"] == "1",
        )
        for row in read_published("shi2020_throughput.csv")
    ]


def workload_of(run: Run) -> Workload:
    """Return the workload of a run, one step taking the measured time of one GPU.

    ResNet-50 has the shape that Zhang et al. (2020) measured, scaled; BERT's is proportional to operations.
    """
    compute_s = run.samples_per_gpu / run.single_gpu_per_s
    return builtin_workload(run.workload).with_batch(run.samples_per_gpu).with_compute_s(compute_s)


def method_of(run: Run) -> Method:
    """Return the method with the settings of the published scripts.

    BSP fills buffers of 512 MiB, so that BERT-Large goes in three messages: the closing rule of DDP's buckets with
    that limit. ByteScheduler-PS was BytePS with scheduling on the servers, and its rows equal those of WFBP-PS: it is
    treated as WFBP-PS, without overlap with the next forward pass. MG-WFBP plans with the message cost of this
    cluster, as its paper has it; the published code holds constants of other clusters, which fit the runs less well.
    """
    partition = _BYTEPS_PARTITION_BYTES if run.architecture == "parameter-server" else math.inf
    if run.method.startswith("bsp"):
        return method_named(
            run.method,
            schedule="ddp",
            first_bucket_bytes=_FUSION_BYTES,
            bucket_cap_bytes=_FUSION_BYTES,
            partition_bytes=partition,
        )
    if run.method in ("wfbp-ps", "bytescheduler-ps"):
        return method_named("wfbp-ps", partition_bytes=partition)
    if run.method == "mg-wfbp":
        return method_named("mg-wfbp", merge_below_bytes=_MERGE_BELOW_BYTES)
    return method_named(run.method)


def predict_iteration_s(run: Run, calibration: Calibration) -> float:
    """Return the predicted seconds of one step of `run`, by the engine."""
    workload = workload_of(run)
    if run.workload.startswith("bert"):
        workload = dataclasses.replace(workload, optimizer_s=calibration.bert_unhidden_s_per_byte * workload.size)
    cluster, method = _effective_cluster(run, method_of(run), calibration)
    return simulate_step(workload, cluster, method, include_vector_add=False).iteration_s


def hook_s_per_tensor(run: Run) -> float:
    """Return the time from the end of forward to the end of the step, per gradient tensor, in seconds.

    For ByteScheduler over all-reduce on one node this is 1.4–1.7 ms with every workload, from 161 tensors of
    ResNet-50 to 398 of BERT-Large, whose gradients are 13 times as large: what a tensor costs there is work of the
    host, where a polling thread and the gradient hooks share one interpreter lock, and not bytes.
    """
    workload = workload_of(run)
    return (run.iteration_s - workload.forward_s) / len(workload.tensors)


def _effective_cluster(run: Run, method: Method, calibration: Calibration) -> tuple[Cluster, Method]:
    """Return the cluster and method on which a message costs α + β·S, α and β as the module's description says."""
    message_s, s_per_byte = _message_cost(run, calibration)
    if run.architecture == "all-reduce" or run.gpus == GPUS_PER_NODE:
        # One node alone reduces among its GPUs and uses no server.
        steps = 2 * (run.gpus - 1)
        link = Link(bandwidth=steps / run.gpus / s_per_byte, latency_s=message_s / steps)
        return Cluster(nodes=run.gpus, inter=link), dataclasses.replace(method, architecture="all-reduce")
    overlap = calibration.push_pull_overlap
    link = Link(bandwidth=(2 - overlap) / s_per_byte, latency_s=message_s / 2)
    nodes = run.gpus // GPUS_PER_NODE
    return Cluster(nodes=nodes, inter=link), dataclasses.replace(method, servers=nodes, push_pull_overlap=overlap)


def _message_cost(run: Run, calibration: Calibration) -> tuple[float, float]:
    """Seconds of a message, and seconds per byte."""
    one_node = run.gpus == GPUS_PER_NODE
    if run.architecture == "all-reduce":
        hops = 2 * (run.gpus - 1)
        slowest = calibration.intra_all_reduce
        if one_node:
            return calibration.message_s, hops / run.gpus / slowest
        slowest = min(slowest, calibration.inter_all_reduce[run.network])
        return calibration.message_s + hops * calibration.hop_s[run.network], hops / run.gpus / slowest
    inside = 2 * (GPUS_PER_NODE - 1) / GPUS_PER_NODE / calibration.intra_server
    if one_node:
        return calibration.server_message_s, inside
    between = (2 - calibration.push_pull_overlap) / calibration.inter_server[run.network]
    return calibration.server_message_s, max(inside, between)


_NOMINAL = tuple(zip(NETWORKS, (1.25e9, 12.5e9, 12.5e9), strict=True))
#: Each calibrated figure: name, network or "", start, least and largest value. A link cannot beat its nominal rate,
#: nor a PCIe 3.0 slot its 16 GB/s.
_FIGURES: tuple[tuple[str, str, float, float, float], ...] = (
    ("intra_all_reduce", "", 6e9, 1e9, 16e9),
    ("intra_server", "", 6e9, 1e9, 16e9),
    *(("inter_all_reduce", name, 0.5 * rate, 0.05 * rate, rate) for name, rate in _NOMINAL),
    *(("inter_server", name, 0.5 * rate, 0.05 * rate, rate) for name, rate in _NOMINAL),
    ("message_s", "", 3e-5, 1e-7, 1e-2),
    *(("hop_s", name, 1e-5, 1e-7, 1e-3) for name in NETWORKS),
    ("server_message_s", "", 3e-5, 1e-7, 1e-2),
    ("push_pull_overlap", "", 0.1, 1e-3, 1.0),
    ("bert_unhidden_s_per_byte", "", 1e-10, 1e-13, 1e-9),
)


def calibrate(runs: Iterable[Run]) -> Calibration:
    """Return the figures that make the engine fit `runs`, whose schedules must not depend on the network's cost.

    Robust least squares (soft L1, scale 5 %) on the logarithm of predicted ÷ measured iteration time, over the
    logarithms of the figures, within bounds. Deterministic. The runs are evaluated by the closed form of a
    first-come-first-served queue, finish = max over i of (ready_i + Σ_{j≥i} cost_j), which equals the engine.
    """
    prepared = [_Prepared.of(run) for run in runs]
    start, least, largest = (np.log([figure[column] for figure in _FIGURES]) for column in (2, 3, 4))

    def residuals(logarithms: np.ndarray) -> np.ndarray:
        calibration = _calibration(np.exp(logarithms))
        return np.array([math.log(row.iteration_s(calibration) / row.run.iteration_s) for row in prepared])

    solution = least_squares(residuals, start, bounds=(least, largest), loss="soft_l1", f_scale=0.05)
    return _calibration(np.exp(solution.x))


def _calibration(values: Sequence[float] | np.ndarray) -> Calibration:
    fields: dict[str, object] = {}
    for (name, network, *_), value in zip(_FIGURES, values, strict=True):
        if network:
            by_network = fields.setdefault(name, {})
            assert isinstance(by_network, dict)
            by_network[network] = float(value)
        else:
            fields[name] = float(value)
    return Calibration(**fields)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A run with the parts of its step that do not depend on the calibration."""

    run: Run
    workload: Workload
    ready_s: np.ndarray
    sizes: np.ndarray

    @classmethod
    def of(cls, run: Run) -> "_Prepared":
        workload = workload_of(run)
        planned = planned_messages(workload, method_of(run))
        return cls(
            run,
            workload,
            np.array([message.ready_s for message in planned]),
            np.array([message.size for message in planned]),
        )

    def iteration_s(self, calibration: Calibration) -> float:
        message_s, s_per_byte = _message_cost(self.run, calibration)
        cost = message_s + s_per_byte * self.sizes
        end_s = float(np.max(self.ready_s + np.cumsum(cost[::-1])[::-1]))
        unhidden_s = 0.0
        if self.run.workload.startswith("bert"):
            unhidden_s = calibration.bert_unhidden_s_per_byte * self.workload.size
        return self.workload.forward_s + max(self.workload.backward_s, end_s) + unhidden_s
