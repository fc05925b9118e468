"""What commands have that speak AMQP: where the broker is, a password from a file, and arguments of queues."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import quote, urlsplit, urlunsplit

import typer

from flintmq.base.errors import ConfigurationError
from flintmq.cli.administration import PasswordFile
from flintmq.cli.publish import DEFAULT_URL, Url

if TYPE_CHECKING:
    from flintmq.client import Channel

__all__ = ["DEFAULT_URL", "Arguments", "PasswordFile", "Queue", "Url", "arguments_of", "channel"]

Queue = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue's name.")]
Arguments = Annotated[
    list[str] | None,
    typer.Option("--argument", metavar="KEY=VALUE", help="Such as x-max-length=1000; JSON, or text. May be repeated."),
]
_SHAPE: Final = "write it as KEY=VALUE"


def arguments_of(given: list[str] | None) -> dict[str, object]:
    """Numbers, booleans and whatever else JSON says are that; all else is text. Raises ConfigurationError."""
    found: dict[str, object] = {}
    for argument in given or []:
        key, equals, value = argument.partition("=")
        if not key or not equals:
            raise ConfigurationError(f"--argument {argument}: {_SHAPE}")
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    return found


@contextmanager
def channel(url: str, password_file: Path | None) -> "Iterator[Channel]":
    """Raises what the client does, and ConfigurationError."""
    from flintmq import client

    with client.connect(with_password(url, password_file)) as connection:
        yield connection.channel()


def with_password(url: str, file: Path | None) -> str:
    """The URL with the password that stands in the file. Raises ConfigurationError."""
    if file is None:
        return url
    try:
        password = file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the password in {file} cannot be read: {error}") from error
    parts = urlsplit(url)
    login, _, place = parts.netloc.rpartition("@")
    user = login.partition(":")[0] or "guest"
    return urlunsplit(parts._replace(netloc=f"{user}:{quote(password, safe='')}@{place}"))
