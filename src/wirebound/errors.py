"""The errors that this package raises on purpose."""

import difflib
from collections.abc import Iterable


class WireboundError(Exception):
    """Something failed that is nobody's mistake; the command line exits with code 1."""


class InputError(WireboundError, ValueError):
    """A user's mistake: the message is one line that names the culprit and the remedy; exit code 2."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> InputError:
    """Return the error for a `kind` of thing that has no such name: it suggests the closest and lists all."""
    known = list(known)
    closest = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    hint = f"did you mean {closest[0]!r}? " if closest else ""
    return InputError(f"unknown {kind} {name!r}: {hint}Known are {', '.join(known)}")


def undecodable(error: Exception) -> str:
    """Return why JSON that is well formed could not be read: Python's own words name its settings, not the file."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return "it has a number of thousands of digits" if "int_max_str_digits" in str(error) else str(error)
