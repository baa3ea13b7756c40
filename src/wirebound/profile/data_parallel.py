"""Training steps that communicate: a job's model in PyTorch's DistributedDataParallel, and when it sends."""

import time
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from wirebound.errors import InputError
from wirebound.profile.job import TrainingJob
from wirebound.profile.sampled_work import Work
from wirebound.profile.training import loss_of
from wirebound.profile.user_code import user_code


def data_parallel_work(job: TrainingJob, batch: Any, device: str, *, bucket_cap_mib: float = 25) -> Work:
    """Return a function that trains one step on `batch` with all ranks of the process group, and tells when it sent.

    Communication begins when the first bucket of gradients is full (on a GPU: when its sending is asked for), and ends
    when backward does, which waits for all buckets. Every rank starts from rank 0's parameters. Raises `InputError`
    when the model cannot be wrapped, or its loss needs more of it than calling it.
    """
    on_gpu = torch.device(device).type == "cuda"
    with user_code(f"{job.name}: DistributedDataParallel"):
        model = DistributedDataParallel(
            job.model, device_ids=[torch.device(device)] if on_gpu else None, bucket_cap_mb=bucket_cap_mib
        )
    began: list[float] = []

    # PyTorch insists on this annotation.
    def hook(_: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:  # type: ignore[name-defined]
        began.append(time.perf_counter())
        return allreduce_hook(dist.group.WORLD, bucket)  # type: ignore[arg-type]

    model.register_comm_hook(None, hook)

    def work() -> tuple[float, float]:
        began.clear()
        try:
            loss = loss_of(job, model, batch)
        except InputError as error:
            if isinstance(error.__cause__, AttributeError | TypeError):
                raise InputError(
                    f"{error}: with counters the model is wrapped for communication, so that the loss can only call it"
                ) from error
            raise
        with user_code("backward"):
            loss.backward()  # type: ignore[no-untyped-call]
        if on_gpu:
            torch.cuda.synchronize()
        ended = time.perf_counter()
        with user_code("the optimizer"):
            job.optimizer.step()
            job.optimizer.zero_grad()
        return began[0] if began else ended, ended

    return work
