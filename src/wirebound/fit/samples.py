"""Read (bytes, seconds) samples from a CSV file."""

import csv
from pathlib import Path

from wirebound.errors import InputError
from wirebound.files import require_input_name

_COLUMNS = "bytes,seconds"

#: Sizes and times beyond these are mistakes, and near the ends of what floating-point numbers can tell.
LARGEST_BYTES = 1e18
SHORTEST_S, LONGEST_S = 1e-12, 1e9
#: From here on it is worth reading all lines at once.
_MANY_LINES = 10_000


def read_samples(path: Path) -> tuple[list[float], list[float]]:
    """Return sizes in bytes and times in seconds from a CSV file with the columns ``bytes`` and ``seconds``.

    Sizes are whole numbers from 1 to 1e18, times between 1e-12 s and 1e9 s. Lines that are empty or begin with ``#``
    are skipped. Raises `InputError` with one line that names the file and, where one is to blame, the line.
    """
    require_input_name(path)
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
    lines = text.splitlines()
    if len(lines) >= _MANY_LINES and (read := _read_at_once(lines)) is not None:
        return read
    reader = csv.reader(lines)
    sizes: list[float] = []
    times: list[float] = []
    size_column: int | None = None
    try:
        for row in reader:
            try:
                first, second = row
                size, time = (float(second), float(first)) if size_column else (float(first), float(second))
                good = 1 <= size <= LARGEST_BYTES and SHORTEST_S <= time <= LONGEST_S and size.is_integer()
            except ValueError:
                good = False
            if good and size_column is not None:
                sizes.append(size)
                times.append(time)
            elif not row or row[0].lstrip().startswith("#") or (len(row) == 1 and not row[0].strip()):
                continue
            elif size_column is None:
                size_column = _size_column(row, f"{path}: line {reader.line_num}")
            else:
                raise InputError(f"{path}: line {reader.line_num}: {_wrong(row, size_column)}")
    except csv.Error as error:
        raise InputError(f"{path}: line {reader.line_num}: is not a line of a CSV file: {error}") from None
    if size_column is None:
        raise InputError(f"{path}: is empty: it needs the header {_COLUMNS} and one line per measurement")
    if not sizes:
        raise InputError(f"{path}: has a header but no measurements")
    return sizes, times


def _read_at_once(lines: list[str]) -> tuple[list[float], list[float]] | None:
    """Sizes and times of a file that is a header and good numbers throughout; None for all others."""
    import numpy as np

    header = [cell.strip() for cell in lines[0].split(",")]
    if sorted(header) != ["bytes", "seconds"] or not lines[1].strip():
        return None
    try:
        values = np.loadtxt(lines[1:], delimiter=",", comments=None, ndmin=2)
    except ValueError:
        return None
    if values.shape[1] != 2:
        return None
    sizes, times = values[:, header.index("bytes")], values[:, header.index("seconds")]
    good = (sizes >= 1) & (sizes <= LARGEST_BYTES) & (sizes == np.floor(sizes))
    good &= (times >= SHORTEST_S) & (times <= LONGEST_S)
    return (sizes.tolist(), times.tolist()) if good.all() else None


def _size_column(row: list[str], where: str) -> int:
    """The index of the column ``bytes`` in the header."""
    header = [cell.strip() for cell in row]
    if sorted(header) == ["bytes", "seconds"]:
        return header.index("bytes")
    raise InputError(
        f"{where}: the header {_shown(','.join(header))} is not understood: use {_COLUMNS}"
        f" (buffer size in bytes, time of the whole operation in seconds){_separator(row)}"
    )


def _wrong(row: list[str], size_column: int) -> str:
    """What is wrong with a row of measurements, without its line number."""
    if len(row) != 2:
        return f"has {len(row)} values instead of 2: {_shown(','.join(row))}{_separator(row)}"
    values = []
    for cell, name in ((row[size_column], "bytes"), (row[1 - size_column], "seconds")):
        try:
            values.append(float(cell))
        except ValueError:
            return f"{name} {_shown(cell.strip())} is not a number"
    if not (1 <= values[0] <= LARGEST_BYTES and values[0].is_integer()):
        size = row[size_column].strip()[:40]
        return f"bytes {size} must be a whole number from 1 to {LARGEST_BYTES:g}: are the columns swapped?"
    time = row[1 - size_column].strip()[:40]
    return f"seconds {time} must be between {SHORTEST_S:g} and {LONGEST_S:g}"


def _separator(row: list[str]) -> str:
    return "; separate the columns with commas" if len(row) == 1 and any(mark in row[0] for mark in ";\t") else ""


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:59] + "…")
