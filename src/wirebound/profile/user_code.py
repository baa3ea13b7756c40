"""What goes wrong in the code that a user handed over is said in one line that names their error and its place."""

import contextlib
import traceback
from collections.abc import Iterator
from pathlib import Path

from wirebound.errors import InputError, WireboundError

#: Messages such as those of running out of memory go on for long.
_LONGEST_MESSAGE = 240


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
    """Return an error's type and message in one line, and the line of the user's own file that it came from."""
    message = " ".join(str(error).split())
    if len(message) > _LONGEST_MESSAGE:
        message = message[:_LONGEST_MESSAGE] + "…"
    place = _place(error)
    return f"{type(error).__name__}{': ' if message else ''}{message}{f' ({place})' if place else ''}"


def _place(error: BaseException) -> str:
    """The innermost frame outside of libraries and of this package, as file name and line; empty where there is none.

    Only the file's name is told: a profile or a log should not have the folders of whoever made it.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"{Path(error.filename).name}, line {error.lineno}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        parts = Path(frame.filename).parts
        if not {"site-packages", "dist-packages", "wirebound"} & set(parts) and not frame.filename.startswith("<"):
            return f"{parts[-1]}, line {frame.lineno}"
    return ""
