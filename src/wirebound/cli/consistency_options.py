"""Options of predict about workers that are not equally fast: the protocol they follow, their spread, a straggler."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wirebound.cli.job_reading import Job
from wirebound.errors import InputError
from wirebound.units import format_duration

if TYPE_CHECKING:
    from wirebound.simulate.consistency import ConsistencyResult, Distribution

#: What `--consistency` takes, an example of each.
_EXAMPLES = "bsp, ssp:3, asp, local-sgd:8, gossip:ring"

ConsistencyName = Annotated[
    str | None,
    typer.Option(
        "--consistency",
        help=f"Simulate many steps of workers under a protocol: {_EXAMPLES} (or torus, exponential, complete, or an"
        " even number of neighbours). [default: bsp where --compute-spread or --straggler is given]",
        metavar="NAME[:VALUE]",
    ),
]
ComputeSpread = Annotated[
    float | None,
    typer.Option("--compute-spread", help="Coefficient of variation of a step's compute time, such as 0.1."),
]
Straggler = Annotated[
    float | None, typer.Option("--straggler", help="One worker computes this many times as long, such as 2.")
]
Seed = Annotated[int | None, typer.Option("--seed", help="Of random compute times and samples. [default: 0]")]


@dataclass(slots=True)
class ConsistencyOptions:
    """These options as they were given."""

    consistency: str | None
    compute_spread: float | None
    straggler: float | None
    seed: int | None

    def simulate(self, job: Job) -> "ConsistencyResult | None":
        """Return the simulation that was asked for, None where none was; adds its assumptions and notes to the job.

        Raises `InputError` that names the option at fault.
        """
        spread, straggler = self.compute_spread or 0.0, 1.0 if self.straggler is None else self.straggler
        if not 0 <= spread <= 10:
            raise InputError(f"--compute-spread {spread} must be a coefficient of variation from 0 to 10, such as 0.1")
        if not 1 <= straggler <= 1e6:
            raise InputError(f"--straggler {straggler} must be a factor from 1 to 1,000,000, such as 2")
        asked = (self.consistency, self.compute_spread, self.straggler)
        if all(option is None for option in asked):
            if self.seed is not None and not job.sources:
                job.notes.append("--seed changes nothing without --consistency, --compute-spread or --straggler")
            return None
        from wirebound.model.compute_time import ComputeTime
        from wirebound.simulate.consistency_job import simulate_job
        from wirebound.simulate.consistency_protocols import consistency_named

        assert job.cluster is not None
        result = simulate_job(
            job.workload,
            job.cluster,
            job.method,
            consistency_named("bsp" if self.consistency is None else self.consistency),
            ComputeTime(1.0, "lognormal" if spread else "none", spread, factors=(straggler,)),
            include_vector_add=job.include_vector_add,
            accumulation=job.accumulation,
            seed=self.seed or 0,
        )
        job.assumptions += _assumptions(result)
        if not result.steady:
            job.notes.append("the simulated workers had not reached a steady speed within the simulated steps")
        return result


def _assumptions(result: "ConsistencyResult") -> list[str]:
    assumed = []
    spread, straggler = result.compute.spread, result.compute.factor(0)
    assumed.append(f"compute times lognormal, spread {spread:g}" if spread else "compute times without spread")
    if straggler > 1:
        assumed.append(f"worker 0 computes {straggler:g} times as long")
    if result.group > 1:
        assumed.append("the accelerators of a node go in step")
    if result.consistency.name == "local-sgd":
        assumed.append("averaging models costs what an exchange of the method exposes")
    if result.consistency.name == "gossip":
        assumed.append("neighbours exchange after a step's compute, whatever the method's schedule")
    if result.server_s > 0:
        assumed.append(f"updates queue at the servers, which are busy {format_duration(result.server_s)} with each")
    return assumed


def consistency_document(result: "ConsistencyResult", job: Job, seed: int | None) -> dict[str, Any]:
    """The JSON object ``consistency``: times in seconds, ages in clocks, shares from 0 to 1."""
    from wirebound.simulate.consistency_graphs import mixing_iterations, spectral_gap

    protocol, groups = result.consistency, result.workers // result.group
    document: dict[str, Any] = {
        "protocol": str(protocol),
        "period_s": result.period_s,
        "period_ci95_s": list(result.period_interval_s),
        "steps_per_s": result.steps_per_s,
        "samples_per_s": _samples_per_s(result, job),
        "exchange_s": result.exchange_s,
        "server_s": result.server_s,
        "waiting": {"mean": result.mean_waiting, "min": min(result.waiting), "max": max(result.waiting)},
        "worker_steps_per_s": {"min": min(result.group_steps_per_s), "max": max(result.group_steps_per_s)},
        "staleness_updates": _distribution_document(result.staleness),
        "age_clocks": _distribution_document(result.age),
    }
    degree = protocol.degree(groups)
    if degree is not None and protocol.parameter is not None:
        gap = spectral_gap(protocol.parameter, groups)
        document["graph"] = {"degree": degree, "spectral_gap": gap, "mixing_iterations": mixing_iterations(gap)}
    document |= {"compute_spread": result.compute.spread, "straggler": result.compute.factor(0), "seed": seed or 0}
    return document | {"steps": result.steps, "warm_up": result.warm_up, "steady": result.steady}


def echo_consistency(result: "ConsistencyResult", job: Job) -> None:
    """Print speed, staleness (where there is any) and waiting, a line each."""
    low, high = result.period_interval_s
    typer.echo(
        f"  consistency     {result.consistency}: a step every {format_duration(result.period_s)}"
        f" (95 %: {format_duration(low)}–{format_duration(high)}), {_samples_per_s(result, job):,.0f} samples/s"
    )
    if result.staleness.largest or result.age.largest:
        typer.echo(
            f"  staleness       {result.staleness.mean:.3g} updates of others missed on average, at most"
            f" {result.staleness.largest}; model {result.age.mean:.3g} clocks old on average, at most"
            f" {result.age.largest}"
        )
    typer.echo(
        f"  waiting         {result.mean_waiting:.1%} of the workers' time on average,"
        f" {min(result.waiting):.1%} to {max(result.waiting):.1%}"
    )


def _samples_per_s(result: "ConsistencyResult", job: Job) -> float:
    return result.steps_per_s * job.workload.batch_size * job.accumulation


def _distribution_document(distribution: "Distribution") -> dict[str, float]:
    quantiles = {"median": distribution.quantile(0.5), "p95": distribution.quantile(0.95)}
    return {"mean": distribution.mean} | quantiles | {"max": distribution.largest}
