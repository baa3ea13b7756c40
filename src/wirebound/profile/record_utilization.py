"""Record how busy link and processor are, every few milliseconds of a training run: real processes, paced loopback.

    python -m wirebound.profile.record_utilization --out data/recorded

writes ``utilization_samples.csv`` (one row per rank and reading) and ``utilization_samples.machine.json`` (machine
record, settings, when there was communication, what reading the counters cost), in about 20 seconds. Linux only.
"""

import argparse
import csv
import dataclasses
import io
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wirebound.errors import WireboundError
from wirebound.files import require_writable, write_text
from wirebound.profile.collectives import require_gloo, started_workers, wait_for_workers
from wirebound.profile.disturbance import load_warnings
from wirebound.profile.fields import Fields
from wirebound.profile.machine import machine_record
from wirebound.profile.observations import CounterSeries, read_series
from wirebound.profile.pacing import pacing_available
from wirebound.profile.record import describe_rows
from wirebound.profile.recording import run_recording
from wirebound.profile.schema import write_json
from wirebound.units import BYTES_PER_S_PER_MBPS

TABLE, RECORD = "utilization_samples.csv", "utilization_samples.machine.json"
COLUMNS = ("rank", "time_s", "sent_bytes", "cpu_s", "waiting_s")
#: Megabits per second. At this rate the gradients of ResNet-20 need about as long as its backward pass.
RATE_MBPS = 200


def measure_utilization(
    rate_mbps: float = RATE_MBPS,
    *,
    ranks: int = 2,
    batch_size: int = 32,
    bucket_bytes: int = 256 * 1024,
    interval_s: float = 0.005,
    seconds: float = 2.0,
    seed: int = 0,
    time_limit_s: float = 120.0,
) -> tuple[CounterSeries, ...]:
    """Train ResNet-20 in `ranks` processes of one thread each for about `seconds`; return each rank's counters.

    Every connection is slowed down to `rate_mbps` megabits per second. Raises `WireboundError` with one line when gloo
    or pacing is missing, a process dies, or `time_limit_s` passes.
    """
    if not pacing_available():
        raise WireboundError(f"sockets can be paced on Linux only, not on {sys.platform}")
    require_gloo()
    with tempfile.TemporaryDirectory(prefix="wirebound-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        orders = {
            "store": str(folder / "store"),
            "ranks": ranks,
            "rate_Bps": rate_mbps * BYTES_PER_S_PER_MBPS,
            "batch_size": batch_size,
            "bucket_bytes": bucket_bytes,
            "interval_s": interval_s,
            "seconds": seconds,
            "seed": seed,
            "time_limit_s": time_limit_s,
        }
        (folder / "orders.json").write_text(json.dumps(orders), encoding="utf-8")
        with started_workers(folder, ranks, "wirebound.profile.utilization_worker") as workers:
            wait_for_workers(workers, folder, time_limit_s, "utilization")
        results = [json.loads((folder / f"rank-{rank}.json").read_text(encoding="utf-8")) for rank in range(ranks)]
    if not all(result["paced_connections"] for result in results):
        raise WireboundError("no connection of the training processes could be paced")
    return tuple(read_series(Fields(result["counters"], "counters of the training run")) for result in results)


def samples_csv(series: Sequence[CounterSeries]) -> str:
    """Return the readings as CSV text, rank after rank; a column that this system does not count is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for one in series:
        for index, (time_s, cpu_s) in enumerate(zip(one.time_s, one.cpu_s, strict=True)):
            sent = one.sent_bytes[index] if one.sent_bytes else ""
            waiting = f"{one.waiting_s[index]:.9f}" if one.waiting_s else ""
            writer.writerow([one.rank, f"{time_s:.9f}", sent, f"{cpu_s:.9f}", waiting])
    return text.getvalue()


def load_utilization(folder: Path) -> tuple[CounterSeries, ...]:
    """Return the series that a recording in `folder` holds."""
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    columns: dict[int, dict[str, list[Any]]] = {}
    with (folder / TABLE).open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            held = columns.setdefault(int(row["rank"]), {name: [] for name in COLUMNS[1:]})
            for name in COLUMNS[1:]:
                if row[name]:
                    held[name].append(int(row[name]) if name == "sent_bytes" else float(row[name]))
    return tuple(
        read_series(Fields(columns[item["rank"]] | item, f"{folder / RECORD}: series {index}"))
        for index, item in enumerate(record["series"])
    )


def _record(series: CounterSeries) -> dict[str, Any]:
    """A series without the columns that are in the table."""
    document = dataclasses.asdict(series)
    return {name: value for name, value in document.items() if name not in COLUMNS[1:]}


def main(arguments: list[str] | None = None) -> int:
    """Record into a folder; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m wirebound.profile.record_utilization", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where the two files go")
    parser.add_argument("--rate", type=float, default=RATE_MBPS, help="of each connection, in Mbit/s (default 200)")
    parser.add_argument("--seed", type=int, default=0, help="of the weights and the images (default 0)")
    options = parser.parse_args(arguments)

    def record_all() -> list[str]:
        table = options.out / TABLE
        require_writable(table)
        machine, began = machine_record(), time.perf_counter()
        series = measure_utilization(options.rate, seed=options.seed)
        document = {
            "source": "python -m wirebound.profile.record_utilization: ResNet-20, batch 32, DistributedDataParallel"
            " with buckets of 256 KiB, in 2 processes of one thread each",
            "pacing": "SO_MAX_PACING_RATE on each of gloo's TCP connections, each on its own",
            "seed": options.seed,
            "elapsed_s": round(time.perf_counter() - began, 1),
            "machine": machine | {"torch_threads": 1},
            "series": [_record(one) for one in series],
            "warnings": load_warnings(machine),
        }
        write_text(table, samples_csv(series))
        describe_rows(options.out, table.name)
        write_json(document, options.out / RECORD)
        return list(document["warnings"])

    return run_recording("utilization", record_all)


if __name__ == "__main__":
    sys.exit(main())
