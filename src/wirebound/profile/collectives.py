"""How long does an all-reduce take on this machine, over the size of the buffer? Real processes, gloo, loopback."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import wirebound
from wirebound.errors import InputError, WireboundError
from wirebound.profile.disturbance import SPREAD_LIMIT
from wirebound.profile.fields import Fields
from wirebound.profile.observations import CounterSeries, read_series
from wirebound.profile.schema import CollectiveTiming
from wirebound.profile.spread import interquartile_range, median

#: 1 KiB to 16 MiB, each size twice the one before.
DEFAULT_SIZES = tuple(2**power for power in range(10, 25))
#: gloo's default all-reduce is a ring: reduce-scatter, then all-gather.
COLLECTIVE = "ring-allreduce"
#: Small messages wait for the scheduler now and then, so their spread says little about the machine's quiet.
_SPREAD_MATTERS_FROM = 2**18

Progress = Callable[[float], None]


def measure_allreduce(
    ranks: int = 2,
    sizes: Sequence[int] = DEFAULT_SIZES,
    *,
    repetitions: int = 50,
    budget_s: float = 10.0,
    rate_Bps: float | None = None,
    seed: int = 0,
    time_limit_s: float = 60.0,
) -> tuple[CollectiveTiming, ...]:
    """Time all-reduces among local processes, as `measure_allreduce_counters` does, without the counters."""
    return measure_allreduce_counters(
        ranks,
        sizes,
        repetitions=repetitions,
        budget_s=budget_s,
        rate_Bps=rate_Bps,
        seed=seed,
        time_limit_s=time_limit_s,
    )[0]


def measure_allreduce_counters(
    ranks: int = 2,
    sizes: Sequence[int] = DEFAULT_SIZES,
    *,
    repetitions: int = 50,
    budget_s: float = 10.0,
    rate_Bps: float | None = None,
    counters_s: float | None = None,
    seed: int = 0,
    time_limit_s: float = 60.0,
) -> tuple[tuple[CollectiveTiming, ...], tuple[CounterSeries, ...]]:
    """Time all-reduces of `sizes` bytes (multiples of 4) among `ranks` processes on loopback; one timing per size.

    Every repetition runs all sizes in a new random order (`seed`), a barrier before each. A repetition's time runs from
    the *last* rank's start to the *last* rank's end, in seconds: the ranks share one clock, and the wait for a late
    rank is not the network's. After `budget_s` no new repetition begins (never fewer than 3 are made). `rate_Bps` paces
    every connection (Linux only). No privileges are needed: the ranks meet in a file, and gloo chooses free ports.
    With `counters_s`, all-reduces of the largest size follow while every rank reads its counters that often in
    seconds: the second result has a series for each rank, and is empty without.

    Raises `WireboundError` with one line when gloo is missing, a process dies or `time_limit_s` passes; no process is
    left behind.
    """
    if ranks < 2:
        raise InputError(f"ranks = {ranks} must be at least 2")
    if repetitions < 1:
        raise InputError(f"repetitions = {repetitions} must be at least 1")
    wrong = [size for size in sizes if size < 4 or size % 4]
    if wrong or not sizes:
        raise InputError(f"size {wrong[0] if wrong else 'list'} must be a multiple of 4 bytes (32-bit numbers)")
    require_gloo()
    with tempfile.TemporaryDirectory(prefix="wirebound-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        orders = {
            "store": str(folder / "store"),
            "ranks": ranks,
            "sizes": list(sizes),
            "repetitions": repetitions,
            "budget_s": budget_s,
            "rate_Bps": rate_Bps,
            "counters_s": counters_s,
            "seed": seed,
            "time_limit_s": time_limit_s,
        }
        (folder / "orders.json").write_text(json.dumps(orders), encoding="utf-8")
        with started_workers(folder, ranks) as workers:
            wait_for_workers(workers, folder, time_limit_s)
        results = [json.loads((folder / f"rank-{rank}.json").read_text(encoding="utf-8")) for rank in range(ranks)]
    if rate_Bps is not None and not all(result["paced_connections"] for result in results):
        raise WireboundError("no connection of the all-reduce could be paced")
    timings = tuple(_timing(size, [result["times"][str(size)] for result in results], rate_Bps) for size in sizes)
    found = [result["counters"] for result in results if result["counters"] is not None]
    return timings, tuple(read_series(Fields(item, "counters of the all-reduces")) for item in found)


def allreduce_warnings(timings: Sequence[CollectiveTiming]) -> list[str]:
    """Return a warning when the times of large messages spread widely: the processes waited for cores."""
    wide = [t for t in timings if t.size >= _SPREAD_MATTERS_FROM and (t.spread_s or 0.0) > SPREAD_LIMIT * t.median_s]
    if not wide:
        return []
    worst = max(wide, key=lambda t: (t.spread_s or 0.0) / t.median_s)
    share = (worst.spread_s or 0.0) / worst.median_s
    return [
        f"all-reduce: times of {len(wide)} size(s) from {_SPREAD_MATTERS_FROM} bytes spread by up to {share:.0%} of the"
        f" median (limit {SPREAD_LIMIT:.0%}): the processes had to share cores, with each other or with other work"
    ]


def _timing(size: int, readings: list[list[tuple[float, float]]], rate_Bps: float | None) -> CollectiveTiming:
    times = tuple(
        max(end for _, end in repetition) - max(start for start, _ in repetition)
        for repetition in zip(*readings, strict=True)
    )
    return CollectiveTiming(
        collective=COLLECTIVE,
        ranks=len(readings),
        size=size,
        median_s=round(median(times), 9),
        spread_s=round(interquartile_range(times), 9),
        times_s=tuple(round(time, 9) for time in times),
        backend="gloo",
        rate_Bps=rate_Bps,
    )


def require_gloo() -> None:
    """Raise `WireboundError` with the remedy where PyTorch or its gloo backend is missing."""
    try:
        import torch.distributed as dist
    except ImportError:
        raise WireboundError("the collective probe needs PyTorch: pip install 'wirebound[study]'") from None
    if not (dist.is_available() and dist.is_gloo_available()):
        raise WireboundError("this PyTorch has no gloo backend: install a PyTorch build with distributed support")


@contextmanager
def started_workers(
    folder: Path, ranks: int, module: str = "wirebound.profile.allreduce_worker"
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Start one process of `module` per rank on the orders in `folder`; on leaving, however, all of them are gone."""
    environment = dict(os.environ)
    package_root = str(Path(wirebound.__file__).parents[1])
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [package_root, environment.get("PYTHONPATH")]))
    loopback = {"linux": "lo", "darwin": "lo0"}.get(sys.platform)
    if loopback is not None:
        environment["GLOO_SOCKET_IFNAME"] = loopback
    workers: list[subprocess.Popen[bytes]] = []
    try:
        for rank in range(ranks):
            with (folder / f"rank-{rank}.log").open("wb") as log:
                command = [sys.executable, "-m", module]
                workers.append(
                    subprocess.Popen(
                        [*command, str(folder / "orders.json"), str(rank)],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.DEVNULL,
                        stderr=log,
                        env=environment,
                    )
                )
        yield workers
    finally:
        for worker in workers:
            worker.kill()
        for worker in workers:
            worker.wait()
            with contextlib.suppress(OSError):
                if worker.stdin is not None:
                    worker.stdin.close()


def wait_for_workers(
    workers: list[subprocess.Popen[bytes]], folder: Path, time_limit_s: float, what: str = "all-reduce"
) -> None:
    """Wait until all workers have ended well; raises `WireboundError` with one line where one fails or time is up."""
    deadline = time.monotonic() + time_limit_s
    while True:
        codes = [worker.poll() for worker in workers]
        failed = [rank for rank, code in enumerate(codes) if code]
        if failed:
            # A killed rank makes the others fail too, with an error about their connection: name the killed one.
            time.sleep(0.2)
            codes = [worker.poll() for worker in workers]
            rank = next((rank for rank in failed if (codes[rank] or 0) < 0), failed[0])
            raise WireboundError(f"the {what} measurement stopped: {_cause(rank, codes[rank] or 0, folder)}")
        if all(code == 0 for code in codes):
            return
        if time.monotonic() > deadline:
            raise WireboundError(f"the {what} measurement did not end within {time_limit_s:g} s and was stopped")
        time.sleep(0.05)


def _cause(rank: int, code: int, folder: Path) -> str:
    if code < 0:
        return f"rank {rank} was killed by signal {-code}"
    lines = (folder / f"rank-{rank}.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f"rank {rank}: {lines[-1]}" if lines else f"rank {rank} ended with code {code}"
