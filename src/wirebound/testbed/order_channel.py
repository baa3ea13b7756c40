"""Numbers told from one process to another past the network under test: named pipes in a folder that both see."""

import contextlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path

from wirebound.errors import WireboundError

_NUMBER = struct.Struct("=I")


def _pipe(folder: Path, rank: int) -> Path:
    path = folder / f"order-{rank}"
    if not hasattr(os, "mkfifo"):
        raise WireboundError("priority scheduling across processes needs named pipes, which this system lacks")
    with contextlib.suppress(FileExistsError):
        os.mkfifo(path)
    return path


class OrderWriter:
    """The end that tells; opening it waits for the reader."""

    def __init__(self, folder: Path, rank: int) -> None:
        self._pipe = os.open(_pipe(folder, rank), os.O_WRONLY)

    def tell(self, number: int) -> None:
        """Tell one number."""
        os.write(self._pipe, _NUMBER.pack(number))

    def close(self) -> None:
        """End the other side's iteration."""
        os.close(self._pipe)


class OrderReader:
    """The end that is told: an iterator of numbers."""

    def __init__(self, folder: Path, rank: int) -> None:
        self._pipe = os.open(_pipe(folder, rank), os.O_RDONLY)

    def __iter__(self) -> Iterator[int]:
        try:
            while len(received := os.read(self._pipe, _NUMBER.size)) == _NUMBER.size:
                yield int(_NUMBER.unpack(received)[0])
        finally:
            os.close(self._pipe)
