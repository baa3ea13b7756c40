"""Commands that measure and fit: profile, fit."""

import typer


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
