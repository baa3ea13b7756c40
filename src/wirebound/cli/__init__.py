"""The command line. Every command's heavy imports happen inside the command, so that `--help` stays fast.

Exit codes: 0 success, 2 a user's mistake (one line on standard error), 1 a failure.
"""

import contextlib
import os
import sys
import traceback
from typing import Annotated

import typer
from typer.exceptions import TyperException

import wirebound
from wirebound.cli.output import printable
from wirebound.cli.usage import usage_message
from wirebound.errors import InputError, WireboundError

app = typer.Typer(
    name="wirebound",
    help="""Is the network the bottleneck of distributed training, and what helps?

    \b
    Example: wirebound predict --workload resnet50 --gpus 64 --bandwidth "10 Gbps" --method wfbp-a2a
    """,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(wirebound.__version__)
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)


def _register_commands() -> None:
    from wirebound.cli import (
        advise,
        fit,
        import_,
        messages,
        need,
        predict,
        profile,
        publish,
        reproduce,
        study,
        testbed,
        validate,
        workloads,
    )

    for module in (
        study,
        publish,
        profile,
        fit,
        import_,
        predict,
        messages,
        need,
        advise,
        workloads,
        testbed,
        reproduce,
        validate,
    ):
        module.register(app)


_register_commands()


#: What a user's mistake in a path raises; other errors of the system are failures.
_NAMED_WRONGLY = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)


def _one_line(error: BaseException) -> str:
    return printable(" ".join(str(error).split()))


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit the process."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # so that α, µ and × can be printed under any locale
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        code = _run(arguments)
    except BrokenPipeError:  # whoever read the output has seen enough, as `| head -1` does
        code = 1
    try:
        if sys.stdout is not None:  # it is where a program was started without one
            sys.stdout.flush()
    except OSError as error:
        _discard_output()
        if code == 0 and not isinstance(error, BrokenPipeError):
            print(f"wirebound: failed: standard output: {error.strerror}", file=sys.stderr)
        code = code or 1
    sys.exit(code)


def _is_of_output(error: OSError) -> bool:
    """Whether printing raised the error: such an error does not name what could not be written."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and frames[-1].f_code is typer.echo.__code__


def _tell(kind: str, message: str, arguments: list[str]) -> None:
    """Say in one line on standard error what went wrong; of several ranks that fail alike, one does."""
    said: str | None = message
    if arguments[:1] == ["profile"] and "RANK" in os.environ:  # the command that ranks run together
        from wirebound.profile.rank_errors import worded_by_rank

        said = worded_by_rank(message)
    if said is not None:
        print(f"wirebound: {kind}: {said}", file=sys.stderr)


def _tell_interrupted() -> None:
    """Say that the command was interrupted; of several ranks the first does."""
    if os.environ.get("RANK", "0") == "0":
        print("wirebound: interrupted", file=sys.stderr)


def _run(given: list[str] | None) -> int:
    """Run a command, say what went wrong in one line on standard error, and return the exit code."""
    arguments = sys.argv[1:] if given is None else given
    try:
        code = app(args=given, standalone_mode=False)
    except TyperException as error:  # a usage error, without typer's box
        message = usage_message(error, arguments, app)
        if message:
            _tell("error", message, arguments)
        return int(getattr(error, "exit_code", 2))
    except InputError as error:
        _tell("error", _one_line(error), arguments)
        return 2
    except BrokenPipeError:
        raise
    except OSError as error:
        mistake = error.filename is not None and isinstance(error, _NAMED_WRONGLY)
        where = "standard output" if error.filename is None and _is_of_output(error) else error.filename
        reason = str(error) if where is None else f"{where}: {error.strerror}"
        said = " ".join(reason.split()) or type(error).__name__
        _tell("error" if mistake else "failed", said, arguments)
        return 2 if mistake else 1
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "wirebound":
            raise
        remedy = "install the study's packages with pip install 'wirebound[study]'"
        _tell("error", f"this command needs the package {error.name!r}: {remedy}", arguments)
        return 2
    except WireboundError as error:
        _tell("failed", _one_line(error), arguments)
        return 1
    except (KeyboardInterrupt, typer.Abort):
        _tell_interrupted()
        return 130
    if code == 130:  # what typer makes of Ctrl-C
        _tell_interrupted()
    return code if isinstance(code, int) else 0


def _discard_output() -> None:
    """Send what is still buffered nowhere: the interpreter flushes once more when it exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # a stream without a file of its own needs no care
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
