"""Record how busy link and processor are, every few milliseconds of a training run: real processes, paced loopback.

    python -m wirebound.profile.record_utilization --out data/recorded

writes ``utilization_samples.csv`` (one row per rank and reading) and ``utilization_samples.machine.json`` (machine
record, settings, when there was communication, what reading the counters cost), in about 20 seconds. Linux only.
"""

import csv
import dataclasses
import io
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wirebound.files import require_writable, write_text
from wirebound.profile.disturbance import load_warnings
from wirebound.profile.fields import Fields
from wirebound.profile.machine import machine_record
from wirebound.profile.observations import CounterSeries, read_series
from wirebound.profile.record import describe_rows
from wirebound.profile.recording import recording_parser, run_recording
from wirebound.profile.schema import write_json
from wirebound.profile.training_counters import measure_training_counters
from wirebound.units import BYTES_PER_S_PER_MBPS

TABLE, RECORD = "utilization_samples.csv", "utilization_samples.machine.json"
COLUMNS = ("rank", "time_s", "sent_bytes", "cpu_s", "waiting_s")
#: Megabits per second. At this rate the gradients of ResNet-20 need about as long as its backward pass.
RATE_MBPS = 200
#: Buckets small enough that the network, which has one megabyte of gradients, fills several.
BATCH_SIZE, BUCKET_BYTES = 32, 256 * 1024


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
    parser = recording_parser("wirebound.profile.record_utilization", __doc__, out="FOLDER", what="the two files go")
    parser.add_argument("--rate", type=float, default=RATE_MBPS, help="of each connection, in Mbit/s (default 200)")
    parser.add_argument("--seed", type=int, default=0, help="of the weights and the images (default 0)")
    options = parser.parse_args(arguments)

    def record_all() -> list[str]:
        table = options.out / TABLE
        require_writable(table)
        machine, began = machine_record(), time.perf_counter()
        series = measure_training_counters(
            rate_Bps=options.rate * BYTES_PER_S_PER_MBPS,
            batch_size=BATCH_SIZE,
            bucket_bytes=BUCKET_BYTES,
            seconds=2.0,
            seed=options.seed,
        )
        document = {
            "source": f"python -m wirebound.profile.record_utilization: ResNet-20, batch {BATCH_SIZE},"
            f" DistributedDataParallel with buckets of {BUCKET_BYTES // 1024} KiB, in 2 processes of one thread each",
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
