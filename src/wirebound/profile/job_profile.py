"""Profile one job as a whole: its training, and the all-reduces of the processes that would train it together.

Alone, a process measures all-reduces between two more processes of this machine; launched as one of several ranks, the
ranks measure them among themselves.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from wirebound.errors import InputError, WireboundError
from wirebound.profile.collectives import DEFAULT_SIZES, allreduce_warnings, measure_allreduce_counters
from wirebound.profile.disturbance import load_warnings
from wirebound.profile.machine import accelerator_record, machine_record
from wirebound.profile.observations import CounterSeries
from wirebound.profile.ranks import (
    launched_rank,
    launched_with_ranks,
    local_device,
    process_group,
    profile_of_ranks,
    rank_timing,
)
from wirebound.profile.schema import CollectiveTiming, Profile
from wirebound.profile.training_counters import measure_training_counters

#: Called with the share done, between 0 and 1, and what is going on.
Progress = Callable[[float, str], None]

#: No message takes longer than this on a link that is slowed down on purpose, so that all sizes fit into a minute.
_LONGEST_MESSAGE_S = 0.5
#: A training run that is watched is given up after the time of so many steps, of processes that share the cores.
_MOST_WATCHED_STEPS = 100


@dataclass(frozen=True, slots=True)
class JobRequest:
    """What to measure: limits in seconds, sizes in bytes, the rate in bytes per second.

    `model` names the user's function (see `wirebound.profile.job`), None the built-in ResNet-20. `sizes` are those of
    the all-reduces, none of which are made where it is empty, by `ranks` local processes where no launcher started
    several. With `counters_s`, counters are read that often. Local connections are slowed down to `rate_Bps` (Linux);
    among launched ranks it says what their link is known to reach.
    """

    model: str | None = None
    device: str = "cpu"
    steps: int = 30
    batch_size: int | None = None
    batches: Sequence[int] = ()
    batch_steps: int = 8
    seed: int = 0
    time_limit_s: float | None = None
    batches_limit_s: float | None = None
    sizes: Sequence[int] = DEFAULT_SIZES
    ranks: int = 2
    repetitions: int = 50
    allreduce_budget_s: float = 6.0
    allreduce_limit_s: float = 60.0
    counters_s: float | None = None
    rate_Bps: float | None = None  # noqa: N815 - the unit is bytes per second


def profile_job(request: JobRequest, progress: Progress | None = None) -> Profile:
    """Measure a job and return its profile; launched as one of several ranks, every rank must call this.

    Raises `InputError` for what the user's code raises or returns, and for a device that is not there;
    `WireboundError` when a process fails.
    """
    tell = progress or (lambda share, what: None)
    tell(0.0, "importing PyTorch")
    from wirebound.profile.job import load_job, make_job
    from wirebound.profile.models import resnet20_job
    from wirebound.profile.training import profile_of, profile_training

    device = _checked_device(local_device(request.device))
    record = machine_record() | accelerator_record(device)  # before this process itself makes load
    batch_size, seed = request.batch_size, request.seed
    if request.model is None:
        job = make_job(f"resnet20-{request.device}", resnet20_job, batch_size=batch_size, device=device, seed=seed)
    else:
        job = load_job(request.model, batch_size=batch_size, device=device, seed=seed)
    shown = "ResNet-20" if request.model is None else job.name
    training = f"{shown}: {request.steps} training steps with hooks, {request.steps} without"
    if request.batches:
        training += f", and a few at {len(set(request.batches))} batch sizes"
    tell(0.1, training)
    measured = profile_training(
        job,
        device=device,
        steps=request.steps,
        batches=request.batches,
        batch_steps=request.batch_steps,
        time_limit_s=request.time_limit_s,
        batches_limit_s=request.batches_limit_s,
        seed=request.seed,
        progress=lambda share: tell(0.1 + 0.4 * share, training),
    )
    profile = profile_of(measured, name=job.name, source=_source(request), machine=record)
    busy = load_warnings(record)
    profile = replace(profile, warnings=(*busy, *profile.warnings), disturbed=profile.disturbed or bool(busy))
    sizes = _sizes(request)
    if launched_with_ranks():
        tell(0.5, f"all-reduces of all ranks, {len(sizes)} sizes")
        with process_group(device):
            profile = profile_of_ranks(
                measured,
                profile,
                sizes=sizes,
                repetitions=request.repetitions,
                budget_s=request.allreduce_budget_s,
                counters_s=request.counters_s,
                rate_Bps=request.rate_Bps,
                seed=request.seed,
            )
    elif sizes:
        tell(0.5, f"all-reduce: {request.ranks} processes, {len(sizes)} sizes, {request.repetitions} repetitions")
        profile = _with_collectives(
            profile,
            *measure_allreduce_counters(
                request.ranks,
                sizes,
                repetitions=request.repetitions,
                budget_s=request.allreduce_budget_s,
                rate_Bps=request.rate_Bps,
                counters_s=request.counters_s,
                seed=request.seed,
                time_limit_s=request.allreduce_limit_s,
            ),
        )
        if request.counters_s is not None:
            tell(0.8, f"{shown}: two processes train together while their counters are read")
            profile = _with_training_counters(profile, request)
    tell(1.0, "done")
    return profile


def _with_training_counters(profile: Profile, request: JobRequest) -> Profile:
    """Return the profile with a series for each of two local processes that train the job; on a GPU there is one only.

    What goes wrong there costs the series, not the profile: a warning tells.
    """
    if profile.device != "cpu":
        reason = "two processes cannot train on one GPU as on two: start them with torchrun"
        return replace(profile, warnings=(*profile.warnings, f"no counters of training: {reason}"))
    rank = rank_timing(0, profile)
    try:
        series = measure_training_counters(
            request.model,
            rate_Bps=request.rate_Bps,
            batch_size=request.batch_size,
            interval_s=request.counters_s or 0.005,
            seed=request.seed,
            time_limit_s=request.allreduce_limit_s + _MOST_WATCHED_STEPS * rank.step_s,
        )
    except WireboundError as error:
        return replace(profile, warnings=(*profile.warnings, f"no counters of training: {error}"))
    return replace(profile, counters=(*profile.counters, *series))


def _checked_device(device: str) -> str:
    if device == "cpu":
        return device
    import torch

    if not torch.cuda.is_available():
        raise InputError("--device cuda: PyTorch finds no CUDA device here: use --device cpu")
    index = torch.device(device).index or 0
    if index >= torch.cuda.device_count():
        raise InputError(
            f"this machine has {torch.cuda.device_count()} CUDA devices, too few for local rank {index}: start fewer"
            " processes"
        )
    return device


def _sizes(request: JobRequest) -> tuple[int, ...]:
    """The sizes that fit through the link in time, its smallest at least."""
    if request.rate_Bps is None or not request.sizes:
        return tuple(request.sizes)
    largest = max(_LONGEST_MESSAGE_S * request.rate_Bps, min(request.sizes))
    return tuple(size for size in request.sizes if size <= largest)


def _source(request: JobRequest) -> str:
    what = "ResNet-20 on random 32×32 images" if request.model is None else f"{request.model} on {request.device}"
    if launched_with_ranks():
        return f"wirebound profile: {what}, by every rank of a launched job; this is rank {launched_rank()}"
    return f"wirebound profile: {what}" + (", and gloo over loopback" if request.sizes else "")


def _with_collectives(
    profile: Profile, timings: tuple[CollectiveTiming, ...], counters: tuple[CounterSeries, ...]
) -> Profile:
    return replace(
        profile,
        collectives=timings,
        counters=counters,
        warnings=(*profile.warnings, *allreduce_warnings(timings)),
    )
