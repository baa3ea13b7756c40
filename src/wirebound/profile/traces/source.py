"""The text of a trace file, chunk by chunk, unpacked where it is gzip; what is wrong with it becomes a warning."""

import codecs
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path

from wirebound.errors import InputError
from wirebound.files import require_input_name

#: Bytes of text that are held at a time (a chunk of UTF-8 may be a little less).
CHUNK = 1 << 20
_GZIP = b"\x1f\x8b"


def shown(text: str) -> str:
    """Return text from a file as UTF-8 can have it: bytes that are no UTF-8 become question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


class TextSource:
    """Reads a file, plain or gzip, as UTF-8 text in pieces.

    `warnings` fills while reading: a cut-off or damaged gzip file ends early (`damaged`: unpacking had to stop), bytes
    that are not UTF-8 are kept as lone surrogates (Python's ``surrogateescape``), so that byte offsets stay exact.
    Raises `InputError` when the file cannot be opened or is not UTF-8 text at all.
    """

    def __init__(self, path: Path) -> None:
        require_input_name(path)
        self.path = path
        self.warnings: list[str] = []
        self.damaged = False
        self._chunks = self._text()

    def read(self) -> str:
        """Return the next piece of text, empty at the end."""
        return next(self._chunks, "")

    def close(self) -> None:
        """Close the file."""
        self._chunks.close()

    def _text(self) -> Generator[str]:
        decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        position, told = 0, False
        for chunk in self._bytes():
            if position == 0:
                if chunk[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) or chunk[1:2] == b"\0":
                    raise InputError(f"{self.path}: is not UTF-8 text: save it as UTF-8")
                if chunk.startswith(codecs.BOM_UTF8):
                    chunk = chunk[len(codecs.BOM_UTF8) :]
            text = decoder.decode(chunk)
            if not told and not text.isascii() and any("\udc80" <= mark <= "\udcff" for mark in text):
                told = True
                self.warnings.append(f"has bytes that are not UTF-8, the first after byte {position}: shown as '?'")
            position += len(chunk)
            if text:
                yield text
        rest = decoder.decode(b"", final=True)
        if rest:
            yield rest

    def _bytes(self) -> Iterator[bytes]:
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            raise InputError(f"{self.path}: no such file") from None
        except IsADirectoryError:
            raise InputError(f"{self.path}: is a folder: name a file in it") from None
        with file:
            if not file.seekable():
                raise InputError(f"{self.path}: is a pipe, which cannot be read twice: save it to a file first")
            start = file.read(2)
            file.seek(0)
            if start != _GZIP:
                while chunk := file.read(CHUNK):
                    yield chunk
                return
            unpacker, packed = zlib.decompressobj(31), b""
            while packed := packed or file.read(CHUNK // 4):
                if unpacker.eof:  # another member may follow; what some tools append after the last one is no text
                    if not packed.lstrip(b"\0").startswith(_GZIP):
                        return
                    unpacker, packed = zlib.decompressobj(31), packed.lstrip(b"\0")
                before = unpacker.copy()
                try:
                    chunk = unpacker.decompress(packed, CHUNK)
                except zlib.error:
                    yield from _until_damage(before, packed)
                    self.damaged = True
                    self.warnings.append("is damaged gzip: only what comes before the damage was read")
                    return
                packed = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
                if chunk:
                    yield chunk
            yield unpacker.flush()
            if not unpacker.eof:
                self.warnings.append("is cut-off gzip: only what is there was read")


def _until_damage(unpacker: "zlib._Decompress", packed: bytes) -> Iterator[bytes]:
    """What can be unpacked before the damage, byte by byte: an error would take all of a longer piece with it."""
    for index in range(len(packed)):
        try:
            chunk = unpacker.decompress(packed[index : index + 1])
        except zlib.error:
            return
        if chunk:
            yield chunk
