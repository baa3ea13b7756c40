"""One job: everything that a step depends on, so that one thing of it can be replaced. Standard library only."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from wirebound.model import Cluster, Method, Step, Workload
from wirebound.model.compressor import FREE_CODEC
from wirebound.simulate.step import simulate_step


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """A workload on a cluster with a method; the other fields are those of `simulate_step`."""

    workload: Workload
    cluster: Cluster
    method: Method
    include_vector_add: bool = True
    accumulation: int = 1

    def step(self) -> Step:
        """Simulate one step; raises what `simulate_step` raises."""
        return simulate_step(
            self.workload,
            self.cluster,
            self.method,
            include_vector_add=self.include_vector_add,
            accumulation=self.accumulation,
        )

    @property
    def samples_per_step(self) -> int:
        """Samples that all workers together process in one step."""
        return self.cluster.workers * self.workload.batch_size * self.accumulation

    def samples_per_s(self) -> float:
        """Samples that all workers together process in a second."""
        return self.samples_per_step / self.step().iteration_s

    def with_inter(self, **changes: Any) -> "TrainingJob":
        """Return the job with some fields of the link between nodes replaced (see `wirebound.model.Link`)."""
        inter = dataclasses.replace(self.cluster.inter, **changes)
        return dataclasses.replace(self, cluster=dataclasses.replace(self.cluster, inter=inter))

    def with_intra(self, **changes: Any) -> "TrainingJob":
        """Return the job with some fields of the link inside a node replaced (see `wirebound.model.Link`)."""
        intra = dataclasses.replace(self.cluster.intra, **changes)
        return dataclasses.replace(self, cluster=dataclasses.replace(self.cluster, intra=intra))

    def with_compute_factor(self, factor: float) -> "TrainingJob":
        """Return the job with all compute times of its workload multiplied by `factor`."""
        return dataclasses.replace(self, workload=self.workload.with_compute_s(factor * self.workload.compute_s))


def without_terms(job: TrainingJob) -> dict[str, TrainingJob]:
    """Return the job without each of the terms that communication costs: what cannot be reached is due to one."""
    without = {
        "bandwidth": job.with_inter(bandwidth=math.inf),
        "latency": job.with_inter(latency_s=0.0).with_intra(latency_s=0.0),
        "vector-add": dataclasses.replace(job, include_vector_add=False),
        "intra-node bandwidth": job.with_intra(bandwidth=math.inf),
    }
    if job.method.compressor is not None:
        free = dataclasses.replace(job.method.compressor, codec=FREE_CODEC)
        method = dataclasses.replace(job.method, compressor=free)
        without["encoding and decoding"] = dataclasses.replace(job, method=method)
    if job.method.collective.startswith("in-network"):
        endless = dataclasses.replace(job.method, collective="in-network:@0")
        without["slots of the switch"] = dataclasses.replace(job, method=endless)
    return without
