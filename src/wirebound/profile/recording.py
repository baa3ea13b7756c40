"""What the commands that record something say and return."""

import sys
from collections.abc import Callable, Sequence

from wirebound.errors import InputError, WireboundError


def run_recording(name: str, record: Callable[[], Sequence[str]]) -> int:
    """Call `record`, which returns its warnings; print them, or what went wrong, a line each, under `name`.

    Returns the exit code: 0, 2 for a mistake in what was asked, 1 for a failure.
    """
    try:
        warnings = record()
    except InputError as error:
        print(f"{name}: error: {error}", file=sys.stderr)
        return 2
    except WireboundError as error:
        print(f"{name}: failed: {error}", file=sys.stderr)
        return 1
    for warning in warnings:
        print(f"{name}: warning: {warning}", file=sys.stderr)
    return 0
