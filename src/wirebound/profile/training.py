"""Profile a training job: forward, ready times, optimizer, loading, memory, and how all of it grows with the batch."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from wirebound.errors import InputError
from wirebound.profile.backward import BackwardProfile, Progress, profile_backward, profile_batches
from wirebound.profile.clock import Clock, clock_of
from wirebound.profile.feed import Feed
from wirebound.profile.job import TrainingJob
from wirebound.profile.memory import MemoryWatch
from wirebound.profile.observations import PeakMemory
from wirebound.profile.schema import BatchTiming, Profile, Scalar
from wirebound.profile.user_code import user_code

#: Names of PyTorch's number types as a profile has them.
_DTYPES = {
    torch.float64: "fp64",
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
}


@dataclass(frozen=True, slots=True)
class TrainingProfile:
    """What was measured of one job on one device."""

    job: TrainingJob
    device: str
    clock: str
    batch_size: int | None
    backward: BackwardProfile
    batches: tuple[BatchTiming, ...]
    loading_samples_s: tuple[float, ...]
    memory: PeakMemory | None
    last_batch: Any
    warnings: tuple[str, ...] = ()


def profile_training(
    job: TrainingJob,
    *,
    device: str = "cpu",
    clock: Clock | None = None,
    steps: int = 30,
    batches: Sequence[int] = (),
    batch_steps: int = 8,
    time_limit_s: float | None = None,
    batches_limit_s: float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> TrainingProfile:
    """Train the job, whose model is on `device`, and return what was measured; its parameters change.

    Memory is watched during the steps at the job's own batch size, `steps` with hooks and as many without; then
    `batch_steps` steps follow at each size of `batches`. `clock` is the device's own unless another is given. No new
    step begins after `time_limit_s`, at other batch sizes after `batches_limit_s`. Raises `InputError` where the
    user's code raises, its data ends early, or what it returns cannot be trained.
    """
    clock = clock or clock_of(torch.device(device).type)
    if batches and job.data_of_size is None:
        raise InputError(f"{job.name}: takes no parameter batch_size: other batch sizes cannot be timed")
    feed = Feed(job.name, job.data, device)
    losses: list[Tensor] = []

    def compute_loss(model: nn.Module) -> Tensor:
        loss = loss_of(job, model, feed.batch)
        losses[:] = [loss]
        return loss

    memory = MemoryWatch(device)
    backward = profile_backward(
        job.model,
        compute_loss,
        job.optimizer,
        steps=steps,
        time_limit_s=time_limit_s,
        clock=clock,
        before_step=feed.advance,
        progress=progress,
    )
    peak = memory.peak()
    if job.data_of_size is None and None not in (job.batch_size, feed.samples) and job.batch_size != feed.samples:
        raise InputError(
            f"{job.name}: takes no parameter batch_size, and its batches have {feed.samples} samples, not"
            f" {job.batch_size}: leave --batch out"
        )
    if job.data_of_size is not None and job.batch_size is not None:
        _check_size(job, job.batch_size, feed)
    warnings = feed.warnings()
    if not bool(torch.isfinite(losses[0].detach()).all()):
        warnings.append(f"the loss of the last step is {losses[0].item():g}: times may be those of a broken model")
    samples: tuple[BatchTiming, ...] = ()
    if batches and job.data_of_size is not None:
        feeds = {size: Feed(job.name, job.data_of_size(size), device) for size in sorted(set(batches))}
        for size, one in feeds.items():
            one.advance()  # its first batch serves for all steps: loading is not what is asked for here
            _check_size(job, size, one)
        samples = profile_batches(
            job.model,
            lambda model, size: loss_of(job, model, feeds[size].batch),
            job.optimizer,
            batches,
            steps=batch_steps,
            time_limit_s=batches_limit_s,
            clock=clock,
            seed=seed,
        )
    return TrainingProfile(
        job=job,
        device=device,
        clock=clock.name,
        batch_size=job.batch_size or feed.samples,
        backward=backward,
        batches=samples,
        loading_samples_s=tuple(round(seconds, 9) for seconds in feed.seconds),
        memory=peak,
        last_batch=feed.batch,
        warnings=tuple(warnings),
    )


def _check_size(job: TrainingJob, asked: int, feed: Feed) -> None:
    if feed.samples is not None and feed.samples != asked:
        raise InputError(
            f"{job.name}: batch_size={asked} was asked for, and its batch has {feed.samples} samples: pass"
            " batch_size on to the data"
        )


def loss_of(job: TrainingJob, model: nn.Module, batch: Any) -> Tensor:
    """Run the job's forward pass on a batch; raises `InputError` naming what its code raised."""
    with user_code(f"{job.name}: the loss"):
        return job.loss(model, batch)  # type: ignore[no-any-return]


def profile_of(measured: TrainingProfile, *, name: str, source: str, machine: dict[str, Scalar]) -> Profile:
    """Return the profile of a job without collectives. A gradient of another type than most keeps its bytes only."""
    backward = measured.backward
    parameters = dict(measured.job.model.named_parameters())
    sizes: dict[str, int] = {}
    for tensor in backward.tensors:
        dtype = _dtype(tensor.name, parameters[tensor.name])
        sizes[dtype] = sizes.get(dtype, 0) + tensor.size
    main = max(sizes, key=lambda dtype: sizes[dtype])
    tensors = tuple(
        tensor if _dtype(tensor.name, parameters[tensor.name]) == main else replace(tensor, shape=())
        for tensor in backward.tensors
    )
    warnings = [*measured.warnings, *backward.warnings]
    if len(sizes) > 1:
        warnings.append(f"gradients are of several types ({', '.join(sizes)}): the profile says {main}, the commonest")
    return Profile(
        name=name,
        source=source,
        machine=machine,
        steps=backward.steps,
        batch_size=measured.batch_size,
        gradient_dtype=main,
        forward_s=backward.forward_s,
        optimizer_s=backward.optimizer_s,
        tensors=tensors,
        forward_samples_s=backward.forward_samples_s,
        backward_samples_s=backward.backward_samples_s,
        batch_samples=measured.batches,
        hook_overhead=backward.hook_overhead,
        warnings=tuple(warnings),
        device=torch.device(measured.device).type,
        clock=measured.clock,
        loading_samples_s=measured.loading_samples_s,
        peak_memory=measured.memory,
        disturbed=backward.disturbed,
    )


def _dtype(name: str, parameter: Tensor) -> str:
    found = _DTYPES.get(parameter.dtype)
    if found is None:
        raise InputError(f"parameter {name} is of type {parameter.dtype}: known are {', '.join(_DTYPES.values())}")
    return found
