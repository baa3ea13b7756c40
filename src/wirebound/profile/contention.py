"""How much longer does backward take while gradients are sent? Real training processes, gloo, paced loopback.

    python -m wirebound.profile.contention --out data/recorded

writes ``contention_samples.csv`` (one row per rank and pair of steps) and ``contention_samples.machine.json``, in about
20 seconds on two cores. Each pair is a step that computes only and one that communicates, both with all processes at
work, so that what is left between them is communication. Linux only, for the pacing.
"""

import csv
import io
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wirebound.errors import InputError, WireboundError
from wirebound.files import require_writable, write_text
from wirebound.profile.collectives import require_gloo, started_workers, wait_for_workers
from wirebound.profile.disturbance import load_warnings
from wirebound.profile.machine import machine_record
from wirebound.profile.pacing import pacing_available
from wirebound.profile.record import describe_rows
from wirebound.profile.recording import recording_parser, run_recording
from wirebound.profile.schema import write_json
from wirebound.profile.spread import interquartile_range, median
from wirebound.units import BYTES_PER_S_PER_MBPS

COLUMNS = (
    "rate_mbps",
    "rank",
    "pair",
    "alone_forward_s",
    "alone_backward_s",
    "forward_s",
    "backward_s",
    "active_s",
    "sent_bytes",
    "exposed_s",
)
#: Megabits per second; at the slowest, communication lasts longer than backward.
RATES_MBPS = (1000, 500, 200, 100)
#: Alone, backward times of a quiet machine have an interquartile range below this share of their median.
_QUIET_SPREAD = 0.15


@dataclass(frozen=True, slots=True)
class ContentionSample:
    """One rank's pair of steps on links of `rate_mbps` (None: not paced); times in seconds.

    `alone_forward_s` and `alone_backward_s` are of the step that computed only, `forward_s` and `backward_s` of the one
    that communicated. `active_s` is how long communication was active during its backward, `sent_bytes` how many of the
    buckets' bytes were reduced in that time, `exposed_s` how long communication went on after it.
    """

    rate_mbps: float | None
    rank: int
    pair: int
    alone_forward_s: float
    alone_backward_s: float
    forward_s: float
    backward_s: float
    active_s: float
    sent_bytes: int
    exposed_s: float


def measure_contention(
    rates_mbps: Sequence[float | None] = RATES_MBPS,
    *,
    ranks: int = 2,
    pairs: int = 12,
    batch_size: int = 16,
    bucket_bytes: int = 256 * 1024,
    budget_s: float = 4.0,
    seed: int = 0,
    time_limit_s: float = 120.0,
) -> tuple[ContentionSample, ...]:
    """Train ResNet-20 in `ranks` processes of one thread each, in pairs of steps, at every rate; return all pairs.

    A rate of None is loopback as it is, and must come before the paced ones. After `budget_s` no new pair begins at a
    rate (never fewer than 3 are made). Raises `InputError` for wrong options, and `WireboundError` with one line when
    gloo or pacing is missing, a process dies, `time_limit_s` passes, or the ranks' weights end up different.
    """
    if ranks < 2 or pairs < 1 or batch_size < 2 or not rates_mbps:
        raise InputError("contention needs 2 ranks, 1 pair, a batch of 2 and 1 rate at least")
    if None in rates_mbps[1:]:
        raise InputError("a connection once paced stays so: give the unpaced rate first")
    if any(rate is not None and rate <= 0 for rate in rates_mbps):
        raise InputError("rates must be greater than 0")
    if rates_mbps != (None,) and not pacing_available():
        raise WireboundError(f"sockets can be paced on Linux only, not on {sys.platform}")
    require_gloo()
    with tempfile.TemporaryDirectory(prefix="wirebound-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        orders = {
            "store": str(folder / "store"),
            "ranks": ranks,
            "rates_Bps": [None if rate is None else rate * BYTES_PER_S_PER_MBPS for rate in rates_mbps],
            "pairs": pairs,
            "batch_size": batch_size,
            "bucket_bytes": bucket_bytes,
            "budget_s": budget_s,
            "seed": seed,
            "time_limit_s": time_limit_s,
        }
        (folder / "orders.json").write_text(json.dumps(orders), encoding="utf-8")
        with started_workers(folder, ranks, "wirebound.profile.contention_worker") as workers:
            wait_for_workers(workers, folder, time_limit_s, "contention")
        results = [json.loads((folder / f"rank-{rank}.json").read_text(encoding="utf-8")) for rank in range(ranks)]
    if any(not all(result["paced_connections"]) for result in results):
        raise WireboundError("no connection of the training processes could be paced")
    if len({result["weights"] for result in results}) > 1:
        raise WireboundError("the ranks' weights differ after training: an all-reduce went wrong")
    return tuple(_sample(rank, item) for rank, result in enumerate(results) for item in result["samples"])


def _sample(rank: int, item: dict[str, Any]) -> ContentionSample:
    alone, under, rate = item["alone"], item["under"], item["rate_Bps"]
    return ContentionSample(
        rate_mbps=None if rate is None else rate / BYTES_PER_S_PER_MBPS,
        rank=rank,
        pair=item["pair"],
        alone_forward_s=round(alone["forward_s"], 9),
        alone_backward_s=round(alone["backward_s"], 9),
        forward_s=round(under["forward_s"], 9),
        backward_s=round(under["backward_s"], 9),
        active_s=round(under["active_s"], 9),
        sent_bytes=round(under["sent_bytes"]),
        exposed_s=round(under["exposed_s"], 9),
    )


def contention_warnings(samples: Sequence[ContentionSample]) -> list[str]:
    """Return a warning where steps that computed only vary widely: other work was running."""
    times = [sample.alone_backward_s for sample in samples]
    spread = interquartile_range(times) / median(times)
    if spread <= _QUIET_SPREAD:
        return []
    return [
        f"contention: backward alone spreads by {spread:.0%} of the median (limit {_QUIET_SPREAD:.0%}): the machine was"
        " not quiet"
    ]


def samples_csv(samples: Sequence[ContentionSample]) -> str:
    """Return the samples as CSV text, sorted by rate, rank and pair."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for one in sorted(samples, key=lambda s: (s.rate_mbps is not None, s.rate_mbps or 0.0, s.rank, s.pair)):
        cells = (getattr(one, name) for name in COLUMNS[1:])
        rate = "" if one.rate_mbps is None else f"{one.rate_mbps:g}"
        writer.writerow([rate, *(f"{cell:.9f}" if isinstance(cell, float) else cell for cell in cells)])
    return text.getvalue()


def main(arguments: list[str] | None = None) -> int:
    """Record into a folder; returns the exit code."""
    parser = recording_parser("wirebound.profile.contention", __doc__, out="FOLDER", what="the two files go")
    parser.add_argument("--seed", type=int, default=0, help="of the weights and the images (default 0)")
    options = parser.parse_args(arguments)
    table, record = options.out / "contention_samples.csv", options.out / "contention_samples.machine.json"

    def record_all() -> list[str]:
        require_writable(table)
        machine, began = machine_record(), time.perf_counter()
        samples = measure_contention(seed=options.seed)
        document = {
            "source": "python -m wirebound.profile.contention: ResNet-20, batch 16, in 2 processes of one thread each",
            "pairs": "a step that computes only and one that all-reduces buckets of 256 KiB as they fill, in turns",
            "pacing": "SO_MAX_PACING_RATE on each of gloo's TCP connections, each on its own",
            "seed": options.seed,
            "elapsed_s": round(time.perf_counter() - began, 1),
            "machine": machine | {"torch_threads": 1},
            "warnings": [*load_warnings(machine), *contention_warnings(samples)],
        }
        write_text(table, samples_csv(samples))
        describe_rows(options.out, table.name)
        write_json(document, record)
        return list(document["warnings"])

    return run_recording("contention", record_all)


if __name__ == "__main__":
    sys.exit(main())
