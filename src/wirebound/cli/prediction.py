"""What predict says about a job, as values: predict prints them, advise compares them."""

import math
from dataclasses import dataclass, replace
from typing import Any

from wirebound.cli.job_collective import collective_shares
from wirebound.cli.job_compression import compression_document
from wirebound.cli.job_interval import interval95, interval_assumption, step_distribution
from wirebound.cli.job_reading import Job
from wirebound.cli.job_report import job_document
from wirebound.errors import InputError
from wirebound.model import Step
from wirebound.simulate.uncertainty import StepDistribution
from wirebound.units import format_duration

#: A method that takes so much less time is worth a word.
_WORTH_A_WORD = 0.01


@dataclass(frozen=True, slots=True)
class Prediction:
    """One step of a job; `drawn` are its samples where a parameter is uncertain."""

    job: Job
    step: Step
    drawn: StepDistribution | None

    @property
    def samples_per_s(self) -> float:
        """Training samples per second of all workers."""
        return self.job.training.samples_per_step / self.step.iteration_s


def predict_job(job: Job, *, samples: int, seed: int) -> Prediction:
    """Simulate the job's step, and draw `samples` of it where a parameter is uncertain.

    Raises `InputError` where the step takes longer than a number can tell.
    """
    step = job.training.step()
    drawn = step_distribution(job, samples, seed)
    if not all(map(math.isfinite, (step.iteration_s, *(drawn.iteration_s if drawn else ())))):
        raise InputError("the step takes longer than numbers can tell: check --bandwidth and --latency")
    return Prediction(job, step, drawn)


def prediction_document(prediction: Prediction) -> dict[str, Any]:
    """The answer of `predict --json`."""
    job, step, training = prediction.job, prediction.step, prediction.job.training
    return {
        "iteration_s": step.iteration_s,
        "compute_s": step.compute_s,
        "communication_s": step.communication_s,
        "exposed_communication_s": step.exposed_s,
        "scaling_factor": step.scaling_factor,
        "speedup": step.scaling_factor * training.cluster.workers,
        "samples_per_s": prediction.samples_per_s,
        "interval95": interval95(prediction.drawn),
        "wire_bytes_per_worker": step.wire_bytes_per_worker,
        "node_wire_bytes": step.node_wire_bytes,
        "link_utilization": step.link_utilization,
        "messages": len(step.messages),
        **compression_document(
            *(step, job.workload, training.cluster, job.method),
            include_vector_add=job.include_vector_add,
            accumulation=job.accumulation,
        ),
        "collectives": collective_shares(
            job.workload, training.cluster, job.method, step, include_vector_add=job.include_vector_add
        ),
        "job": job_document(job),
        "remarks": _remarks(prediction),
        "assumptions": [*job.assumptions, *interval_assumption(job)],
    }


def _remarks(prediction: Prediction) -> list[str]:
    """A sentence where the method merges messages as MG-WFBP does, and buckets of a fixed size are predicted faster.

    Its rule looks one message ahead: among many small tensors it can go on merging until hardly anything is left to
    send beside the backward pass.
    """
    training, step = prediction.job.training, prediction.step
    if training.method.schedule != "mg-wfbp":
        return []
    other = replace(training, method=replace(training.method, name="ddp", schedule="ddp")).step()
    if other.iteration_s > (1 - _WORTH_A_WORD) * step.iteration_s:
        return []
    return [
        f"greedy merging does not pay here: with --method ddp the step is predicted to take"
        f" {format_duration(other.iteration_s)} instead of {format_duration(step.iteration_s)}"
    ]
