"""The connection of commands that use AMQP."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit, urlunsplit

from flintmq.cli.options import read_password

if TYPE_CHECKING:
    from flintmq.client import Channel


@contextmanager
def channel(url: str, password_file: Path | None) -> "Iterator[Channel]":
    """Connect to `url` and open a channel. Raises ConfigurationError, and the errors of the client."""
    from flintmq import client

    with client.connect(with_password(url, password_file)) as connection:
        yield connection.channel()


def with_password(url: str, file: Path | None) -> str:
    """Return `url` with the password in `file`, if there is a file. Raises ConfigurationError."""
    if file is None:
        return url
    password = quote(read_password(file), safe="")
    parts = urlsplit(url)
    login, _, place = parts.netloc.rpartition("@")
    user = login.partition(":")[0] or "guest"
    return urlunsplit(parts._replace(netloc=f"{user}:{password}@{place}"))
