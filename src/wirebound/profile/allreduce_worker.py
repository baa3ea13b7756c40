"""One rank of the all-reduce measurement: `python -m wirebound.profile.allreduce_worker ORDERS.json RANK`.

Started by `wirebound.profile.collectives`. Writes the clock readings of every repetition to ``rank-RANK.json`` beside
its orders. Ends at once when its standard input closes, so that it never outlives whoever started it.
"""

import json
import os
import sys
import threading
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

    from wirebound.profile.group_allreduce import agree, check_sums, time_allreduces, timed_allreduce
    from wirebound.profile.observations import item_document
    from wirebound.profile.sampled_work import sample_work

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
        buffers = check_sums(orders["sizes"])
        paced = 0
        if orders["rate_Bps"] is not None:
            from wirebound.profile.pacing import pace_connections

            dist.barrier()
            paced = pace_connections(orders["rate_Bps"])
        times = time_allreduces(
            buffers, repetitions=orders["repetitions"], budget_s=orders["budget_s"], seed=orders["seed"]
        )
        counters = None
        if orders.get("counters_s") is not None:
            largest = buffers[max(buffers)]
            counters = sample_work(
                lambda: timed_allreduce(largest),
                agree,
                phase="all-reduce",
                rank=rank,
                interval_s=orders["counters_s"],
                rate_Bps=orders["rate_Bps"],
            )
        dist.barrier()
    finally:
        dist.destroy_process_group()
    return {
        "paced_connections": paced,
        "times": times,
        "counters": None if counters is None else item_document(counters),
    }


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
