"""Options and arguments that several commands share, and the functions that read them."""

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
        metavar="URL",
        envvar="FLINTMQ_URL",
        help="Address of the broker: amqp://user:password@host:port/vhost.",
        show_envvar=True,
    ),
]
ApiUrl = Annotated[
    str,
    typer.Option(
        "--api",
        metavar="URL",
        envvar="FLINTMQ_API",
        help="Address of the HTTP API: http://user:password@host:15672. Default: the host in FLINTMQ_URL, port 15672.",
    ),
]
AmqpUrl = Annotated[str, typer.Option("--url", hidden=True, envvar="FLINTMQ_URL")]
PasswordFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        envvar="FLINTMQ_PASSWORD_FILE",
        help="File with the password. Unlike an argument, it is not visible in the process list.",
    ),
]
Ca = Annotated[Path | None, typer.Option("--ca", metavar="FILE", help="CA certificates in PEM, to verify the broker.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
VHost = Annotated[str, typer.Option(metavar="NAME", help="Virtual host.")]
SomeVHost = Annotated[str | None, typer.Option(metavar="NAME", help="List only this virtual host.")]
Queue = Annotated[str, typer.Argument(metavar="QUEUE", help="Name of the queue.")]
Arguments = Annotated[
    list[str] | None,
    typer.Option(
        "--argument",
        metavar="KEY=VALUE",
        help="Argument such as x-max-length=1000. The value is JSON or text. May be repeated.",
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", envvar="FLINTMQ_CONFIG", help="Settings file in TOML."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


def arguments_of(given: list[str] | None) -> dict[str, object]:
    """Parse KEY=VALUE options. A value that is valid JSON is decoded; any other value is text.

    Raises ConfigurationError for an option without a key or without "=".
    """
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
    """Read a password from a file, without the line break at its end. Raises ConfigurationError."""
    try:
        return file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read the password file {file}: {error}") from error


def confirm(question: str, yes: bool) -> None:
    """Ask `question` at the terminal, and end the command if the answer is no. Do not ask if `yes` is set.

    Raises ConfigurationError if standard input is not a terminal.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigurationError(f"{question} There is no terminal to answer at: confirm with --yes")
    typer.confirm(question, abort=True, err=True)
