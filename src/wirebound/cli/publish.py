"""Commands that publish: book, serve."""

from typing import Annotated

import typer

from wirebound.cli.output import JsonFlag, note, print_json


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command("book")(build)
    app.command("serve")(serve)


def build(
    name: Annotated[str, typer.Option("--name", help="The run whose chapters the book shows.")] = "quick",
    force: Annotated[bool, typer.Option("--force", help="Build even if nothing changed.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Build the book of a run into book/_build/html and check that it is fit to publish.

    The last good book stays in place when the build or a check fails.

    Example: wirebound book --name quick
    """
    import time

    from wirebound.study.book import ensure_book
    from wirebound.study.inputs import read_json
    from wirebound.study.project import find_project

    start = time.perf_counter()
    project = find_project()
    book = ensure_book(project, name, force=force)
    stale = read_json(project.runs / name / "manifest.json").get("stale")
    if stale:
        note(f"chapters of this run that are not up to date: {', '.join(stale)}")
    seconds = time.perf_counter() - start
    note(f"built in {seconds:.0f} s" if book.rebuilt else "nothing changed: the book is up to date")
    if as_json:
        print_json({"run": name, "folder": str(book.folder), "rebuilt": book.rebuilt, "seconds": round(seconds, 2)})
    else:
        typer.echo(str(book.folder / "index.html"))


def serve(
    port: Annotated[int, typer.Option("--port", help="Port on this machine; 0 takes a free one.")] = 8000,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open a browser.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Show the finished book in a browser, on this machine only, until Ctrl-C.

    Example: wirebound serve --port 8000
    """
    from wirebound.study.project import find_project
    from wirebound.study.serve import address_of, open_server, serve_forever

    folder = find_project().book / "_build" / "html"
    server = open_server(folder, port)
    if as_json:
        print_json({"address": address_of(server), "folder": str(folder)})
    else:
        typer.echo(f"{address_of(server)} (Ctrl-C ends it)")
    serve_forever(server, open_browser=not no_open)
