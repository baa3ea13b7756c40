"""One rank of a training run that is watched: `python -m wirebound.profile.training_counters_worker ORDERS.json RANK`.

Started by `wirebound.profile.training_counters`. Trains a job with DistributedDataParallel while its counters are read.
"""

import sys
from datetime import timedelta
from typing import Any

from wirebound.profile.allreduce_worker import run_rank


def _measure(orders: dict[str, Any], rank: int) -> dict[str, Any]:
    import torch
    import torch.distributed as dist

    from wirebound.profile.data_parallel import data_parallel_work
    from wirebound.profile.feed import Feed
    from wirebound.profile.group_allreduce import agree
    from wirebound.profile.job import load_job, make_job
    from wirebound.profile.models import resnet20_job
    from wirebound.profile.observations import item_document
    from wirebound.profile.pacing import pace_connections
    from wirebound.profile.sampled_work import sample_work

    torch.set_num_threads(1)
    store = dist.FileStore(orders["store"], orders["ranks"])  # type: ignore[attr-defined]
    limit = timedelta(seconds=orders["time_limit_s"])
    dist.init_process_group("gloo", store=store, rank=rank, world_size=orders["ranks"], timeout=limit)
    try:
        batch_size, seed = orders["batch_size"], orders["seed"]
        if orders["model"] is None:
            job = make_job("resnet20-cpu", resnet20_job, batch_size=batch_size, seed=seed)
        else:
            job = load_job(orders["model"], batch_size=batch_size, seed=seed)
        feed = Feed(job.name, job.data, "cpu")
        feed.advance()
        buckets = {} if orders["bucket_bytes"] is None else {"bucket_cap_mib": orders["bucket_bytes"] / 2**20}
        work = data_parallel_work(job, feed.batch, "cpu", **buckets)
        work()  # opens the connections
        dist.barrier()
        paced = 0 if orders["rate_Bps"] is None else pace_connections(orders["rate_Bps"])
        series = sample_work(
            work,
            agree,
            phase="training",
            rank=rank,
            interval_s=orders["interval_s"],
            rate_Bps=orders["rate_Bps"],
            seconds=orders["seconds"],
        )
        dist.barrier()
    finally:
        dist.destroy_process_group()
    return {"paced_connections": paced, "counters": item_document(series)}


if __name__ == "__main__":
    sys.exit(run_rank(sys.argv[1:], _measure))
