"""Read (bytes, seconds) samples from a CSV file. Standard library only."""

import csv
import math
from pathlib import Path

from wirebound.errors import InputError

_COLUMNS = "bytes,seconds"


def read_samples(path: Path) -> tuple[list[float], list[float]]:
    """Return sizes in bytes and times in seconds from a CSV file with the columns ``bytes`` and ``seconds``.

    Lines that are empty or begin with ``#`` are skipped. Raises `InputError` with one line that names the file and,
    where one is to blame, the line.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(
            f"{path}: no such file: give a PROFILE.json, or a CSV file with the header {_COLUMNS}"
        ) from None
    except IsADirectoryError:
        raise InputError(f"{path}: is a folder: give a PROFILE.json, or a CSV file") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not UTF-8 text: give a PROFILE.json, or a CSV file") from None
    lines = [
        (number, line)
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not lines:
        raise InputError(f"{path}: is empty: it needs the header {_COLUMNS} and one line per measurement")
    header = [cell.strip() for cell in next(csv.reader([lines[0][1]]))]
    if sorted(header) != ["bytes", "seconds"]:
        raise InputError(
            f"{path}: line {lines[0][0]}: the header {','.join(header)!r} is not understood: use {_COLUMNS}"
            " (buffer size in bytes, time of the whole operation in seconds)"
        )
    columns: dict[str, list[float]] = {"bytes": [], "seconds": []}
    for number, line in lines[1:]:
        cells = next(csv.reader([line]))
        if len(cells) != 2:
            raise InputError(f"{path}: line {number}: has {len(cells)} values instead of 2: {line.strip()!r}")
        for name, cell in zip(header, cells, strict=True):
            columns[name].append(_positive(cell, name, path, number))
    if not columns["bytes"]:
        raise InputError(f"{path}: has a header but no measurements")
    return columns["bytes"], columns["seconds"]


def _positive(cell: str, name: str, path: Path, line: int) -> float:
    try:
        value = float(cell)
    except ValueError:
        raise InputError(f"{path}: line {line}: {name} {cell.strip()!r} is not a number") from None
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"{path}: line {line}: {name} {cell.strip()} must be finite and greater than 0")
    return value
