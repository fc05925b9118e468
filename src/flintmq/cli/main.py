"""The `flintmq` command: its own options, and how errors become messages and exit codes."""

import platform
import sys
from typing import Annotated, Final

import typer

import flintmq
from flintmq.base.errors import ConfigurationError, FlintError
from flintmq.cli import api
from flintmq.cli.commands import Commands

# Scripts rely on these exit codes. docs/operations.md documents them.
EXIT_FAILURE: Final = 1
# The exit code of shells for wrong arguments.
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
    """Print a line such as `FlintMQ 0.1.0 (compiled by mypyc; Python 3.11.7)`."""
    if wanted:
        build = "compiled by mypyc" if flintmq.compiled else "interpreted"
        typer.echo(f"FlintMQ {flintmq.__version__} ({build}; Python {platform.python_version()})")
        raise typer.Exit


@app.callback()
def options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options before a command. Each acts in its callback."""


def main() -> None:
    """Run one command. An error that FlintMQ raises on purpose is printed as one line, without a traceback."""
    try:
        app()
    except FlintError as error:
        typer.echo(f"flintmq: {error}", err=True)
        sys.exit(exit_code(error))


def exit_code(error: FlintError) -> int:
    """The exit code of a command that raised `error`."""
    if isinstance(error, ConfigurationError):
        return EXIT_USAGE
    if isinstance(error, api.Unreachable):
        return EXIT_UNREACHABLE
    if isinstance(error, api.Refused):
        return EXIT_REFUSED
    if isinstance(error, api.Missing):
        return EXIT_MISSING
    return _client_exit_code(error)


def _client_exit_code(error: FlintError) -> int:
    """The exit code for an error of the AMQP client."""
    from flintmq.client import errors

    if isinstance(error, errors.ConnectFailed):
        return EXIT_UNREACHABLE
    if isinstance(error, errors.LoginRefused):
        return EXIT_REFUSED
    if isinstance(error, errors.Closed):
        return {_ACCESS_REFUSED: EXIT_REFUSED, _NOT_FOUND: EXIT_MISSING}.get(error.code, EXIT_FAILURE)
    return EXIT_FAILURE
