"""Write a file whole or not at all; read JSON that people may have edited."""

import json
import os
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from wirebound.errors import InputError, WireboundError

#: Here a path names an open stream of this process, also where that leads to a file: it is written to, never replaced.
_STREAM_FOLDERS = ("/dev", "/dev/fd", "/proc/self/fd")


def require_other_file(flag: str, out: Path, inputs: Iterable[Path | None]) -> None:
    """Raise `InputError` where the file `out`, given with `flag`, is one that is read, also by another name."""
    for file in inputs:
        if file is not None and out.exists() and file.exists() and out.samefile(file):
            raise InputError(f"{flag} {out} is the file that is read: choose another")


def require_name(path: Path) -> None:
    """Raise `InputError` for ``-``, by which other programs mean standard output: it would name a file or folder."""
    if str(path) == "-":
        raise InputError("'-' does not stand for standard output: give a name; where there is --json, it prints there")


def require_input_name(path: Path) -> None:
    """Raise `InputError` for an empty name, and for ``-``, by which other programs mean standard input.

    A file of that name is read all the same.
    """
    _require_some_name(path)
    if str(path) == "-" and not path.exists():
        raise InputError("'-' does not stand for standard input: name a file")


def _require_some_name(path: Path, what_for: str = "") -> None:
    # An empty path is the current folder to pathlib, so the two cannot be told apart here.
    if str(path) == ".":
        raise InputError(f"the name is empty, or '.', which is a folder: name a file{what_for}")


def require_writable(path: Path) -> Path:
    """Return the file that writing to `path` would change: where a link leads to, else `path` itself.

    Worth asking before a long measurement. Raises `InputError`, in one line that names `path`, when it is ``-`` or a
    folder, its folder does not exist or cannot be written to, or the file that is there is write-protected.
    """
    require_name(path)
    _require_some_name(path, " to write")
    if os.path.isdir(path):
        raise InputError(f"{path} is a folder: name a file to write")
    if _is_stream(path):
        return path
    target = Path(os.path.realpath(path)) if os.path.islink(path) else path
    if os.path.islink(target):
        raise InputError(f"{path} is a link that leads to itself: choose another")
    above = next((folder for folder in target.parents if os.path.exists(folder)), target.parent)
    if os.path.exists(above) and not os.path.isdir(above):
        raise InputError(f"{path}: {above} is a file, not a folder: choose another")
    if not os.path.isdir(target.parent):
        raise InputError(f"{path}: its folder {target.parent} does not exist: create it first")
    if os.path.exists(target) and not os.access(target, os.W_OK):
        raise InputError(f"{path} is write-protected: make it writable, or choose another")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise InputError(f"{path}: its folder {target.parent} cannot be written to: choose another")
    return target


def write_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8 with ``\\n`` line ends; an older file is replaced only once the new one is whole.

    The new file has the older one's mode. A link stays one: the file that it leads to is replaced. A pipe or a device
    is written to. Raises `InputError` as `require_writable` does, and for text that UTF-8 does not have (half of a
    surrogate pair); `WireboundError` when writing fails, as on a full disk.
    """
    target = require_writable(path)
    try:
        content = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"{path}: cannot be written: character {error.object[error.start]!r} is no text") from None
    try:
        if _is_stream(path):
            path.write_bytes(content)
        else:
            _replace(target, content)
    except BrokenPipeError:  # whoever reads the pipe has seen enough
        raise
    except OSError as error:
        raise WireboundError(f"{path} could not be written: {error.strerror}; what was there is unchanged") from None


def _is_stream(path: Path) -> bool:
    """Whether `path` is there and is no regular file, or stands for an open stream."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) or str(path.parent) in _STREAM_FOLDERS


def _replace(target: Path, content: bytes) -> None:
    mode = stat.S_IMODE(target.stat().st_mode) if os.path.exists(target) else 0o644
    # The start of the name only, for a long name with an ending would be too long.
    handle, temporary = tempfile.mkstemp(prefix=f".{target.name[:40]}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        # mkstemp makes files that only their owner can read.
        Path(temporary).chmod(mode)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_json(path: Path, document: Any) -> None:
    """Write a JSON document like `write_text`; raises `ValueError` for numbers that JSON does not have."""
    write_text(path, json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def parse_json(text: str, where: str) -> Any:
    """Return what JSON text says; raises `InputError`, which begins with `where`, for a field that stands twice.

    Python would keep the last of them without a word. Raises `ValueError` or `RecursionError` as `json.loads` does.
    """

    def fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(f"{where}: the field {twice!r:.60} stands twice in one object: keep one of them")
        return found

    return json.loads(text, object_pairs_hook=fields)
