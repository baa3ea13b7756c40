"""One gloo process per endpoint of a network, which carry out orders together."""

import json
import queue
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from wirebound.errors import WireboundError
from wirebound.profile.pacing import paced_congestion_control
from wirebound.profile.schema import Scalar
from wirebound.testbed.network import Network
from wirebound.testbed.scheduling import run_promptly

_START_LIMIT_S = 60.0


class GlooRanks:
    """The processes of one network. Use `gloo_ranks`."""

    def __init__(self, network: Network, folder: Path, *, prompt: bool = True) -> None:
        self.network = network
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._answers: list[queue.SimpleQueue[bytes]] = []
        for rank, endpoint in enumerate(network.endpoints):
            arguments = [str(rank), str(network.ranks), str(folder), endpoint.interface]
            process = network.start(rank, ["wirebound.testbed.worker", *arguments], log=self._log(rank))
            answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
            threading.Thread(target=_read_lines, args=(process, answers), daemon=True).start()
            self._processes.append(process)
            self._answers.append(answers)
        self._greetings = self._collect(_START_LIMIT_S)
        # Only now: until here they were busy importing.
        allowed = [prompt and run_promptly(process.pid) for process in self._processes]
        self.prompt = all(allowed)
        #: When the first of the processes began, in seconds since 1970.
        self.started_unix_s = min(float(greeting["started_unix_s"]) for greeting in self._greetings)

    def record(self) -> dict[str, Scalar]:
        """Return the network's record, with what only its processes can tell."""
        own = {key: self._greetings[0][key] for key in ("congestion_control", "gloo_threads")}
        if self.network.tier == "pacing":
            own["congestion_control"] = paced_congestion_control()
        return self.network.record() | own | {"scheduling": "real-time" if self.prompt else "usual"}

    def ask(self, order: dict[str, Any], *, time_limit_s: float = 60.0) -> list[dict[str, Any]]:
        """Have every rank carry out an order; return their answers by rank.

        Raises `WireboundError` with one line when a process fails or `time_limit_s` passes.
        """
        line = json.dumps(order).encode("utf-8") + b"\n"
        for process in self._processes:
            assert process.stdin is not None
            try:
                process.stdin.write(line)
                process.stdin.flush()
            except OSError:
                continue  # it has ended: what it said is found below
        return self._collect(time_limit_s)

    def end(self) -> None:
        """End all processes."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()

    def _collect(self, time_limit_s: float) -> list[dict[str, Any]]:
        deadline = time.monotonic() + time_limit_s
        collected = []
        for rank, answers in enumerate(self._answers):
            try:
                line = answers.get(timeout=max(deadline - time.monotonic(), 0.001))
            except queue.Empty:
                raise WireboundError(f"rank {rank} did not answer within {time_limit_s:g} s") from None
            if not line:
                raise WireboundError(f"the testbed's run stopped: {self._cause(rank)}")
            collected.append(json.loads(line))
        return collected

    def _cause(self, rank: int) -> str:
        # A killed rank makes the others fail too, with an error about their connection: name the killed one.
        time.sleep(0.3)
        codes = [process.poll() for process in self._processes]
        killed = [index for index, code in enumerate(codes) if code is not None and code < 0]
        if killed:
            return f"rank {killed[0]} was killed by signal {-(codes[killed[0]] or 0)}"
        lines = self._log(rank).read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return f"rank {rank}: {lines[-1]}" if lines else f"rank {rank} ended with code {codes[rank]}"

    def _log(self, rank: int) -> Path:
        return self._folder / f"rank-{rank}.log"


@contextmanager
def gloo_ranks(network: Network, *, prompt: bool = True) -> Iterator[GlooRanks]:
    """Start a gloo process at every endpoint of `network`; on leaving all of them are gone.

    `prompt` ones go before other work where that is allowed (see `scheduling`): not for ranks that compute. Raises
    `WireboundError` when PyTorch has no gloo, or a process fails.
    """
    folder = network.folder / f"group{time.monotonic_ns()}"
    folder.mkdir()
    ranks = None
    try:
        ranks = GlooRanks(network, folder, prompt=prompt)
        yield ranks
    finally:
        if ranks is not None:
            ranks.end()
        shutil.rmtree(folder, ignore_errors=True)


def _read_lines(process: subprocess.Popen[bytes], lines: "queue.SimpleQueue[bytes]") -> None:
    assert process.stdout is not None
    try:
        for line in process.stdout:
            lines.put(line)
    except (OSError, ValueError):
        pass  # closed when the network was taken down
    lines.put(b"")
