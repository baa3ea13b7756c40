"""Repairs of single trace events that are not JSON, for the damage seen in public reports."""

import json
import re
from collections.abc import Callable
from typing import Any

#: Control characters inside strings (raw line breaks) are let through.
DECODER = json.JSONDecoder(strict=False)

_MISSING_OPENING_QUOTE = re.compile(r'("\w+"\s*:\s*)([^"\s,{}\[\]:]+)"(?=\s*[,}])')
_BAD_ESCAPE = re.compile(r'\\(?!["\\/bfnrtu]|u[0-9a-fA-F]{4})|\\(?=u(?![0-9a-fA-F]{4}))')
#: A string that is a value: it ends at the first quote after which the next key, or the end of the object, follows.
_VALUE = re.compile(r'("[\w .()%/#*-]+"\s*:\s*)"(.*?)"(?=\s*(?:,\s*"[\w .()%/#*-]+"\s*:|\}))', re.DOTALL)


def _quote(match: re.Match[str]) -> str:
    return f'{match[1]}"{match[2]}"'


def _double_backslashes(match: re.Match[str]) -> str:
    """A string with an escape that JSON does not have is a path of Windows: every backslash in it is meant as one."""
    inner = match[2]
    cut_short = (len(inner) - len(inner.rstrip("\\"))) % 2 == 1  # its last backslash would escape the closing quote
    return f'{match[1]}"{_double(inner)}"' if cut_short or _BAD_ESCAPE.search(inner) else match[0]


def _double(inner: str) -> str:
    return re.sub(r'\\(?!")', r"\\\\", inner)


def _escape_quotes(match: re.Match[str]) -> str:
    inner = re.sub(r'(?<!\\)"', r'\\"', match[2])
    return f'{match[1]}"{_double(inner) if _BAD_ESCAPE.search(inner) else inner}"'


_REPAIRS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("a missing opening quote", lambda text: _MISSING_OPENING_QUOTE.sub(_quote, text)),
    ("unescaped backslashes", lambda text: _VALUE.sub(_double_backslashes, text)),
    ("unescaped backslashes", lambda text: _BAD_ESCAPE.sub(r"\\\\", text)),
    ("unescaped quotes", lambda text: _VALUE.sub(_escape_quotes, text)),
    (
        "several of these",
        lambda text: _VALUE.sub(_escape_quotes, _MISSING_OPENING_QUOTE.sub(_quote, text)),
    ),
)


def repaired(text: str) -> tuple[dict[str, Any], str] | None:
    """Return the object that one damaged event stands for, and what its damage was; None where no repair helps."""
    for damage, repair in _REPAIRS:
        try:
            event = DECODER.decode(repair(text))
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict):
            return event, damage
    return None
