"""Record this machine's all-reduce times over ranks, rates and sizes: the tables of data/recorded.

    python -m wirebound.profile.record --out data/recorded

writes ``allreduce_samples.csv`` (columns rank_count, rate_mbps, bytes, repetition, seconds; an empty rate is loopback
as it is) and ``allreduce_samples.machine.json`` (machine record, settings, warnings), in under a minute on two cores.
Paced rates need Linux and are left out, with a message, elsewhere.
"""

import csv
import io
import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wirebound.files import require_writable, write_text
from wirebound.profile.collectives import allreduce_warnings, measure_allreduce
from wirebound.profile.disturbance import load_warnings
from wirebound.profile.machine import machine_record
from wirebound.profile.pacing import pacing_available
from wirebound.profile.recording import recording_parser, run_recording, tell
from wirebound.profile.schema import CollectiveTiming, write_json
from wirebound.units import BYTES_PER_S_PER_MBPS

COLUMNS = ("rank_count", "rate_mbps", "bytes", "repetition", "seconds")


@dataclass(frozen=True, slots=True)
class Setting:
    """One series: `ranks` processes, links of `rate_mbps` megabits per second (None: loopback as it is), its sizes."""

    ranks: int
    rate_mbps: int | None
    sizes: tuple[int, ...]
    repetitions: int


def _powers(first: int, last: int) -> tuple[int, ...]:
    return tuple(2**power for power in range(first, last + 1))


#: Slower links get fewer repetitions and smaller messages, so that all of it takes less than a minute.
SETTINGS = tuple(
    Setting(ranks, rate_mbps, sizes, repetitions)
    for ranks in (2, 4)
    for rate_mbps, sizes, repetitions in (
        (None, _powers(10, 24), 30),
        (1000, _powers(10, 24), 8),
        (100, _powers(10, 22), 4),
    )
)


def record_allreduce(
    settings: Sequence[Setting] = SETTINGS, *, seed: int = 0, tell: Callable[[str], None] = lambda what: None
) -> tuple[list[tuple[Setting, CollectiveTiming]], dict[str, Any]]:
    """Measure every setting; return the timings, and a document with the machine record, settings and warnings."""
    machine = machine_record()
    warnings = load_warnings(machine)
    rows: list[tuple[Setting, CollectiveTiming]] = []
    began = time.perf_counter()
    for setting in settings:
        name = f"{setting.ranks} ranks, {'not paced' if setting.rate_mbps is None else f'{setting.rate_mbps} Mbit/s'}"
        if setting.rate_mbps is not None and not pacing_available():
            warnings.append(f"{name}: left out, for sockets can be paced on Linux only")
            continue
        tell(name)
        timings = measure_allreduce(
            setting.ranks,
            setting.sizes,
            repetitions=setting.repetitions,
            budget_s=6.0,
            rate_Bps=None if setting.rate_mbps is None else setting.rate_mbps * BYTES_PER_S_PER_MBPS,
            seed=seed,
        )
        warnings += [f"{name}: {warning}" for warning in allreduce_warnings(timings)]
        rows += [(setting, timing) for timing in timings]
    document = {
        "source": "python -m wirebound.profile.record: gloo all-reduce of 32-bit floats over loopback",
        "time": "last rank's start to last rank's end of one repetition, a barrier before it",
        "pacing": "SO_MAX_PACING_RATE on each of gloo's TCP connections, each on its own",
        "seed": seed,
        "elapsed_s": round(time.perf_counter() - began, 1),
        "machine": machine,
        "warnings": warnings,
    }
    return rows, document


def samples_csv(rows: Iterable[tuple[Setting, CollectiveTiming]]) -> str:
    """Return the samples as CSV text, one line per repetition."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for setting, timing in rows:
        rate = "" if setting.rate_mbps is None else setting.rate_mbps
        for repetition, seconds in enumerate(timing.times_s):
            writer.writerow([setting.ranks, rate, timing.size, repetition, f"{seconds:.9f}"])
    return text.getvalue()


def describe_rows(folder: Path, table: str) -> None:
    """Bring the number of rows of `table` up to date in the folder's ``datapackage.json``, where there is one.

    The reader compares both, so that a table that was cut off is noticed.
    """
    descriptor = folder / "datapackage.json"
    if not descriptor.is_file():
        return
    package = json.loads(descriptor.read_text(encoding="utf-8"))
    with (folder / table).open(encoding="utf-8", newline="") as file:
        rows = sum(1 for _ in csv.reader(file)) - 1
    for resource in package["resources"]:
        if resource["path"] == table:
            resource["rows"] = rows
    write_text(descriptor, json.dumps(package, indent=2, ensure_ascii=False) + "\n")


def main(arguments: list[str] | None = None) -> int:
    """Record into a folder; returns the exit code."""
    parser = recording_parser("wirebound.profile.record", __doc__, out="FOLDER", what="the two files go")
    parser.add_argument("--seed", type=int, default=0, help="of the order of sizes (default 0)")
    options = parser.parse_args(arguments)
    table, record = options.out / "allreduce_samples.csv", options.out / "allreduce_samples.machine.json"

    def record_all() -> list[str]:
        require_writable(table)
        rows, document = record_allreduce(seed=options.seed, tell=tell)
        write_text(table, samples_csv(rows))
        describe_rows(options.out, table.name)
        write_json(document, record)
        return list(document["warnings"])

    return run_recording("record", record_all)


if __name__ == "__main__":
    sys.exit(main())
