"""What to say about a command line that typer could not read."""

from collections.abc import Sequence

import typer
from typer.exceptions import TyperException

from wirebound.cli.output import printable
from wirebound.model.library import builtin_names
from wirebound.model.method import METHOD_NAMES


def usage_message(error: TyperException, arguments: Sequence[str], app: typer.Typer) -> str:
    """Return the error as one line, with the value that was given or the names there are; empty where it has none.

    `arguments` are those of `app`, which names the command whose help to read.
    """
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
    command = context.command_path if context is not None else _command_of(arguments, app)
    return f"{printable(' '.join(message.split()))} (see '{command} --help')"


def _command_of(arguments: Sequence[str], app: typer.Typer) -> str:
    """The program's name and the command that the first words call, such as ``wirebound testbed run``."""
    names = ["wirebound"]
    commands = getattr(typer.main.get_command(app), "commands", {})
    for word in arguments:
        if word not in commands:
            break
        names.append(word)
        commands = getattr(commands[word], "commands", {})
    return " ".join(names)


def _value_of(options: Sequence[str], arguments: Sequence[str]) -> str | None:
    """The last value given to one of these options, None where there is none."""
    value = None
    for index, word in enumerate(arguments):
        name, equals, rest = word.partition("=")
        if name in options and name.startswith("-"):
            value = rest if equals else next(iter(arguments[index + 1 : index + 2]), None)
    return value
