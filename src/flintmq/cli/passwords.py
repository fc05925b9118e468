"""A new user's password: from a file or asked for, and never an argument, which every list of processes would show."""

from pathlib import Path
from typing import Annotated

import typer

from flintmq.base.errors import ConfigurationError

NewPasswordFile = Annotated[
    Path | None,
    typer.Option("--new-password-file", metavar="FILE", help="Has the user's password; asked for without it."),
]


def new_password(user: str, file: Path | None) -> str:
    """Raises ConfigurationError."""
    if file is None:
        return str(typer.prompt(f"Password of {user}", hide_input=True, confirmation_prompt=True, err=True))
    try:
        password = file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the password in {file} cannot be read: {error}") from error
    if not password:
        raise ConfigurationError(f"{file} has no password in it")
    return password
