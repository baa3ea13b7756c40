"""What goes wrong in the code that a user handed over is said in one line that names their error and its place."""

import contextlib
import re
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path

from wirebound.errors import InputError, WireboundError

#: Messages such as those of running out of memory go on for long.
_LONGEST_MESSAGE = 240
#: Where nothing is the user's own: this package, Python's own modules, and whatever is installed.
_PACKAGE = Path(__file__).parents[1]
_STANDARD_LIBRARY = [Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")]
_INSTALLED = {"site-packages", "dist-packages"}
#: PyTorch hands an error of another process over as the text of its traceback, in the message of a new one.
_CARRIED = re.compile(r"Caught \w+ .*?\.\nOriginal Traceback \(most recent call last\):\n", re.DOTALL)
_FRAME = re.compile(r'^ +File "(.+)", line (\d+)', re.MULTILINE)


@contextlib.contextmanager
def user_code(what: str) -> Iterator[None]:
    """Turn what the block raises into an `InputError`: `what` raised which error, and in which line of which file."""
    try:
        yield
    except WireboundError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"{what} raised {described(error)}") from error


def described(error: BaseException) -> str:
    """Return an error's type and message in one line, and the line of the user's own file that it came from.

    Of an error in a process that loads data it is that process's own error, and where it was raised there.
    """
    kind, text, place = _carried(str(error)) or (type(error).__name__, str(error), _place(error))
    message = " ".join(text.split())
    if len(message) > _LONGEST_MESSAGE:
        message = message[:_LONGEST_MESSAGE] + "…"
    return f"{kind}{': ' if message else ''}{message}{f' ({place})' if place else ''}"


def _carried(text: str) -> tuple[str, str, str] | None:
    """The type, message and place of an error whose traceback is in a message; None where there is none."""
    if not _CARRIED.match(text):
        return None
    last = text.rpartition("Traceback (most recent call last):\n")[2]  # of errors that led to each other the last
    told = re.search(r"^(\S+?)(?:: |$)(.*)", last, re.MULTILINE | re.DOTALL)
    if told is None:
        return None
    frames = _FRAME.findall(last[: told.start()])
    return told[1].rpartition(".")[2], told[2], _innermost((name, int(line)) for name, line in frames)


def _place(error: BaseException) -> str:
    """Where the error was raised, as file name and line; empty where no file of the user is in it."""
    if isinstance(error, SyntaxError) and error.filename:
        return ""  # its message has it
    return _innermost((frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__))


def _innermost(frames: Iterable[tuple[str, int | None]]) -> str:
    """The last frame in a file of the user's own, as file name and line; empty where there is none.

    Only the file's name is told: a profile or a log should not have the folders of whoever made it.
    """
    own = [f"{Path(name).name}, line {line}" for name, line in frames if _is_users(name)]
    return own[-1] if own else ""


def _is_users(filename: str) -> bool:
    path = Path(filename)
    if filename.startswith("<") or _INSTALLED & set(path.parts):
        return False
    return not any(path.is_relative_to(folder) for folder in (_PACKAGE, *_STANDARD_LIBRARY))
