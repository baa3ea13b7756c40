"""Commands of the study: run, book, serve, status, compare, validate, doctor."""

import typer


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
