"""One process of `distributed.train_runs`: `python -m wirebound.techniques.learning.worker ORDERS.json RANK`."""

import json
import sys
from pathlib import Path

from wirebound.techniques.worker import end_with_parent, run_guarded


def main(arguments: list[str]) -> int:
    """Train all runs of the orders, one after the other; worker 0 adds each curve to the journal as it is ready."""
    end_with_parent()
    orders_file, rank = Path(arguments[0]), int(arguments[1])

    def body() -> None:
        from datetime import timedelta

        import torch
        import torch.distributed as dist
        from torch.distributed import FileStore  # type: ignore[attr-defined]

        from wirebound.techniques.learning.data import load
        from wirebound.techniques.learning.journal import append
        from wirebound.techniques.learning.runs import run_of
        from wirebound.techniques.learning.train import train

        orders = json.loads(orders_file.read_text(encoding="utf-8"))
        runs = [run_of(fields) for fields in orders["runs"]]
        torch.set_num_threads(1)  # sums in one order, whatever the machine
        store = FileStore(str(orders_file.parent / "store"), runs[0].workers)
        limit = timedelta(seconds=orders["time_limit_s"])
        dist.init_process_group("gloo", store=store, rank=rank, world_size=runs[0].workers, timeout=limit)
        data = {name: load(orders_file.parent / f"{name}.pt") for name in {run.data for run in runs}}
        for run in runs:
            curve = train(run, data[run.data])
            if rank == 0:
                append(Path(orders["journal"]), curve)
        dist.barrier()
        dist.destroy_process_group()

    return run_guarded(body)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
