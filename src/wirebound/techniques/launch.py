"""Start the processes of a distributed run on this machine, wait for them, and leave none behind."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import wirebound
from wirebound.errors import WireboundError


@dataclass(frozen=True, slots=True)
class Started:
    """One process: what it is called in messages, the process, the file with its standard error."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def cause(self) -> str:
        """Say in one line why it ended."""
        code = self.process.poll() or 0
        if code < 0:
            return f"{self.name} was killed by signal {-code}"
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return f"{self.name}: {lines[-1]}" if lines else f"{self.name} ended with code {code}"


@contextmanager
def started_processes(
    commands: Mapping[str, Sequence[str]],
    folder: Path,
    environment: Mapping[str, str] | None = None,
    *,
    threads: int = 1,
) -> Iterator[list[Started]]:
    """Start one process for each command, by name; on leaving, however, all of them are gone.

    Standard errors go to ``NAME.log`` in `folder`. The processes get a pipe as standard input, which closes when this
    process dies: `worker.end_with_parent` ends them then. gloo talks over loopback unless `environment` names another
    interface (GLOO_SOCKET_IFNAME). Each thread of a process computes with `threads` threads of its own at most.
    """
    loopback = {"linux": "lo", "darwin": "lo0"}.get(sys.platform)
    variables = os.environ | ({"GLOO_SOCKET_IFNAME": loopback} if loopback else {}) | dict(environment or {})
    # torch.set_num_threads is for the thread that calls it, and gloo's threads run callbacks: another number of threads
    # there adds in another order, and workers would differ in the last bit.
    variables["OMP_NUM_THREADS"] = str(threads)
    package_root = str(Path(wirebound.__file__).parents[1])
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, [package_root, variables.get("PYTHONPATH")]))
    started: list[Started] = []
    try:
        for name, command in commands.items():
            log = folder / f"{name.replace(' ', '-')}.log"
            with log.open("wb") as stream:
                process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=stream, env=variables
                )
            started.append(Started(name, process, log))
        yield started
    finally:
        for one in started:
            one.process.kill()
        for one in started:
            one.process.wait()
            with contextlib.suppress(OSError):
                if one.process.stdin is not None:
                    one.process.stdin.close()


def wait_for(started: Sequence[Started], time_limit_s: float) -> None:
    """Return when all processes have ended well.

    Raises `WireboundError` with one line as soon as one has not, or when `time_limit_s` seconds have passed.
    """
    deadline = time.monotonic() + time_limit_s
    while True:
        failed = [one for one in started if one.process.poll()]
        if failed:
            # A process that dies makes the others fail too, with an error about their connection: name the dead one.
            time.sleep(0.2)
            killed = [one for one in started if (one.process.poll() or 0) < 0]
            raise WireboundError(f"the distributed run stopped: {(killed or failed)[0].cause()}")
        if all(one.process.poll() == 0 for one in started):
            return
        if time.monotonic() > deadline:
            raise WireboundError(f"the distributed run did not end within {time_limit_s:g} s and was stopped")
        time.sleep(0.02)
