"""The 252 measured runs of Shi et al. (2020) and the protocol that splits them."""

import dataclasses
import random
from collections.abc import Iterable
from dataclasses import dataclass

from wirebound.model.library import read_published

NETWORKS = ("10gbe-tcp", "100gbe-tcp", "100gbib-rdma")
#: In the order of the protocol's list: ties in a ranking go to the first.
TECHNIQUES = ("bsp-ps", "bsp-a2a", "wfbp-ps", "wfbp-a2a", "mg-wfbp", "bytescheduler-ps", "bytescheduler-a2a")
GPUS_PER_NODE = 4
CALIBRATION_METHODS = ("bsp-ps", "bsp-a2a", "wfbp-ps", "wfbp-a2a")
CALIBRATION_GPUS = (4, 16)


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
    def compute_s(self) -> float:
        """Measured seconds of one step on one GPU alone."""
        return self.samples_per_gpu / self.single_gpu_per_s

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

    @property
    def is_bert(self) -> bool:
        """Whether the model is one of the two BERTs."""
        return self.workload.startswith("bert")

    def with_iteration_s(self, iteration_s: float) -> "Run":
        """Return the run as if one step had taken `iteration_s` seconds."""
        return dataclasses.replace(self, samples_per_s=self.samples_per_gpu * self.gpus / iteration_s)


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


def shuffled(runs: Iterable[Run], seed: int = 0) -> list[Run]:
    """Return the runs with their measurements shuffled: each gets the slow-down over one GPU of another one.

    A model that learns something of the cluster must predict far worse after a calibration on these.
    """
    runs = list(runs)
    slowdowns = [run.iteration_s / run.compute_s for run in runs]
    random.Random(seed).shuffle(slowdowns)
    return [run.with_iteration_s(run.compute_s * slowdown) for run, slowdown in zip(runs, slowdowns, strict=True)]
