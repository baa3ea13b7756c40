"""The events of a trace file one at a time, in bounded memory, whatever state the file is in.

Two layouts are read: an object with a list ``traceEvents`` among other fields (PyTorch), and a bare list (Horovod).
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wirebound.errors import InputError, undecodable
from wirebound.profile.traces.repair import DECODER, repaired
from wirebound.profile.traces.source import TextSource, shown

#: No single event or field is longer than this; a damaged one is searched this far for its end.
LONGEST = 16 << 20
#: So many events may be beyond repair before the file is refused.
MOST_SKIPPED = 10
#: Where decoding fails this close to the end of what was read, more text may help.
_EDGE = 64

_GAP = re.compile(r"[\s,]*")
#: The same and whole events of the phases ``s``, ``f``, ``t``, ``i``: flows and instants have nothing nested.
_GAP_AND_FLOWS = re.compile(
    r'(?:[\s,]*+\{\s*+"ph"\s*+:\s*+"[sfti]"[^{}"]*+(?:"[^"{}\\]*+"[^{}"]*+)*+\})*+[\s,]*+'  # possessive, for speed
)
_COLON = re.compile(r"\s*:\s*")
_FIELDS = "ph|name|cat|pid|tid|ts|dur|id|bp|s|args"
_NEXT_EVENT = re.compile(rf'\}}\s*,\s*(?=\{{\s*"(?:{_FIELDS})"\s*:)')
_LAST_EVENT = re.compile(r'\}\s*(?=\]\s*(?:\}\s*|,\s*"[^"]+"\s*:.*)?\Z)', re.DOTALL)
_FIELD_END = re.compile(r'"\s*(?=,\s*"[\w ]+"\s*:|\}\s*\Z)')


class TraceFile:
    """One trace file. `header` has the fields beside the events, as far as they were read, `warnings` what was wrong.

    `cut_off_at` is the byte where a file ends too early, None for a whole one. Warnings and errors name places by their
    byte in the text (of a gzip file: unpacked).
    """

    def __init__(self, path: Path, *, skip_flows: bool = False) -> None:
        """Open nothing yet. With `skip_flows`, events of flows and instants may be passed over without decoding."""
        self.path = path
        self._between = _GAP_AND_FLOWS if skip_flows else _GAP
        self.header: dict[str, Any] = {}
        self.cut_off_at: int | None = None
        self._source = TextSource(path)
        self._said: list[str] = []
        self._text, self._position, self._before, self._ended = "", 0, 0, False
        self._repairs: dict[str, tuple[int, int]] = {}
        self._skipped: list[int] = []

    @property
    def warnings(self) -> list[str]:
        """What was wrong with the file, one line each."""
        lines = self._source.warnings + self._said
        if self.cut_off_at is not None:
            lines.append(f"is cut off at byte {self.cut_off_at}: only what is there was read")
        for damage, (count, first) in self._repairs.items():
            lines.append(f"{count} event(s) repaired that had {damage}, the first at byte {first}")
        if self._skipped:
            lines.append(f"{len(self._skipped)} event(s) beyond repair left out, the first at byte {self._skipped[0]}")
        return lines

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield the events in the file's order; raises `InputError` when it is no trace, or too damaged."""
        try:
            yield from self._top()
            self._position = len(self._text)
            while self._more():  # to the end, where a gzip file tells whether it is whole
                self._position = len(self._text)
        finally:
            self._source.close()

    def _top(self) -> Iterator[dict[str, Any]]:
        mark = self._skip(_GAP)
        if mark == "[":
            self._position += 1
            yield from self._list()
            return
        if mark != "{":
            what = f"it begins with {shown(mark)!r}" if mark else "it is empty"
            raise InputError(f"{self.path}: is not a trace in JSON: {'; '.join([what, *self._source.warnings])}")
        self._position += 1
        found = False
        while (mark := self._skip(_GAP)) not in ("}", ""):
            name = self._value()
            if name is None and self._ended and self._position == len(self._text):
                mark = ""
                break
            if not isinstance(name, str) or self._skip(_COLON) is None:
                raise self._broken("a field's name is not a text")
            mark = self._skip(_GAP)
            if name == "traceEvents" and mark == "[":
                self._position += 1
                found = True
                yield from self._list()
            elif mark:
                self.header[name] = self._value()
        if not found:
            kind = self.header.get("schema")
            hint = f" (it is a {shown(str(kind))!s:.40})" if isinstance(kind, str) else ""
            raise InputError(f"{self.path}: has no list traceEvents, so it is not a trace{hint}")
        if not mark:
            self._cut_off()  # in the list already, where that was not closed

    def _list(self) -> Iterator[dict[str, Any]]:
        """The events up to the end of the list."""
        scan, gap = DECODER.scan_once, self._between.match  # type: ignore[attr-defined]
        text, position = self._text, self._position
        while True:
            match = gap(text, position)
            start = match.end() if match else position
            if start < len(text) and text[start] != "]":
                try:
                    event, position = scan(text, start)
                except (ValueError, StopIteration, RecursionError) as error:
                    self._position = start
                    event = None
                    if not (self._may_be_incomplete(error) and self._more()):
                        event = self._recovered(error)
                    text, position = self._text, self._position
                if type(event) is dict:
                    yield event
                continue
            self._position = start
            if start < len(text):
                self._position += 1
                return
            if not self._more():
                self._cut_off()
                return
            text, position = self._text, self._position

    def _value(self) -> Any:
        """One field's name or value."""
        while True:
            try:
                value, end = DECODER.raw_decode(self._text, self._position)
            except (ValueError, RecursionError) as error:
                if self._may_be_incomplete(error) and self._more():
                    continue
                field = _FIELD_END.search(self._text, self._position + 1)
                if self._text[self._position] == '"' and field:
                    value, end = self._text[self._position + 1 : field.start()], field.end()
                    self._said.append(f"a field with a damaged text at byte {self._byte()} was kept as it stands")
                elif self._ended and self._may_be_incomplete(error):
                    end, value = len(self._text), None
                else:
                    raise self._broken(undecodable(error)) from None
            if end == len(self._text) and self._more():  # a number may go on
                continue
            self._position = end
            return value

    def _recovered(self, error: Exception) -> dict[str, Any] | None:
        """The event at the current position, which did not decode; None when it is left out."""
        end = None
        while end is None:
            match = _NEXT_EVENT.search(self._text, self._position)
            if match is None and self._ended:
                match = _LAST_EVENT.search(self._text, self._position)
            if match:
                end = match.start() + 1
            elif len(self._text) - self._position > LONGEST or not self._more():
                break
        if end is None:
            if self._ended and (self._source.damaged or self._may_be_incomplete(error)):
                self._position = len(self._text)  # the last event was cut off; the list says so
                return None
            raise self._broken(undecodable(error))
        place, text = self._byte(), self._text[self._position : end]
        self._position = end
        found = repaired(text)
        if found is None:
            self._skipped.append(place)
            if len(self._skipped) > MOST_SKIPPED:
                first = self._skipped[0]
                raise InputError(
                    f"{self.path}: more than {MOST_SKIPPED} events are not JSON, the first at byte {first}: export the"
                    " trace again"
                )
            return None
        event, damage = found
        count, first = self._repairs.get(damage, (0, place))
        self._repairs[damage] = (count + 1, first)
        return event

    def _may_be_incomplete(self, error: Exception) -> bool:
        """Whether decoding failed for want of text, rather than because of what is there."""
        left = len(self._text) - self._position
        if left > LONGEST or isinstance(error, RecursionError):
            return False
        if isinstance(error, json.JSONDecodeError):
            return error.msg.startswith("Unterminated string") or error.pos >= len(self._text) - _EDGE
        if isinstance(error, StopIteration):
            return bool(error.value >= len(self._text) - _EDGE)
        return False

    def _skip(self, pattern: re.Pattern[str]) -> str:
        """Skip what the pattern matches and return the mark after it, empty at the end of the file."""
        while True:
            match = pattern.match(self._text, self._position)
            if match is None and (self._ended or len(self._text) > self._position + _EDGE):
                raise self._broken("Expecting ':' delimiter")
            end = match.end() if match else len(self._text)
            if end < len(self._text):
                self._position = end
                return self._text[end]
            if not self._more():
                self._position = len(self._text)
                return ""

    def _more(self) -> bool:
        """Read on, and drop what is behind; False at the end of the file."""
        chunk = self._source.read()
        self._ended = not chunk
        if chunk:
            self._before = self._byte()
            self._text, self._position = self._text[self._position :] + chunk, 0
        return bool(chunk)

    def _byte(self) -> int:
        """The current position in bytes of the file."""
        return self._before + len(self._text[: self._position].encode("utf-8", "surrogateescape"))

    def _cut_off(self) -> None:
        self.cut_off_at = self._byte() if self.cut_off_at is None else self.cut_off_at

    def _broken(self, why: str) -> InputError:
        reason = shown(re.sub(r": line \d+ column \d+ \(char \d+\)$", "", why)) or "not JSON"
        return InputError(f"{self.path}: is not JSON at byte {self._byte()}: {reason}")
