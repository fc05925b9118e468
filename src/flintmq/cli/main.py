"""The `flintmq` command: its own options, and what becomes of an error."""

import platform
import sys
from typing import Annotated, Final

import typer

import flintmq
from flintmq.base.errors import ConfigurationError, FlintError
from flintmq.cli import api
from flintmq.cli.commands import Commands

# The statuses are documented in docs/operations.md, for scripts.
EXIT_FAILURE: Final = 1
# What a shell expects of a command that was called wrongly.
EXIT_USAGE: Final = 2
EXIT_UNREACHABLE: Final = 3
EXIT_REFUSED: Final = 4
EXIT_MISSING: Final = 5

_ACCESS_REFUSED: Final = 403
_NOT_FOUND: Final = 404

app = typer.Typer(
    cls=Commands, help="FlintMQ, a message broker in Python.", no_args_is_help=True, pretty_exceptions_enable=False
)


def _print_version(wanted: bool) -> None:
    """Such as `FlintMQ 0.1.0 (compiled by mypyc; Python 3.11.7)`."""
    if wanted:
        build = "compiled by mypyc" if flintmq.compiled else "interpreted"
        typer.echo(f"FlintMQ {flintmq.__version__} ({build}; Python {platform.python_version()})")
        raise typer.Exit


@app.callback()
def options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Say which FlintMQ this is.")
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


def exit_code(error: FlintError) -> int:
    """The status with which a command ends that raised this error."""
    if isinstance(error, ConfigurationError):
        return EXIT_USAGE
    if isinstance(error, api.Unreachable):
        return EXIT_UNREACHABLE
    if isinstance(error, api.Refused):
        return EXIT_REFUSED
    if isinstance(error, api.Missing):
        return EXIT_MISSING
    return _of_client(error)


def _of_client(error: FlintError) -> int:
    """The same for AMQP."""
    from flintmq.client import errors

    if isinstance(error, errors.ConnectFailed):
        return EXIT_UNREACHABLE
    if isinstance(error, errors.LoginRefused):
        return EXIT_REFUSED
    if isinstance(error, errors.Closed):
        return {_ACCESS_REFUSED: EXIT_REFUSED, _NOT_FOUND: EXIT_MISSING}.get(error.code, EXIT_FAILURE)
    return EXIT_FAILURE
