"""The folder that a run writes to: claimed by one run, and left as it was when the run does not end well."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wirebound.errors import InputError
from wirebound.files import require_name


@contextmanager
def claimed_folder(out: Path) -> Iterator[None]:
    """Make the folder `out`, or take it if it is empty, for this run alone.

    When the run fails or is interrupted, what it wrote is removed, and the folder too where it was made here. Raises
    `InputError` for a folder that holds something, or where it cannot be made, and for ``-``.
    """
    require_name(out)
    was_there = out.is_dir()
    if out.exists() and (not was_there or any(out.iterdir())):
        raise InputError(f"{out} is there already: name a new or an empty folder")
    if not out.parent.is_dir():
        raise InputError(f"{out}: there is no folder {out.parent}: make it first")
    claim = out.with_name(f".{out.name}.running")
    try:
        claim.touch(exist_ok=False)
    except FileExistsError:
        raise InputError(f"{out}: another run writes there; if none does, remove {claim}") from None
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
