"""What the commands that record something take, say and return."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from wirebound.errors import InputError, WireboundError


def recording_parser(module: str, description: str | None, *, out: str, what: str) -> argparse.ArgumentParser:
    """Return the command line of `module`, with --out, the path `out` where `what` goes; `description` is its text."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, metavar=out, help=f"where {what}")
    return parser


def tell(what: str) -> None:
    """Say on standard error what goes on in a recording."""
    print(f"record: {what}", file=sys.stderr, flush=True)


def run_recording(name: str, record: Callable[[], Sequence[str]]) -> int:
    """Call `record`, which returns its warnings; print them, or what went wrong, a line each, under `name`.

    Returns the exit code: 0, 2 for a mistake in what was asked, 1 for a failure, 130 after an interrupt.
    """
    try:
        warnings = record()
    except InputError as error:
        print(f"{name}: error: {error}", file=sys.stderr)
        return 2
    except WireboundError as error:
        print(f"{name}: failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return 130
    for warning in warnings:
        print(f"{name}: warning: {warning}", file=sys.stderr)
    return 0
