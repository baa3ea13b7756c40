"""Read the fields of a parsed JSON document, with messages that name the bad field by its JSON path."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wirebound.errors import InputError

#: No whole number in a document may exceed this; nothing that is counted or measured in bytes does.
LARGEST_WHOLE = 10**18
#: No tensor and no buffer has more bytes, no step more samples, no job more ranks.
LARGEST_SIZE, LARGEST_BATCH, LARGEST_RANKS = 10**11, 10**9, 10**9
#: No time in seconds is longer (eleven days), or shorter unless it may be 0.
LARGEST_TIME_S, SMALLEST_TIME_S = 1e6, 1e-12


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def _shown(value: object) -> str:
    text = repr(value)
    return f"{_kind(value)}" if len(text) > 40 or isinstance(value, dict | list) else text


def _is_text(value: str) -> bool:
    """Whether UTF-8 has all of it; JSON can escape halves of surrogate pairs, which are no characters."""
    return not any("\ud800" <= mark <= "\udfff" for mark in value)


@dataclass(frozen=True, slots=True)
class Fields:
    """One JSON object at `path` inside the document named `where`."""

    values: Mapping[str, Any]
    where: str
    path: str = ""

    @classmethod
    def of_document(cls, document: object, where: str) -> "Fields":
        """Return the fields of a whole document, which must be an object."""
        if not isinstance(document, dict):
            raise InputError(f"{where}: must hold one JSON object, not {_kind(document)}")
        return cls(document, where)

    def _path(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def _wrong(self, name: str, value: object, wanted: str) -> InputError:
        return InputError(f"{self.where}: field {self._path(name)} is {_shown(value)}: it must be {wanted}")

    def _required(self, name: str) -> Any:
        if name not in self.values:
            raise InputError(f"{self.where}: field {self._path(name)} is missing")
        return self.values[name]

    def text(self, name: str, *, default: str | None = None) -> str:
        """Return a text; missing is an error unless there is a default."""
        value = self._required(name) if default is None else self.values.get(name, default)
        return self._checked_text(name, value)

    def _checked_text(self, name: str, value: object) -> str:
        if not isinstance(value, str):
            raise self._wrong(name, value, "a text")
        if not _is_text(value):
            raise self._wrong(name, value, "a text without halves of surrogate pairs")
        return value

    def optional_text(self, name: str) -> str | None:
        """Return a text, or None where the field is missing or null."""
        return None if self.values.get(name) is None else self.text(name)

    def choice(self, name: str, allowed: Sequence[str], *, default: str | None = None) -> str:
        """Return one of the allowed texts."""
        value = self.text(name, default=default)
        if value not in allowed:
            raise self._wrong(name, value, f"one of {', '.join(allowed)}")
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        """Return true or false, the default where the field is missing."""
        value = self.values.get(name, default)
        if not isinstance(value, bool):
            raise self._wrong(name, value, "true or false")
        return value

    def integer(self, name: str, *, minimum: int, maximum: int = LARGEST_WHOLE) -> int:
        """Return a whole number from `minimum` to `maximum`; 3.0 counts as one, as in JSON Schema."""
        value = self._required(name)
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        if isinstance(value, bool) or not whole or not minimum <= value <= maximum:
            raise self._wrong(name, value, f"a whole number, at least {minimum} and at most {maximum:.0e}")
        return int(value)

    def optional_integer(self, name: str, *, minimum: int, maximum: int = LARGEST_WHOLE) -> int | None:
        """Return a whole number, or None where the field is missing or null."""
        return None if self.values.get(name) is None else self.integer(name, minimum=minimum, maximum=maximum)

    def integers(self, name: str, *, minimum: int) -> tuple[int, ...]:
        """Return a list of whole numbers as `integer` takes them, empty where the field is missing."""
        values = self._list(name, required=False)
        item = Fields({f"{name}[{index}]": value for index, value in enumerate(values)}, self.where, self.path)
        return tuple(item.integer(key, minimum=minimum) for key in item.values)

    def seconds(self, name: str, *, positive: bool = False) -> float:
        """Return a time from 0 (`positive`: from `SMALLEST_TIME_S`) to `LARGEST_TIME_S`."""
        return self._checked_time(name, self._required(name), positive)

    def optional_seconds(self, name: str) -> float | None:
        """Return a time, or None where the field is missing or null."""
        return None if self.values.get(name) is None else self.seconds(name)

    def many_seconds(self, name: str, *, positive: bool = False) -> tuple[float, ...]:
        """Return a list of times, empty where the field is missing."""
        values = self._list(name, required=False)
        return tuple(self._checked_time(f"{name}[{index}]", value, positive) for index, value in enumerate(values))

    def _checked_time(self, name: str, value: object, positive: bool) -> float:
        shortest = SMALLEST_TIME_S if positive else 0
        known = isinstance(value, int | float) and not isinstance(value, bool)
        if not known or not shortest <= value <= LARGEST_TIME_S:  # type: ignore[operator]
            raise self._wrong(name, value, f"a time in seconds, at least {shortest:g} and at most {LARGEST_TIME_S:g}")
        return float(value)  # type: ignore[arg-type]

    def number(self, name: str, *, positive: bool = False, maximum: float = math.inf) -> float:
        """Return a finite number that is not negative (`positive`: greater than zero), at most `maximum`."""
        return self._checked_number(name, self._required(name), positive, maximum)

    def optional_number(self, name: str, *, positive: bool = False) -> float | None:
        """Return a number, or None where the field is missing or null."""
        return None if self.values.get(name) is None else self.number(name, positive=positive)

    def numbers(self, name: str, *, positive: bool = False, maximum: float = math.inf) -> tuple[float, ...]:
        """Return a list of numbers, empty where the field is missing."""
        values = self._list(name, required=False)
        return tuple(
            self._checked_number(f"{name}[{index}]", value, positive, maximum) for index, value in enumerate(values)
        )

    def _checked_number(self, name: str, value: object, positive: bool, maximum: float) -> float:
        wanted = "a finite number greater than 0" if positive else "a finite number, at least 0"
        if maximum < math.inf:
            wanted += f" and at most {maximum:g}"
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(name, value, wanted)
        value = min(value, 2**1023) if isinstance(value, int) else value  # a longer one does not fit into a float
        if not (math.isfinite(value) and 0 <= value <= maximum) or (positive and value == 0):
            raise self._wrong(name, value, wanted)
        return float(value)

    def _list(self, name: str, *, required: bool) -> list[Any]:
        value = self._required(name) if required else self.values.get(name, [])
        if not isinstance(value, list):
            raise self._wrong(name, value, "a list")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts."""
        values = self._list(name, required=True)
        return tuple(self._checked_text(f"{name}[{index}]", value) for index, value in enumerate(values))

    def _object(self, name: str, value: object) -> "Fields":
        if not isinstance(value, dict):
            raise self._wrong(name, value, "an object")
        return Fields(value, self.where, self._path(name))

    def optional_object(self, name: str) -> "Fields | None":
        """Return an object's fields, or None where the field is missing or null."""
        value = self.values.get(name)
        return None if value is None else self._object(name, value)

    def objects(self, name: str, *, required: bool = True) -> list["Fields"]:
        """Return the fields of each object in a list."""
        values = self._list(name, required=required)
        return [self._object(f"{name}[{index}]", value) for index, value in enumerate(values)]

    def scalars(self, name: str) -> dict[str, str | int | float | bool | None]:
        """Return a flat object whose values are texts, finite numbers, true, false or null."""
        values = self._object(name, self._required(name)).values
        for key, value in values.items():
            if isinstance(value, dict | list) or (isinstance(value, float) and not math.isfinite(value)):
                raise self._wrong(f"{name}.{key}", value, "a text, a finite number, true, false or null")
            if not _is_text(key) or (isinstance(value, str) and not _is_text(value)):
                raise self._wrong(f"{name}.{key}", value, "a text without halves of surrogate pairs")
        return dict(values)
