"""Options that take a list."""

from collections.abc import Callable
from typing import TypeVar

from wirebound.cli.naming import naming
from wirebound.errors import InputError

_Item = TypeVar("_Item")


def listed(
    flag: str, text: str | None, read: Callable[[str], _Item], *, default: str = "", separator: str = ","
) -> list[_Item]:
    """Read the items of a list, apart by commas; `default` is read where no text is given.

    Raises `InputError` that names the option.
    """
    items = [item.strip() for item in (default if text is None else text).split(separator)]
    with naming(flag):
        return [read(item) for item in dict.fromkeys(items)]


def whole_number(text: str) -> int:
    """Read a number of ranks; raises `InputError` for anything else."""
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InputError(f"{text!r} is not a number of ranks: write numbers such as '2,4'")
    return int(text)
