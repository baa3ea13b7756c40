"""A published run ``runs/NAME``: swapped in whole, and put back by the next reader if the swap was interrupted."""

import ctypes
import errno
import os
import shutil
import sys
from pathlib import Path

from wirebound.errors import InputError, WireboundError
from wirebound.study.fingerprint import digest_file
from wirebound.study.inputs import check_run_name, read_json, work_folder
from wirebound.study.project import Project

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


class RunLock:
    """One run of a name at a time: a lock that ends with its process. `wait_s` seconds are spent waiting for it."""

    def __init__(self, project: Project, name: str, wait_s: float = 0.0) -> None:
        from filelock import FileLock

        folder = work_folder(project, name)
        folder.mkdir(parents=True, exist_ok=True)
        self._name = name
        self._lock = FileLock(folder / "lock", timeout=wait_s)

    def __enter__(self) -> None:
        from filelock import Timeout

        try:
            self._lock.acquire()
        except Timeout:
            raise WireboundError(
                f"run {self._name!r} is being executed by another process: wait for it, or give another --name"
            ) from None

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def swap_folder(project: Project, name: str) -> Path:
    """Return where a run is prepared (``new``) and its predecessor set aside (``old``)."""
    return work_folder(project, name) / ".publish"


def publish(project: Project, name: str, prepared: Path) -> Path:
    """Make the folder `prepared`, which must be `swap_folder`'s ``new``, the run `name`; return its place.

    At every moment there is a whole run: the two are exchanged in one step where the system can, else the old one is
    renamed away first and `recover` puts it back. The caller holds the run's lock.
    """
    target = project.runs / name
    old = swap_folder(project, name) / "old"
    if not target.exists():
        os.rename(prepared, target)
    elif exchange(prepared, target):
        shutil.rmtree(prepared, ignore_errors=True)  # what lies there now is the predecessor
    else:
        os.rename(target, old)
        os.rename(prepared, target)
        shutil.rmtree(old, ignore_errors=True)
    return target


def exchange(first: Path, second: Path) -> bool:
    """Exchange two folders in one step; False where the system or the file system cannot."""
    if sys.platform != "linux":
        return False
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    code = rename(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), ctypes.c_uint(_RENAME_EXCHANGE))
    if code != 0 and ctypes.get_errno() not in (errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.EOPNOTSUPP):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(second))
    return bool(code == 0)


def recover(project: Project, name: str) -> None:
    """Finish or undo a swap that was interrupted. The caller holds the run's lock."""
    target = project.runs / name
    old = swap_folder(project, name) / "old"
    if old.is_dir() and not target.exists():
        os.rename(old, target)
    shutil.rmtree(swap_folder(project, name), ignore_errors=True)


def check_intact(folder: Path) -> None:
    """Raise `InputError` unless a published run has the files of its manifest, unchanged."""
    manifest = read_json(folder / "manifest.json")
    files = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(files, dict):
        raise InputError(f"run {folder.name!r}: manifest.json is damaged: execute the run again")
    for name, digest in files.items():
        path = folder / name
        if not path.is_file() or digest_file(path) != digest:
            raise InputError(f"run {folder.name!r}: {name} is missing or was changed: execute the run again")


def published_run(project: Project, name: str) -> Path:
    """Return the folder of the last good run `name`, which no one rewrites in place.

    Puts it back first if a swap was interrupted. Raises `InputError` when there is no such run.
    """
    target = project.runs / check_run_name(name)
    if not target.is_dir() and (swap_folder(project, name) / "old").is_dir():
        with RunLock(project, name, wait_s=30):
            recover(project, name)
    if not (target / "manifest.json").is_file():
        there = sorted(path.parent.name for path in project.runs.glob("[!.]*/manifest.json"))
        known = f"there are {', '.join(there)}" if there else "there is none yet"
        option = " --full" if name == "full" else "" if name == "quick" else f" --name {name}"
        raise InputError(f"no run {name!r} ({known}): execute `wirebound run{option}` first")
    return target
