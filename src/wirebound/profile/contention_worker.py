"""One rank of the contention measurement: `python -m wirebound.profile.contention_worker ORDERS.json RANK`.

Started by `wirebound.profile.contention`. Trains in pairs of steps: one that computes only, and one that sends its
gradients in buckets as they become ready, as DistributedDataParallel does. A thread of this process makes the
all-reduces, one after the other, so that their times are known.
"""

import queue
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from wirebound.profile.allreduce_worker import run_rank


def bucket_ends(sizes: list[int], limit: float) -> list[int]:
    """Return the index of the last gradient of each bucket: it closes once it has reached `limit` bytes."""
    ends, filled = [], 0
    for index, size in enumerate(sizes):
        filled += size
        if filled >= limit or index == len(sizes) - 1:
            ends.append(index)
            filled = 0
    return ends


def within(transfers: list[tuple[float, float, int]], start: float, end: float) -> tuple[float, float]:
    """Return for how long transfers (begin, end, bytes), one after the other, were active from `start` to `end`.

    And how many of their bytes that was, evenly over each transfer.
    """
    active, sent = 0.0, 0.0
    for begin, stop, size in transfers:
        seconds = max(0.0, min(stop, end) - max(begin, start))
        active += seconds
        sent += size * seconds / (stop - begin)
    return active, sent


def _measure(orders: dict[str, Any], rank: int) -> dict[str, Any]:
    import torch
    import torch.distributed as dist
    from torch.nn import functional

    from wirebound.profile.models import ResNet20
    from wirebound.profile.pacing import pace_connections

    torch.set_num_threads(1)
    ranks: int = orders["ranks"]
    store = dist.FileStore(orders["store"], ranks)  # type: ignore[attr-defined]
    limit = timedelta(seconds=orders["time_limit_s"])
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks, timeout=limit)
    torch.manual_seed(orders["seed"])
    model = ResNet20()
    torch.manual_seed(orders["seed"] + 1 + rank)
    images, labels = torch.randn(orders["batch_size"], 3, 32, 32), torch.randint(0, 10, (orders["batch_size"],))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    gradients = list(model.parameters())[::-1]  # the order in which DDP puts them into buckets
    ends = bucket_ends([p.numel() * p.element_size() for p in gradients], orders["bucket_bytes"])
    buckets = [gradients[a + 1 : b + 1] for a, b in zip([-1, *ends[:-1]], ends, strict=True)]
    flats = [torch.zeros(sum(p.numel() for p in bucket)) for bucket in buckets]

    waiting: queue.SimpleQueue[int | None] = queue.SimpleQueue()
    finished: queue.SimpleQueue[tuple[float, float, int] | Exception] = queue.SimpleQueue()

    def communicate() -> None:
        while (index := waiting.get()) is not None:
            start = time.perf_counter()
            try:
                dist.all_reduce(flats[index])
            except Exception as error:  # handed to the thread that waits for it
                finished.put(error)
                return
            finished.put((start, time.perf_counter(), flats[index].nbytes))

    threading.Thread(target=communicate, daemon=True).start()
    missing = [len(bucket) for bucket in buckets]

    def hook_of(bucket: int) -> Callable[[torch.Tensor], None]:
        def hook(_: torch.Tensor) -> None:
            missing[bucket] -= 1
            if missing[bucket] == 0:
                parts = [p.grad.reshape(-1) for p in buckets[bucket] if p.grad is not None]
                torch.cat(parts, out=flats[bucket])
                waiting.put(bucket)

        return hook

    def step(communicating: bool) -> dict[str, float]:
        handles = []
        if communicating:
            missing[:] = [len(bucket) for bucket in buckets]
            for index, bucket in enumerate(buckets):
                handles += [p.register_post_accumulate_grad_hook(hook_of(index)) for p in bucket]  # type: ignore[no-untyped-call]
        dist.barrier()
        began = time.perf_counter()
        loss = functional.cross_entropy(model(images), labels)
        forward_end = time.perf_counter()
        loss.backward()  # type: ignore[no-untyped-call]
        backward_end = time.perf_counter()
        transfers = []
        for _ in buckets if communicating else ():
            done = finished.get()
            if isinstance(done, Exception):
                raise done
            transfers.append(done)
        for handle in handles:
            handle.remove()
        if communicating:
            for bucket, flat in zip(buckets, flats, strict=True):
                for parameter, part in zip(bucket, torch.split(flat, [p.numel() for p in bucket]), strict=True):
                    if parameter.grad is not None:
                        parameter.grad.copy_(part.view_as(parameter)).div_(ranks)
        else:
            # Without communication the ranks' weights would part: these gradients change nothing.
            optimizer.zero_grad()
        optimizer.step()
        optimizer.zero_grad()
        active_s, sent_bytes = within(transfers, forward_end, backward_end)
        return {
            "forward_s": forward_end - began,
            "backward_s": backward_end - forward_end,
            "active_s": active_s,
            "sent_bytes": sent_bytes,
            "exposed_s": max([0.0, *(stop - backward_end for _, stop, _ in transfers)]),
        }

    samples: list[dict[str, Any]] = []
    paced: list[int] = []
    stop = torch.zeros(1)
    try:
        for rate_Bps in orders["rates_Bps"]:
            step(False), step(True)  # warm-up; opens the connections
            dist.barrier()
            if rate_Bps is not None:
                paced.append(pace_connections(rate_Bps))
            began = time.perf_counter()
            for pair in range(orders["pairs"]):
                # Rank 0 decides for all whether there is time for another pair.
                stop.fill_(float(rank == 0 and pair >= 3 and time.perf_counter() - began > orders["budget_s"]))
                dist.broadcast(stop, src=0)
                if stop.item():
                    break
                # Alone first, then the other way round: a slow drift of the machine favours neither.
                first = step(pair % 2 == 1)
                second = step(pair % 2 == 0)
                alone, under = (first, second) if pair % 2 == 0 else (second, first)
                samples.append({"rate_Bps": rate_Bps, "pair": pair, "alone": alone, "under": under})
        dist.barrier()
        weights = sum(float(parameter.detach().double().abs().sum()) for parameter in model.parameters())
    finally:
        waiting.put(None)
        dist.destroy_process_group()
    return {
        "samples": samples,
        "paced_connections": paced,
        "weights": weights,
        "buckets": [f.numel() * 4 for f in flats],
    }


if __name__ == "__main__":
    sys.exit(run_rank(sys.argv[1:], _measure))
