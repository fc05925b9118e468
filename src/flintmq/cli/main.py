"""The `flintmq` command: its options, and what becomes of an error."""

import sys
from typing import Annotated

import typer

from flintmq.base.errors import FlintError
from flintmq.cli.commands import Commands
from flintmq.cli.exits import exit_code
from flintmq.cli.version import print_version

app = typer.Typer(
    cls=Commands, help="FlintMQ, a message broker in Python.", no_args_is_help=True, pretty_exceptions_enable=False
)


@app.callback()
def options(
    _version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Say which FlintMQ this is.")
    ] = False,
) -> None:
    """Options that stand before a command; they act in their callbacks."""


def main() -> None:
    """Run one command. What FlintMQ raises on purpose becomes one line, and never a traceback."""
    try:
        app()
    except FlintError as error:
        typer.echo(f"flintmq: {error}", err=True)
        sys.exit(exit_code(error))
