"""Options and arguments that several commands have, and what becomes of them."""

import json
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from flintmq.base.errors import ConfigurationError

DEFAULT_URL: Final = "amqp://guest:guest@127.0.0.1:5672/%2f"

Url = Annotated[
    str,
    typer.Option(
        metavar="URL", envvar="FLINTMQ_URL", help="The broker: amqp://user:password@host:port/vhost", show_envvar=True
    ),
]
ApiUrl = Annotated[
    str,
    typer.Option(
        "--api",
        metavar="URL",
        envvar="FLINTMQ_API",
        help="The broker's API: http://user:password@host:15672. Without it, that of the host in FLINTMQ_URL.",
    ),
]
AmqpUrl = Annotated[str, typer.Option("--url", hidden=True, envvar="FLINTMQ_URL")]
PasswordFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", envvar="FLINTMQ_PASSWORD_FILE", help="Has the password, which no list of processes shows."
    ),
]
Ca = Annotated[Path | None, typer.Option("--ca", metavar="FILE", help="Who signed the broker's certificate, in PEM.")]
Json = Annotated[bool, typer.Option("--json", help="As JSON, on the standard output.")]
VHost = Annotated[str, typer.Option(metavar="NAME", help="The virtual host.")]
SomeVHost = Annotated[str | None, typer.Option(metavar="NAME", help="Only what is in this virtual host.")]
Queue = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue's name.")]
Arguments = Annotated[
    list[str] | None,
    typer.Option("--argument", metavar="KEY=VALUE", help="Such as x-max-length=1000; JSON, or text. May be repeated."),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", envvar="FLINTMQ_CONFIG", help="Settings, in TOML."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


def arguments_of(given: list[str] | None) -> dict[str, object]:
    """Numbers, booleans and whatever else JSON says are that; all else is text. Raises ConfigurationError."""
    found: dict[str, object] = {}
    for argument in given or []:
        key, equals, value = argument.partition("=")
        if not key or not equals:
            raise ConfigurationError(f"--argument {argument}: write it as KEY=VALUE")
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    return found


def read_password(file: Path) -> str:
    """The file's text without the end of its line. Raises ConfigurationError."""
    try:
        return file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the password in {file} cannot be read: {error}") from error


def confirm(question: str, yes: bool) -> None:
    """Ends the command unless `yes`, or the answer typed at the terminal, agrees.

    Raises ConfigurationError where there is no terminal to ask at.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigurationError(f"{question} Nobody can be asked here: add --yes if this is meant")
    typer.confirm(question, abort=True, err=True)
