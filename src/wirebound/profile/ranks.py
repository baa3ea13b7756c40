"""Every rank of a job profiles its own model at the same time; rank 0 puts one profile together.

Run under ``torchrun``, or whatever else sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT: gloo between processors,
NCCL between GPUs.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from wirebound.errors import InputError, WireboundError
from wirebound.profile.collectives import COLLECTIVE, allreduce_warnings
from wirebound.profile.observations import CounterSeries, RankTiming
from wirebound.profile.schema import CollectiveTiming, Profile
from wirebound.profile.spread import interquartile_range, median
from wirebound.profile.training import TrainingProfile

#: Ranks profile at their own pace before they meet.
_PATIENCE = timedelta(minutes=10)
#: A rank whose step takes this much longer than rank 0's is worth a word: all of them wait for it.
_SLOWER_LIMIT = 0.05


def launched_with_ranks() -> bool:
    """Tell whether this process is one of several ranks that a launcher started.

    Raises `InputError` where the environment's numbers are none.
    """
    if not all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")):
        return False
    for name in ("RANK", "WORLD_SIZE"):
        if not os.environ[name].isdigit():
            raise InputError(f"the environment's {name} is {os.environ[name]!r}, not a number: start with torchrun")
    return int(os.environ["WORLD_SIZE"]) > 1


def launched_rank() -> int:
    """Return this process's rank, 0 where it was not launched as one."""
    return int(os.environ["RANK"]) if launched_with_ranks() else 0


def local_device(kind: str) -> str:
    """Return this rank's own device: with GPUs the one of its number on this machine."""
    return f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if kind == "cuda" and launched_with_ranks() else kind


@contextlib.contextmanager
def process_group(device: str) -> Iterator[None]:
    """Join the job's process group, gloo for processors and NCCL for GPUs, and leave it at the end."""
    import torch
    import torch.distributed as dist

    on_gpu = torch.device(device).type == "cuda"
    if on_gpu:
        torch.cuda.set_device(device)
    try:
        dist.init_process_group("nccl" if on_gpu else "gloo", timeout=_PATIENCE)
    except (RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise WireboundError(f"the ranks could not meet: {reason}: were all of them started?") from None
    try:
        yield
    except RuntimeError as error:  # what all backends raise when another rank is gone
        raise WireboundError(f"the ranks' measurement stopped: {' '.join(str(error).split())}") from error
    finally:
        dist.destroy_process_group()


def profile_of_ranks(
    measured: TrainingProfile,
    profile: Profile,
    *,
    sizes: Sequence[int] = (),
    repetitions: int = 50,
    budget_s: float = 6.0,
    counters_s: float | None = None,
    rate_Bps: float | None = None,
    seed: int = 0,
) -> Profile:
    """Gather what every rank measured and time their all-reduces of `sizes` bytes; every rank must call this.

    Returns rank 0's `profile` with all ranks' medians, the all-reduces and, with `counters_s`, a series of counters of
    each rank while they train together. Raises `InputError` when the ranks' models have different gradients.
    """
    import torch.distributed as dist

    mine = rank_timing(dist.get_rank(), profile)
    gradients = sorted((tensor.name, tensor.size) for tensor in profile.tensors)
    told = _gathered((mine, gradients, profile.warnings))
    for timing, others, _ in told:
        if others != told[0][1]:
            raise InputError(f"the model of rank {timing.rank} has other gradients than that of rank 0")
    timings = _collectives(measured.device, sizes, repetitions, budget_s, seed) if sizes else ()
    series: tuple[CounterSeries, ...] = ()
    if counters_s is not None:
        from wirebound.profile.data_parallel import data_parallel_work
        from wirebound.profile.group_allreduce import agree
        from wirebound.profile.sampled_work import sample_work

        one = sample_work(
            data_parallel_work(measured.job, measured.last_batch, measured.device),
            lambda value: agree(value, measured.device),
            phase="training",
            rank=dist.get_rank(),
            interval_s=counters_s,
            rate_Bps=rate_Bps,
        )
        series = tuple(_gathered(one))
    ranks = tuple(timing for timing, _, _ in told)
    warnings = [f"rank {timing.rank}: {text}" for timing, _, texts in told[1:] for text in texts]
    return replace(
        profile,
        ranks=ranks,
        collectives=timings,
        counters=series,
        warnings=(*profile.warnings, *warnings, *_slower(ranks), *allreduce_warnings(timings)),
        disturbed=any(timing.disturbed for timing in ranks),
    )


def rank_timing(rank: int, profile: Profile) -> RankTiming:
    """Return the medians of one rank's own profile."""
    return RankTiming(
        rank=rank,
        forward_s=profile.forward_s,
        backward_s=round(sum(tensor.gap_s for tensor in profile.tensors), 9),
        optimizer_s=profile.optimizer_s,
        steps=profile.steps,
        loading_s=profile.loading_s,
        peak_bytes=None if profile.peak_memory is None else profile.peak_memory.size,
        disturbed=profile.disturbed,
    )


def _slower(ranks: Sequence[RankTiming]) -> list[str]:
    slowest = max(ranks, key=lambda timing: timing.step_s)
    if slowest.step_s <= (1 + _SLOWER_LIMIT) * ranks[0].step_s:
        return []
    longer = slowest.step_s / ranks[0].step_s - 1
    return [f"rank {slowest.rank}'s step takes {longer:.0%} longer than that of rank 0, whose times this profile has"]


def _gathered(value: Any) -> list[Any]:
    """All ranks' values, in every rank."""
    import torch.distributed as dist

    values: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def _collectives(
    device: str, sizes: Sequence[int], repetitions: int, budget_s: float, seed: int
) -> tuple[CollectiveTiming, ...]:
    import torch.distributed as dist

    from wirebound.profile.group_allreduce import check_sums, time_allreduces

    times = time_allreduces(check_sums(list(sizes), device), repetitions=repetitions, budget_s=budget_s, seed=seed)
    told = _gathered(times)
    return tuple(group_timing(size, [of_rank[size] for of_rank in told], dist.get_backend()) for size in sizes)


def group_timing(size: int, readings: list[list[tuple[float, float]]], backend: str) -> CollectiveTiming:
    """Return the timing of one size from every rank's starts and ends, each on a timer of its own.

    Machines share no timer, but the rank that came last waited for nobody: a repetition's time is the shortest of the
    ranks' own.
    """
    times = tuple(min(end - start for start, end in repetition) for repetition in zip(*readings, strict=True))
    return CollectiveTiming(
        collective=COLLECTIVE,
        ranks=len(readings),
        size=size,
        median_s=round(median(times), 9),
        spread_s=round(interquartile_range(times), 9),
        times_s=tuple(round(time, 9) for time in times),
        backend=backend,
    )
