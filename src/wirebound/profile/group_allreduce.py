"""Time all-reduces among the ranks of PyTorch's process group, on the processor or on GPUs."""

import random
import time

import torch
import torch.distributed as dist


def check_sums(sizes: list[int], device: str = "cpu") -> dict[int, torch.Tensor]:
    """All-reduce a buffer of each size in bytes, and return the buffers, all zero.

    Zeros stay zeros: no sum overflows, no denormals slow an addition down. Raises `ValueError` for a wrong sum.
    """
    ranks, rank = dist.get_world_size(), dist.get_rank()
    buffers = {size: torch.ones(size // 4, device=device) for size in sizes}
    for size, buffer in buffers.items():
        buffer.fill_(rank + 1)
        dist.all_reduce(buffer)
        if not bool((buffer == ranks * (ranks + 1) / 2).all()):
            raise ValueError(f"an all-reduce of {size} bytes did not give the sum of the ranks' values")
        buffer.zero_()
    return buffers


def time_allreduces(
    buffers: dict[int, torch.Tensor], *, repetitions: int, budget_s: float, seed: int
) -> dict[int, list[tuple[float, float]]]:
    """Return, by size, this rank's start and end of each repetition, in seconds of its own timer.

    Every repetition runs all sizes in a new random order, the same in every rank, a barrier before each. After
    `budget_s` no new repetition begins (never fewer than 3 are made): rank 0 decides for all.
    """
    device = next(iter(buffers.values())).device
    shuffle, sizes = random.Random(seed), list(buffers)
    times: dict[int, list[tuple[float, float]]] = {size: [] for size in sizes}
    began = time.perf_counter()
    for repetition in range(repetitions):
        spent = time.perf_counter() - began > budget_s
        if agree(float(repetition >= 3 and spent), str(device)):
            break
        for size in shuffle.sample(sizes, len(sizes)):
            dist.barrier()
            times[size].append(timed_allreduce(buffers[size]))
    dist.barrier()
    return times


def timed_allreduce(buffer: torch.Tensor) -> tuple[float, float]:
    """All-reduce a buffer and return when it began and when it was done, on this rank's timer."""
    on_gpu = buffer.device.type == "cuda"
    if on_gpu:
        torch.cuda.synchronize()  # what was asked for before is no part of it
    start = time.perf_counter()
    dist.all_reduce(buffer)
    if on_gpu:
        torch.cuda.synchronize()
    return start, time.perf_counter()


def agree(value: float, device: str = "cpu") -> float:
    """Return rank 0's value to all ranks."""
    shared = torch.tensor([value], dtype=torch.float64, device=device)
    dist.broadcast(shared, src=0)
    return float(shared.item())
