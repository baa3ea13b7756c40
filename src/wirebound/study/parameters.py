"""Typed parameters: one conversion, so that a value means the same wherever it comes from.

Every value goes through text: the command line and YAML files give text, and a Python value is first printed as YAML
would write it (``true``, ``null``, ``0.001``). Only the declared kind decides what the text means, so ``010`` is 10 for
an integer and ``"010"`` for a text. Quantities keep their unit: a notebook gets ``"25 Gbps"``.
"""

import difflib
import keyword
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from wirebound.errors import InputError
from wirebound.units import parse_bandwidth, parse_bytes, parse_duration

#: What a notebook receives: plain types only.
Scalar = int | float | bool | str | None
Value = Scalar | list[Scalar]

UNSET: Any = object()

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}

#: How each kind of quantity is read, and the units that it is printed in, the preferred ones first.
_QUANTITIES: dict[str, tuple[Callable[[str], float], tuple[str, ...]]] = {
    "bandwidth": (parse_bandwidth, ("Tbps", "Gbps", "Mbps", "kbps", "bps")),
    "size": (parse_bytes, ("TB", "GB", "MB", "kB", "TiB", "GiB", "MiB", "KiB", "B")),
    "duration": (parse_duration, ("s", "ms", "us", "ns")),
}
_NOUNS = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "text": "any text",
    "bandwidth": "a bandwidth such as '10 Gbps'",
    "size": "a size such as '25 MiB'",
    "duration": "a time such as '20 us'",
}
KINDS = (*_NOUNS, "choice", "workload")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a chapter.

    `kind` is one of `KINDS`; with `many` the value is a list of that kind. `minimum` and `maximum` bound each value,
    quantities with their unit; `choices` are the values of a ``choice``. `optional` parameters may be null. `full` is
    the default of the full parameter set where it differs from `default`, which the quick set uses.
    """

    name: str
    kind: str
    default: Any
    help: str
    minimum: int | float | str | None = None
    maximum: int | float | str | None = None
    choices: tuple[str, ...] = ()
    optional: bool = False
    many: bool = False
    full: Any = UNSET

    def __post_init__(self) -> None:
        if not self.name.isidentifier() or keyword.iskeyword(self.name):
            raise InputError(f"parameter name {self.name!r} is not a Python name")
        if self.kind not in KINDS:
            raise InputError(
                f"parameter {self.name!r} has the unknown kind {self.kind!r}: use one of {', '.join(KINDS)}"
            )
        if (self.kind == "choice") != bool(self.choices):
            raise InputError(f"parameter {self.name!r}: the kind 'choice', and no other, needs choices")

    def default_value(self, *, full: bool = False) -> Value:
        """Return the converted default of the quick or the full parameter set."""
        return self.convert(self.full if full and self.full is not UNSET else self.default)

    def convert(self, value: Any) -> Value:
        """Return `value` as the plain type that notebooks get.

        `value` is text, a Python value, or for a list also a sequence or the text of a YAML flow list. Raises
        `InputError` that names the parameter and what it allows.
        """
        if _text(value) == "null":
            if self.optional:
                return None
            raise self._error("null is only for optional parameters")
        if not self.many:
            return self._convert_one(value)
        items = _flow_list(value) if isinstance(value, str) else value
        if not isinstance(items, list | tuple):
            raise self._error(f"{value!r} is not a list")
        if not items:
            raise self._error("the list is empty")
        values = [self._convert_one(item) for item in items]
        for position, value in enumerate(values):
            if value in values[:position]:
                raise self._error(f"{value} is there twice")
        return values

    def describe(self) -> str:
        """Say what the parameter allows, such as ``a whole number from 1 to 1024``."""
        names = self._names()
        what = f"one of {', '.join(names)}" if names else _NOUNS[self.kind]
        if self.minimum is not None and self.maximum is not None:
            what += f"{',' if 'such' in what else ''} from {self.minimum} to {self.maximum}"
        elif self.minimum is not None:
            what += f", at least {self.minimum}"
        elif self.maximum is not None:
            what += f", at most {self.maximum}"
        if self.many:
            what = f"a list, such as [{self._example()}], of values that are each {what}"
        return f"{what}, or null" if self.optional else what

    def _example(self) -> str:
        values = self.default[:2] if isinstance(self.default, list | tuple) else ["A", "B"]
        return ", ".join(_text(value) or "…" for value in values)

    def _names(self) -> tuple[str, ...]:
        if self.kind == "workload":
            from wirebound.model.library import builtin_names

            return builtin_names()
        return self.choices

    def _error(self, problem: str) -> InputError:
        return InputError(f"parameter {self.name!r}: {problem}; allowed: {self.describe()}")

    def _convert_one(self, value: Any) -> Scalar:
        text = _text(value)
        if text is None:
            raise self._error(f"{value!r} is not a single value")
        if text == "null":
            raise self._error("a list cannot hold null")
        if self.kind == "text":
            return text
        text = text.strip()
        if self.kind == "boolean":
            if text not in _BOOLEANS:
                raise self._error(f"{text!r} is neither true nor false")
            return _BOOLEANS[text]
        if self.kind in ("choice", "workload"):
            if text not in self._names():
                raise self._error(f"unknown value {text!r}{suggest(text, self._names())}")
            return text
        if self.kind in _QUANTITIES:
            parse, units = _QUANTITIES[self.kind]
            try:
                amount = parse(text)
            except InputError as error:
                raise self._error(str(error)) from None
            self._check_range(amount, parse, text)
            return _canonical(amount, parse, units)
        return self._convert_number(text)

    def _convert_number(self, text: str) -> int | float:
        pattern, noun = (_INTEGER, "a whole number") if self.kind == "integer" else (_NUMBER, "a number")
        if not pattern.fullmatch(text):
            raise self._error(f"{text!r} is not {noun}")
        if len(text) > 300:
            raise self._error("it has too many digits")
        number = int(text) if self.kind == "integer" else float(text)
        if not math.isfinite(number):
            raise self._error(f"{text!r} is too large")
        self._check_range(number, float, text)
        return number

    def _check_range(self, number: float, parse: Callable[[Any], float], text: str) -> None:
        below = self.minimum is not None and number < parse(self.minimum)
        above = self.maximum is not None and number > parse(self.maximum)
        if below or above:
            raise self._error(f"{text} is out of range")


def suggest(text: str, names: Sequence[str]) -> str:
    """Return ``: did you mean 'x'?`` for the name closest to `text`, or nothing."""
    closest = difflib.get_close_matches(text, names, n=1, cutoff=0.6)
    return f": did you mean {closest[0]!r}?" if closest else ""


def _text(value: Any) -> str | None:
    """Print a single value as YAML would write it; None when it is not a single value."""
    if isinstance(value, str):
        return str(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, int | float) else None


def _flow_list(text: str) -> Any:
    import yaml

    try:
        return yaml.load(text, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError):
        return text


def _canonical(amount: float, parse: Callable[[str], float], units: tuple[str, ...]) -> str:
    """Print a quantity in the unit that gives the shortest number from 1 to below 1000.

    Spellings of the same quantity thus become the same text: ``10e3 Mbps``, ``1.25 GB/s`` and ``10Gbps`` are
    ``10 Gbps``, ``25 MiB`` stays ``25 MiB``. Sizes are whole bytes and exact, others have 15 significant digits.
    """
    whole = "B" in units
    if whole:
        amount = float(round(amount))
    if amount == 0:
        return f"0 {'s' if 's' in units else units[-1]}"
    # Rounded before the choice of unit, or one part in 10**15 could decide it.
    scaled = [(float(f"{amount / parse(f'1 {unit}'):.15g}"), unit) for unit in units]
    readable = [(number, unit) for number, unit in scaled if number >= 1 and (number < 1000 or unit == units[0])]
    texts = [f"{number:.15g} {unit}" for number, unit in readable or scaled[-1:]]
    exact = [text for text in texts if parse(text) == amount]
    if whole and not exact:
        return f"{amount:.0f} B"
    return min(exact or texts, key=len)
