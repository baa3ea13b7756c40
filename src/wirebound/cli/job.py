"""Commands about your own job: predict, messages, need, workloads, reproduce."""

import typer


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
