"""Names that tell whose a thing is, so that what a killed process left is found and removed by the next one."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from wirebound.testbed.detect import tool

NAMESPACES = Path("/run/netns")
_NAME = re.compile(r"wirebound-([0-9]+)-([0-9]+)-[A-Za-z0-9_]+")


def owned_name(part: str) -> str:
    """Return a name for `part` of this process's testbed: the owner's number and when it began, for numbers return."""
    return f"wirebound-{os.getpid()}-{_began(os.getpid()) or 0}-{part}"


def remove_leftovers() -> list[str]:
    """Remove the named namespaces and folders of testbeds whose owner is gone; return their names.

    Namespaces need root; what belongs to another user stays. Processes of a testbed end by themselves when their owner
    is gone, and the namespaces of users with them.
    """
    if sys.platform != "linux":
        return []
    scratch = Path(tempfile.gettempdir())
    removed = [name for name in _stale(NAMESPACES) if os.geteuid() == 0 and remove_namespace(name)]
    for name in _stale(scratch):
        shutil.rmtree(scratch / name, ignore_errors=True)
        if not (scratch / name).exists():
            removed.append(name)
    return removed


def remove_namespace(name: str) -> bool:
    """Delete one namespace by name; tell whether it is gone."""
    ip = tool("ip")
    if ip is not None and (NAMESPACES / name).exists():
        subprocess.run([ip, "netns", "delete", name], capture_output=True, stdin=subprocess.DEVNULL, check=False)
    return not (NAMESPACES / name).exists()


def _stale(folder: Path) -> list[str]:
    return [name for name in _names(folder) if (match := _NAME.fullmatch(name)) and _is_gone(match)]


def _names(folder: Path) -> Iterable[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return []


def _is_gone(match: re.Match[str]) -> bool:
    return _began(int(match[1])) != int(match[2])


def _began(pid: int) -> int | None:
    """When a process began, in ticks since the system did; None where there is no such process, or not told."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return int(text.rpartition(")")[2].split()[19])  # field 22; the program's name may hold spaces
