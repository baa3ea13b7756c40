"""The command line that asks about a job: the options back as text, so that an answer can be asked for again."""

import dataclasses
import shlex
from typing import get_type_hints

from wirebound.cli.job_options import JobOptions


def command_line(command: str, options: JobOptions) -> str:
    """Return ``wirebound command …`` with every option that differs from its default, quoted for a POSIX shell."""
    hints = get_type_hints(JobOptions, include_extras=True)
    words = ["wirebound", command]
    for field in dataclasses.fields(JobOptions):
        value = getattr(options, field.name)
        if value == field.default:
            continue
        option = hints[field.name].__metadata__[0]
        # typer keeps the first name of an annotated option in `default`.
        flag = next(name for name in (option.default, *option.param_decls) if str(name).startswith("--"))
        words += [flag] if value is True else [flag, str(value)]
    return shlex.join(words)
