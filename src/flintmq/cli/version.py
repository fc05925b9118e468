"""`flintmq --version`: the version, and which of the two builds is running."""

import platform

import typer

import flintmq


def describe() -> str:
    """Such as `FlintMQ 0.1.0 (compiled by mypyc; Python 3.11.7)`."""
    build = "compiled by mypyc" if flintmq.compiled else "interpreted"
    return f"FlintMQ {flintmq.__version__} ({build}; Python {platform.python_version()})"


def print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(describe())
        raise typer.Exit
