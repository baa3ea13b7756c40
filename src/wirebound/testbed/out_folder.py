"""The folder that a run writes to: claimed by one run, and left as it was when the run does not end well."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from wirebound.errors import InputError
from wirebound.files import require_name

#: What a run that was killed leaves behind before it has results.
_UNFINISHED = {"predictions.json"}
#: A claim is written this soon after it is made.
_WRITTEN_AFTER_S = 0.5


@contextmanager
def claimed_folder(out: Path) -> Iterator[None]:
    """Make the folder `out`, or take it if it is empty, for this run alone.

    When the run fails or is interrupted, what it wrote is removed, and the folder too where it was made here; what a
    run left that was killed is removed by the next one. Raises `InputError` for a folder that holds something, or
    where it cannot be made, and for ``-``.
    """
    require_name(out)
    if not out.name:  # the current folder, also an empty name, or the root
        raise InputError(f"{out} is there already: name a new or an empty folder")
    claim = out.with_name(f".{out.name}.running")
    try:
        if not out.parent.is_dir():
            raise InputError(f"{out}: there is no folder {out.parent}: make it first")
        if claim.exists() and not _owner_lives(claim):
            _remove_unfinished(out)
            claim.unlink(missing_ok=True)
        was_there = out.is_dir()
        if out.exists() and (not was_there or any(out.iterdir())):
            raise InputError(f"{out} is there already: name a new or an empty folder")
        with claim.open("x", encoding="utf-8") as file:
            file.write(_owner(os.getpid()))
    except FileExistsError:
        raise InputError(f"{out}: another run writes there: name another folder") from None
    except OSError as error:
        raise InputError(f"{out}: cannot be made ({error.strerror}): name another folder") from None
    try:
        yield
    except BaseException:
        for entry in out.iterdir() if out.is_dir() else ():
            entry.unlink()
        if out.is_dir() and not was_there:
            out.rmdir()
        raise
    finally:
        claim.unlink(missing_ok=True)


def _owner(pid: int) -> str:
    """Return a process's number and when it began, for numbers return."""
    return f"{pid} {psutil.Process(pid).create_time():.2f}"


def _owner_lives(claim: Path) -> bool:
    """Whether the run whose claim this is still goes on."""
    written = claim.read_text(encoding="utf-8", errors="replace")
    if not written:
        time.sleep(_WRITTEN_AFTER_S)
        written = claim.read_text(encoding="utf-8", errors="replace") if claim.exists() else ""
    with suppress(psutil.Error, ValueError, OverflowError):
        return written == _owner(int(written.partition(" ")[0]))
    return False


def _remove_unfinished(out: Path) -> None:
    if out.is_dir() and {entry.name for entry in out.iterdir()} <= _UNFINISHED:
        for entry in out.iterdir():
            entry.unlink()
