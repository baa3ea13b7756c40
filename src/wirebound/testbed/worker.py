"""One rank of the testbed: `python -m wirebound.testbed.worker RANK RANKS FOLDER INTERFACE`.

Started by `wirebound.testbed.ranks`. It carries out one order after another, each a line of JSON on standard input, and
answers each with a line of JSON. It ends at once when its standard input closes, so that it never outlives whoever
started it.
"""

import json
import os
import queue
import random
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

#: One thread: collectives run strictly in the order in which they are called, one at a time.
GLOO_THREADS = 1
_LONGEST_S = 120.0

Order = dict[str, Any]


def gloo_group(rank: int, ranks: int, folder: Path, interface: str) -> Any:
    """Return a gloo process group whose ranks meet in a file of `folder`."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    gloo: Any = dist.ProcessGroupGloo
    options = gloo._Options()
    options._devices = [gloo.create_device(interface=interface) if interface else gloo.create_default_device()]
    options._threads = GLOO_THREADS
    options._timeout = timedelta(seconds=_LONGEST_S)
    store: Any = dist.FileStore(str(folder / "store"), ranks)  # type: ignore[attr-defined]
    return gloo(store, rank, ranks, options)


def pace(order: Order) -> int:
    """Pace this process's connections as the order asks; return their number."""
    if order.get("pace_Bps") is None:
        return 0
    from wirebound.profile.pacing import pace_connections

    return pace_connections(order["pace_Bps"])


def time_allreduces(group: Any, rank: int, order: Order) -> Order:
    """Time all-reduces of `sizes` bytes, `repetitions` rounds in random order, each after a barrier.

    `in_a_row` says for some sizes how many are timed together; ``busy_s`` are the seconds that this process computed.
    """
    import torch

    buffers = {size: torch.ones(size // 4) for size in order["sizes"]}
    ranks = group.size()
    for buffer in buffers.values():
        buffer[:8].fill_(rank + 1)
        buffer[8:].zero_()
    check = buffers[order["sizes"][0]]
    group.allreduce([check]).wait()  # opens the connections too, before they are paced
    if not bool((check[:8] == ranks * (ranks + 1) / 2).all()):
        raise ValueError("an all-reduce did not give the sum of the ranks' values")
    for buffer in buffers.values():
        buffer.zero_()  # zeros stay zeros: no sum overflows, no denormals slow an addition down
    paced = pace(order)
    shuffle, sizes = random.Random(order["seed"]), order["sizes"]
    times: dict[int, list[tuple[float, float]]] = {size: [] for size in sizes}
    busy: dict[int, list[float]] = {size: [] for size in sizes}
    began, stop = time.perf_counter(), torch.zeros(1)
    for repetition in range(order["repetitions"]):
        # Rank 0 decides for all whether there is time for another round.
        stop.fill_(rank == 0 and repetition > 0 and time.perf_counter() - began > order["budget_s"])
        group.allreduce([stop]).wait()
        if stop.item():
            break
        for size in shuffle.sample(sizes, len(sizes)):
            group.barrier().wait()
            start, computed = time.perf_counter(), time.process_time()
            for _ in range(order.get("in_a_row", {}).get(str(size), 1)):
                group.allreduce([buffers[size]]).wait()
            times[size].append((start, time.perf_counter()))
            busy[size].append(time.process_time() - computed)
    return {"paced_connections": paced, "times": times, "busy_s": busy}


def _obey(group: Any, rank: int, order: Order) -> Order:
    if order["do"] == "allreduce":
        return time_allreduces(group, rank, order)
    if order["do"] == "replay":
        from wirebound.testbed.replay import replay

        return replay(group, rank, order, pace)
    if order["do"] in ("prepare", "train", "profile", "serve"):
        from wirebound.testbed.training_worker import obey

        return obey(group, rank, order, pace)
    raise ValueError(f"unknown order {order['do']!r}")


def _read_orders(orders: "queue.SimpleQueue[bytes]") -> None:
    # Not through sys.stdin, whose lock would be held when the interpreter shuts down.
    held = b""
    while received := os.read(0, 65536):
        *lines, held = (held + received).split(b"\n")
        for line in lines:
            orders.put(line)
    os._exit(3)


def main(arguments: list[str]) -> int:
    """Run one rank until its standard input closes; returns the exit code when something fails."""
    started = time.time()
    orders: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read_orders, args=(orders,), daemon=True).start()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # gloo writes to standard output itself
    rank, ranks, folder, interface = int(arguments[0]), int(arguments[1]), Path(arguments[2]), arguments[3]

    def answer(document: Order) -> None:
        print(json.dumps(document), file=answers, flush=True)

    try:
        group = gloo_group(rank, ranks, folder, interface)
        group.barrier().wait()
        answer({"started_unix_s": started, "congestion_control": _congestion_control(), "gloo_threads": GLOO_THREADS})
        while True:
            answer(_obey(group, rank, json.loads(orders.get())))
    except Exception as error:
        print(f"{type(error).__name__}: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
        # Without the interpreter's shutdown, which would wait for gloo's threads.
        os._exit(1)


def _congestion_control() -> str | None:
    try:
        return Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text(encoding="ascii").strip()
    except OSError:
        return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
