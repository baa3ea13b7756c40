"""Measure how forward and backward grow with the batch on this machine, in time of the processor.

    python -m wirebound.study.record_batches --out BATCHES.json [--batches 1,2,4,8,16,32,64]

Trains ResNet-20 in one thread, some seconds in all. A step's time is what its thread computed, so that waiting for a
core does not count; every round runs all batches in a new random order. `load_batches` reads the file for
`wirebound.fit.batches.fit_batch_scaling`.
"""

import json
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wirebound.errors import InputError
from wirebound.files import require_writable, write_json
from wirebound.profile.recording import recording_parser, run_recording
from wirebound.profile.schema import BatchTiming

BATCHES = (1, 2, 4, 8, 16, 32, 64)
_SCHEMA = "wirebound-batches"


def record_batches(
    batches: Sequence[int] = BATCHES, *, rounds: int = 9, warmup: int = 2, seed: int = 0
) -> dict[str, Any]:
    """Return the document of `rounds` steps at each batch size; raises `InputError` for a batch or rounds below 1."""
    if not batches or min(batches) < 1 or rounds < 1:
        raise InputError("give batch sizes and rounds of 1 at least")
    import torch
    from torch.nn import functional

    from wirebound.profile.disturbance import load_warnings
    from wirebound.profile.machine import machine_record
    from wirebound.profile.models import ResNet20

    machine = machine_record()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model, images = ResNet20(), torch.randn(max(batches), 3, 32, 32)
            labels = torch.randint(0, 10, (max(batches),))
        sizes, shuffle = sorted(set(batches)), random.Random(seed)
        times: dict[int, list[tuple[float, float]]] = {size: [] for size in sizes}
        for turn in range(-warmup, rounds):
            for size in shuffle.sample(sizes, len(sizes)):
                model.zero_grad(set_to_none=True)
                began = time.thread_time()
                loss = functional.cross_entropy(model(images[:size]), labels[:size])
                turned = time.thread_time()
                loss.backward()  # type: ignore[no-untyped-call]
                if turn >= 0:
                    times[size].append((turned - began, time.thread_time() - turned))
    finally:
        torch.set_num_threads(threads)
    return {
        "schema": _SCHEMA,
        "version": 1,
        "source": "python -m wirebound.study.record_batches: ResNet-20 on random 32×32 images, time of one thread",
        "seed": seed,
        "machine": machine | {"torch_threads": 1},
        "warnings": load_warnings(machine),
        "batches": [
            {
                "batch_size": size,
                "forward_s": [round(forward_s, 9) for forward_s, _ in steps],
                "backward_s": [round(backward_s, 9) for _, backward_s in steps],
            }
            for size, steps in times.items()
        ],
    }


def load_batches(path: Path) -> tuple[BatchTiming, ...]:
    """Return the recorded steps of each batch size; raises `InputError` for a file that is none of these."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["schema"] != _SCHEMA:
            raise InputError(f"{path}: is no recording of batches")
        return tuple(
            BatchTiming(int(one["batch_size"]), tuple(one["forward_s"]), tuple(one["backward_s"]))
            for one in document["batches"]
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: is no recording of batches: make one with {__name__}") from error


def main(arguments: list[str] | None = None) -> int:
    """Record into a file; returns the exit code."""
    parser = recording_parser("wirebound.study.record_batches", __doc__, out="BATCHES.json", what="the times go")
    parser.add_argument("--batches", default=",".join(map(str, BATCHES)), help="batch sizes, commas between")
    parser.add_argument("--rounds", type=int, default=9, help="steps of each size (default 9)")
    options = parser.parse_args(arguments)

    def record_all() -> list[str]:
        require_writable(options.out)
        try:
            batches = [int(text) for text in options.batches.split(",")]
        except ValueError:
            raise InputError(f"--batches {options.batches!r} must be whole numbers with commas between") from None
        document = record_batches(batches, rounds=options.rounds)
        write_json(options.out, document)
        return list(document["warnings"])

    return run_recording("record", record_all)


if __name__ == "__main__":
    sys.exit(main())
