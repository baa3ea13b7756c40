"""Intervals of what is predicted, where a parameter of the job is uncertain: their options and how they are said."""

from typing import Annotated, Any

import typer

from wirebound.cli.job_reading import Job
from wirebound.cli.output import note
from wirebound.cli.seed import check_seed
from wirebound.errors import InputError
from wirebound.simulate.uncertainty import StepDistribution, distribution_of_step, quantiles

#: More samples than this take too long.
_MOST_SAMPLES = 100_000

SamplesOption = Annotated[
    int, typer.Option("--samples", help="Simulated steps behind an interval, where a parameter is uncertain.")
]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of these samples.")]


def step_distribution(job: Job, samples: int, seed: int) -> StepDistribution | None:
    """Draw the job's uncertain parameters; None where none is. Raises `InputError` that names the option at fault."""
    if not 10 <= samples <= _MOST_SAMPLES:
        raise InputError(f"--samples {samples} must be between 10 and {_MOST_SAMPLES:,}")
    check_seed(seed)
    if not job.sources:
        return None
    return distribution_of_step(job.training, job.sources, samples=samples, seed=seed)


def interval95(drawn: StepDistribution | None) -> dict[str, Any] | None:
    """The 95 % intervals as numbers; None where nothing is uncertain."""
    if drawn is None:
        return None
    return {"iteration_s": _ends(drawn.iteration_s), "scaling_factor": _ends(drawn.scaling_factor)}


def _ends(values: tuple[float, ...]) -> list[float]:
    low, _, high = quantiles(values)
    return [low, high]


def interval_assumption(job: Job) -> list[str]:
    """What the interval covers, as an assumption; nothing where there is none."""
    if not job.origins:
        return []
    return [f"the interval covers {', '.join(job.origins.values())}, not the model's own error"]


def note_ranges(job: Job, leave_out: str = "") -> None:
    """Say that a command without intervals uses the middle of a range; `leave_out` is what it solves for."""
    for name in ("bandwidth", "latency"):
        if name in job.origins and name != leave_out:
            note(f"--{name} is a range: its middle is used")
