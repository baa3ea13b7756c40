"""What all commands share: one JSON document on standard output, messages on standard error."""

import json
import re
import sys
from typing import Annotated, Any

import typer

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]


def printable(text: str) -> str:
    """Return text from a file with line breaks and other control characters escaped: a terminal would obey them."""
    return "".join(mark if mark.isprintable() else ascii(mark)[1:-1] for mark in text)


def print_json(document: dict[str, Any]) -> None:
    """Print one JSON document, without NaN or infinity, which are not JSON."""
    text = json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False)
    # JSON itself escapes only the control characters below the space.
    typer.echo(re.sub("[\x7f-\x9f]", lambda match: f"\\u{ord(match[0]):04x}", text))


def note(message: str) -> None:
    """Print a message for people on standard error."""
    print(message, file=sys.stderr, flush=True)
