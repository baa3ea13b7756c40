"""What to say about a command line that typer could not read."""

from collections.abc import Sequence

from typer.exceptions import TyperException

from wirebound.cli.output import printable
from wirebound.model.library import builtin_names
from wirebound.model.method import METHOD_NAMES


def usage_message(error: TyperException, arguments: Sequence[str]) -> str:
    """Return the error as one line, with the value that was given or the names there are; empty where it has none."""
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    if not message:
        return ""
    options = getattr(getattr(error, "param", None), "opts", [])
    value = _value_of(options, arguments)
    if value is None and "--workload" in options:
        message = f"{message.rstrip('.')}: the built-in ones are {', '.join(builtin_names())}"
    elif value is None and "--method" in options:
        message = f"{message.rstrip('.')}: known are {', '.join(METHOD_NAMES)}"
    elif value is not None and value not in message:
        message = f"{message.rstrip('.')}: {value!r}"
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "wirebound"
    return f"{printable(' '.join(message.split()))} (see '{command} --help')"


def _value_of(options: Sequence[str], arguments: Sequence[str]) -> str | None:
    """The last value given to one of these options, None where there is none."""
    value = None
    for index, word in enumerate(arguments):
        name, equals, rest = word.partition("=")
        if name in options and name.startswith("-"):
            value = rest if equals else next(iter(arguments[index + 1 : index + 2]), None)
    return value
