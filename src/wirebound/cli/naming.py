"""Say which option an error is about."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from wirebound.errors import InputError


@contextmanager
def naming(option: str) -> Iterator[None]:
    """Put the option before what an `InputError` of the block says."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{option}: {error}") from None


def parsed(option: str, parse: Callable[[str], float], text: str) -> float:
    """Return what `parse` makes of the text given with an option; raises `InputError` that names the option."""
    with naming(option):
        return parse(text)
