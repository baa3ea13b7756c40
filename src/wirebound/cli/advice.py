"""The ranking behind advise: every remedy predicted as `predict` would, its gain, and where the advice flips."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from wirebound.cli.job_options import JobOptions
from wirebound.cli.job_reading import Job, read_job
from wirebound.cli.prediction import Prediction, predict_job
from wirebound.cli.remedies import Remedy, remedies_for
from wirebound.errors import InputError
from wirebound.simulate.advise import (
    NOTICEABLE_GAIN,
    WORTHWHILE_GAIN,
    RateAt,
    Threshold,
    gain_interval,
    rate_at,
    threshold,
    tied,
)
from wirebound.simulate.uncertainty import scaled_bandwidth
from wirebound.units import format_bandwidth

#: What a remedy is compared with where it is not compared with another.
NOTHING = "doing nothing"


@dataclass(frozen=True, slots=True)
class Flip:
    """Where the advice changes: against what, from which gain on, at which threshold, and in words."""

    against: str
    gain: float
    threshold: Threshold
    text: str


@dataclass(frozen=True, slots=True)
class RankedRemedy:
    """A remedy and what `predict` says of it: seconds of a step, samples per second, scaling factor.

    `gain` is the ratio of samples per second, `interval` its 95 % where the job has one; `tied` says that it overlaps
    with that of the remedy before.
    """

    remedy: Remedy
    job: Job
    iteration_s: float
    samples_per_s: float
    scaling_factor: float
    gain: float
    interval: tuple[float, float] | None = None
    tied: bool = False
    flips: tuple[Flip, ...] = ()

    @property
    def worthwhile(self) -> bool:
        """Whether it gains enough to speak of."""
        return self.gain >= WORTHWHILE_GAIN


def rank_remedies(given: JobOptions, base: Prediction, *, samples: int, seed: int) -> list[RankedRemedy]:
    """Return the remedies for a job, the largest gain first; of one family only the best.

    A remedy that the job's other options exclude is left out. Intervals are drawn for those that are worthwhile.
    """
    ranked = sorted(_gains(given, base), key=lambda entry: -entry.gain)
    best, families = [], set()
    for entry in ranked:
        if entry.remedy.family not in families:
            best.append(entry)
        families |= {entry.remedy.family} - {""}
    return _with_flips(_with_intervals(best, base, samples=samples, seed=seed), base.job)


def _gains(given: JobOptions, base: Prediction) -> Iterator[RankedRemedy]:
    for remedy in remedies_for(given, base.job):
        try:
            job = read_job(remedy.options)
            iteration_s, samples_per_s, scaling_factor = _predicted(remedy, job)
        except InputError:  # what the job's other options exclude is no remedy for it
            continue
        gain = samples_per_s / base.samples_per_s
        yield RankedRemedy(remedy, job, iteration_s, samples_per_s, scaling_factor, gain)


def _predicted(remedy: Remedy, job: Job) -> tuple[float, float, float]:
    """Seconds of a step, samples per second and scaling factor, as `predict` says them."""
    if remedy.local_steps == 1:
        step = job.training.step()
        return step.iteration_s, Prediction(job, step, None).samples_per_s, step.scaling_factor
    from wirebound.cli.consistency_options import ConsistencyOptions, consistency_document

    result = ConsistencyOptions(remedy.consistency, None, None, None).simulate(job)
    assert result is not None
    said = consistency_document(result, job, None)
    return said["period_s"], said["samples_per_s"], job.training.step().compute_s / said["period_s"]


def _with_intervals(
    entries: list[RankedRemedy], base: Prediction, *, samples: int, seed: int
) -> Iterator[RankedRemedy]:
    """Add the intervals of the gains, and mark those that overlap with the one before."""
    before: tuple[float, float] | None = None
    for entry in entries:
        if not entry.worthwhile or base.drawn is None:
            yield entry
            continue
        drawn = predict_job(_uncertain_job(entry, base.job), samples=samples, seed=seed)
        interval = gain_interval(*_iterations(drawn, entry.remedy.local_steps), *_iterations(base))
        yield replace(entry, interval=interval, tied=tied(before, interval))
        before = interval


def _uncertain_job(entry: RankedRemedy, base: Job) -> Job:
    """The remedy's job; a fitted network that it makes faster stays as uncertain as it was."""
    job, factor = entry.job, entry.remedy.scaled_by
    if factor is None:
        return job
    return replace(job, sources=base.sources | {"faster": scaled_bandwidth(factor)})


def _iterations(prediction: Prediction, local_steps: int = 1) -> tuple[list[float], int]:
    """Seconds of a step in each sample (one where nothing is uncertain), and the samples that a step trains on."""
    drawn, step = prediction.drawn, prediction.step
    pairs = [(step.iteration_s, step.scaling_factor)]
    if drawn is not None:
        pairs = list(zip(drawn.iteration_s, drawn.scaling_factor, strict=True))
    # The scaling factor is compute ÷ iteration; of what is exposed local SGD leaves one part in `local_steps`.
    seconds = [iteration_s * (factor + (1 - factor) / local_steps) for iteration_s, factor in pairs]
    return seconds, prediction.job.training.samples_per_step


def _with_flips(entries: Iterator[RankedRemedy], job: Job) -> list[RankedRemedy]:
    """Add the bandwidths at which a remedy begins or ceases to pay, and to beat the next one."""
    ranked, cluster = list(entries), job.training.cluster
    if cluster.nodes == 1:
        return ranked
    bandwidth, nothing = cluster.inter.bandwidth, rate_at(job.training)
    rates = [
        rate_at(entry.job.training, local_steps=entry.remedy.local_steps, own_bandwidth=entry.remedy.own_bandwidth)
        for entry in ranked
    ]
    flipping = []
    for place, entry in enumerate(ranked):
        flips = list(_flips_against_nothing(entry, rates[place], nothing, bandwidth))
        following = ranked[place + 1 : place + 2]
        if following and following[0].worthwhile:
            found = threshold(rates[place], rates[place + 1], bandwidth, gain=NOTICEABLE_GAIN)
            if found is not None:
                change = following[0].remedy.change
                text = f"beats '{change}' only {found.side} {_shown(found)}"
                flips.append(Flip(change, NOTICEABLE_GAIN, found, text))
        flipping.append(replace(entry, flips=tuple(flips)))
    return flipping


def _flips_against_nothing(entry: RankedRemedy, rate: RateAt, nothing: RateAt, bandwidth: float) -> Iterator[Flip]:
    found = threshold(rate, nothing, bandwidth, gain=WORTHWHILE_GAIN)
    if found is not None:
        verb = "pays off (1 % or more) only" if entry.worthwhile else "would pay off (1 % or more)"
        yield Flip(NOTHING, WORTHWHILE_GAIN, found, f"{verb} {found.side} {_shown(found)}")
    if entry.remedy.has_own_cost:
        found = threshold(rate, nothing, bandwidth, gain=1 / NOTICEABLE_GAIN)
        if found is not None:
            other = "above" if found.side == "below" else "below"
            text = f"its own work takes longer than it saves {other} {_shown(found)}"
            yield Flip(NOTHING, 1 / NOTICEABLE_GAIN, found, text)


def _shown(found: Threshold) -> str:
    return format_bandwidth(found.bandwidth)
