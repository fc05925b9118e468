"""Asks before a command deletes data."""

import sys
from typing import Annotated

import typer

from flintmq.base.errors import ConfigurationError

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


def confirm(question: str, yes: bool) -> None:
    """Ends the command unless `yes`, or the answer typed at the terminal, agrees.

    Raises ConfigurationError where there is no terminal to ask at.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigurationError(f"{question} Nobody can be asked here: add --yes if this is meant")
    typer.confirm(question, abort=True, err=True)
