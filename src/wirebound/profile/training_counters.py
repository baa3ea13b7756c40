"""Counters of processes that train a job together on this machine, over connections of a chosen speed."""

import json
import sys
import tempfile
from pathlib import Path

from wirebound.errors import WireboundError
from wirebound.profile.collectives import require_gloo, started_workers, wait_for_workers
from wirebound.profile.fields import Fields
from wirebound.profile.observations import CounterSeries, read_series
from wirebound.profile.pacing import pacing_available


def measure_training_counters(
    model: str | None = None,
    *,
    rate_Bps: float | None = None,
    ranks: int = 2,
    batch_size: int | None = None,
    bucket_bytes: int | None = None,
    interval_s: float = 0.005,
    seconds: float = 1.0,
    seed: int = 0,
    time_limit_s: float = 120.0,
) -> tuple[CounterSeries, ...]:
    """Train a job with DistributedDataParallel in `ranks` processes of one thread each; return each rank's counters.

    `model` names the job's function as for `wirebound.profile.job`, None the built-in ResNet-20. Connections are slowed
    down to `rate_Bps` bytes per second (Linux), None leaves loopback as it is. Buckets have `bucket_bytes`, by default
    PyTorch's. Counters are read every `interval_s` for about `seconds`. Raises `WireboundError` with one line when gloo
    or pacing is missing, a process dies, the job's code raises, or `time_limit_s` passes; no process is left behind.
    """
    if rate_Bps is not None and not pacing_available():
        raise WireboundError(f"sockets can be paced on Linux only, not on {sys.platform}")
    require_gloo()
    with tempfile.TemporaryDirectory(prefix="wirebound-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        orders = {
            "store": str(folder / "store"),
            "model": model,
            "ranks": ranks,
            "rate_Bps": rate_Bps,
            "batch_size": batch_size,
            "bucket_bytes": bucket_bytes,
            "interval_s": interval_s,
            "seconds": seconds,
            "seed": seed,
            "time_limit_s": time_limit_s,
        }
        (folder / "orders.json").write_text(json.dumps(orders), encoding="utf-8")
        with started_workers(folder, ranks, "wirebound.profile.training_counters_worker") as workers:
            wait_for_workers(workers, folder, time_limit_s, "training")
        results = [json.loads((folder / f"rank-{rank}.json").read_text(encoding="utf-8")) for rank in range(ranks)]
    if rate_Bps is not None and not all(result["paced_connections"] for result in results):
        raise WireboundError("no connection of the training processes could be paced")
    return tuple(read_series(Fields(result["counters"], "counters of the training run")) for result in results)
