"""What all commands share: one JSON document on standard output, messages on standard error."""

import json
import sys
from typing import Annotated, Any

import typer

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]


def print_json(document: dict[str, Any]) -> None:
    """Print one JSON document, without NaN or infinity, which are not JSON."""
    typer.echo(json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False))


def note(message: str) -> None:
    """Print a message for people on standard error."""
    print(message, file=sys.stderr, flush=True)
