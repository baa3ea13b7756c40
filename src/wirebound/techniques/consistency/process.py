"""One process: `python -m wirebound.techniques.consistency.process ORDERS.json RANK`; started by `run.run_plans`.

It goes through all plans of its orders, one after the other; the last rank is the server. What it tells about plan i
is in ``plan-i-rank-RANK.json`` beside the orders, the models that it kept in ``plan-i-rank-RANK.pt``.
"""

import json
import sys
from pathlib import Path
from typing import Any

from wirebound.techniques.worker import end_with_parent, run_guarded


def main(arguments: list[str]) -> int:
    """Run one rank; returns the exit code."""
    end_with_parent()
    orders_file, rank = Path(arguments[0]), int(arguments[1])

    def body() -> None:
        import torch
        from torch.distributed import FileStore, PrefixStore  # type: ignore[attr-defined]

        from wirebound.techniques.consistency.plan import plan_from
        from wirebound.techniques.learning.data import DataSet
        from wirebound.techniques.process_group import fifo_group

        torch.set_num_threads(1)
        folder = orders_file.parent
        orders = json.loads(orders_file.read_text(encoding="utf-8"))
        plans = [plan_from(document) for document in orders["plans"]]
        store = FileStore(str(folder / "store"), plans[0].workers + 1)
        sets: dict[str, DataSet] = {}
        for number, plan in enumerate(plans):
            if plan.data not in sets:
                sets[plan.data] = DataSet(**torch.load(folder / f"{plan.data}.pt"))
            ranks = plan.workers + plan.has_server
            if rank >= ranks:
                continue
            group = fifo_group(PrefixStore(f"{number}", store), rank, ranks, timeout_s=orders["timeout_s"])
            told, models = take_part(plan, sets[plan.data], group, rank)
            torch.save(models, folder / f"plan-{number}-rank-{rank}.pt")
            (folder / f"plan-{number}-rank-{rank}.json").write_text(json.dumps(told), encoding="utf-8")

    return run_guarded(body)


def take_part(plan: Any, data: Any, group: Any, rank: int) -> tuple[dict[str, Any], Any]:
    """Train or serve as the rank says; return what happened, and a row for each of the models kept."""
    import torch

    from wirebound.techniques.consistency.averaging import train_by_averaging
    from wirebound.techniques.consistency.learner import Learner
    from wirebound.techniques.consistency.server import Server
    from wirebound.techniques.consistency.server_worker import train_with_server
    from wirebound.techniques.process_group import all_reduce, one_line

    # The server begins with the model of worker 0 and has no data.
    learner = Learner(plan, data, rank if rank < plan.workers else 0)
    with one_line("the processes could not begin together"):
        all_reduce(group, torch.zeros(1)).wait()
    if rank == plan.workers:
        server = Server(plan, group, learner.values)
        server.serve()
        kept = server.snapshots
        told: dict[str, Any] = {"applied": server.applied}
    elif plan.has_server:
        return {"steps": train_with_server(learner, group, rank, plan.workers)}, torch.empty(0)
    else:
        steps, kept = train_by_averaging(plan, learner, group, rank)
        told = {"steps": steps}
    told["kept"] = [[count, moment_s] for count, moment_s, _ in kept]
    return told, torch.stack([values for _, _, values in kept])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
