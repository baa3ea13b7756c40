"""One rank of the all-reduce measurement: `python -m wirebound.profile.allreduce_worker ORDERS.json RANK`.

Started by `wirebound.profile.collectives`. Writes the clock readings of every repetition to ``rank-RANK.json`` beside
its orders. Ends at once when its standard input closes, so that it never outlives whoever started it.
"""

import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any


def _end_with_parent() -> None:
    # Not through sys.stdin, whose lock would be held when the interpreter shuts down.
    while os.read(0, 1):
        pass
    os._exit(3)


def _measure(orders: dict[str, Any], rank: int) -> dict[str, Any]:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    store = dist.FileStore(orders["store"], orders["ranks"])  # type: ignore[attr-defined]
    dist.init_process_group(
        "gloo",
        store=store,
        rank=rank,
        world_size=orders["ranks"],
        timeout=timedelta(seconds=orders["time_limit_s"]),
    )
    try:
        sizes: list[int] = orders["sizes"]
        buffers = {size: torch.ones(size // 4) for size in sizes}
        for size in sizes:
            buffers[size].fill_(rank + 1)
            dist.all_reduce(buffers[size])
            expected = orders["ranks"] * (orders["ranks"] + 1) / 2
            if not bool((buffers[size] == expected).all()):
                raise ValueError(f"an all-reduce of {size} bytes did not give the sum of the ranks' values")
            buffers[size].zero_()  # zeros stay zeros: no sum overflows, no denormals slow an addition down
        paced = 0
        if orders["rate_Bps"] is not None:
            from wirebound.profile.pacing import pace_connections

            dist.barrier()
            paced = pace_connections(orders["rate_Bps"])
        shuffle = random.Random(orders["seed"])  # the same order in every rank
        times: dict[int, list[tuple[float, float]]] = {size: [] for size in sizes}
        began, stop = time.perf_counter(), torch.zeros(1)
        for repetition in range(orders["repetitions"]):
            # Rank 0 decides for all whether there is time for another round.
            if rank == 0 and repetition >= 3 and time.perf_counter() - began > orders["budget_s"]:
                stop.fill_(1)
            dist.broadcast(stop, src=0)
            if stop.item():
                break
            for size in shuffle.sample(sizes, len(sizes)):
                dist.barrier()
                start = time.perf_counter()
                dist.all_reduce(buffers[size])
                times[size].append((start, time.perf_counter()))
        dist.barrier()
    finally:
        dist.destroy_process_group()
    return {"paced_connections": paced, "times": times}


def run_rank(arguments: list[str], measure: Callable[[dict[str, Any], int], dict[str, Any]]) -> int:
    """Run `measure(orders, rank)` and write what it returns beside the orders; returns the exit code."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    orders_file, rank = Path(arguments[0]), int(arguments[1])
    orders = json.loads(orders_file.read_text(encoding="utf-8"))
    try:
        result = measure(orders, rank)
    except Exception as error:
        print(f"{type(error).__name__}: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    (orders_file.parent / f"rank-{rank}.json").write_text(json.dumps(result), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(run_rank(sys.argv[1:], _measure))
