"""One process of a distributed run: `python -m wirebound.techniques.worker ORDERS.json RANK`.

Started by `training.run_job`. Writes its result to ``rank-RANK.json`` beside its orders.
"""

import json
import os
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path

from wirebound.errors import WireboundError


def end_with_parent() -> None:
    """End this process at once when its standard input closes: it never outlives whoever started it."""

    def watch() -> None:
        # Not through sys.stdin, whose lock would be held when the interpreter shuts down.
        while os.read(0, 1):
            pass
        os._exit(3)

    threading.Thread(target=watch, daemon=True).start()


def run_guarded(body: Callable[[], None]) -> int:
    """Run `body` and return 0; end the process with code 1 and one line on standard error when it fails.

    It ends at once: threads that wait inside the communication library would hold up an orderly end, and the others
    notice by the closed connections.
    """
    try:
        body()
    except BaseException as error:
        if not isinstance(error, WireboundError | KeyboardInterrupt):
            traceback.print_exc()
        print(f"{type(error).__name__}: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
        os._exit(1)
    return 0


def main(arguments: list[str]) -> int:
    """Run one rank; returns the exit code."""
    end_with_parent()
    orders_file, rank = Path(arguments[0]), int(arguments[1])

    def body() -> None:
        from torch.distributed import FileStore  # type: ignore[attr-defined]

        from wirebound.techniques.job import Job
        from wirebound.techniques.process_group import Meeting
        from wirebound.techniques.training import run_rank

        job = Job(**json.loads(orders_file.read_text(encoding="utf-8")))
        ranks = job.workers + job.servers
        store = FileStore(str(orders_file.parent / "store"), ranks)
        meeting = Meeting(store, rank, job.workers, job.servers, backend=job.backend, timeout_s=job.timeout_s)
        result = json.dumps(run_rank(job, meeting))
        (orders_file.parent / f"rank-{rank}.json").write_text(result, encoding="utf-8")

    return run_guarded(body)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
