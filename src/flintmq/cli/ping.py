"""`flintmq ping`: whether a broker speaks AMQP, without a login; for health checks."""

import os
import socket
from pathlib import Path
from typing import Annotated, Final

import typer

from flintmq.cli.api import Unreachable
from flintmq.server import config

_HEADER: Final = b"AMQP\x00\x00\x09\x01"
# connection.start is a method frame on channel 0, of class 10 and method 10.
_START: Final = b"\x01\x00\x00"
_TIMEOUT_SECONDS: Final = 4.0
_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where we are, then


def ping(
    host: Annotated[str | None, typer.Option(metavar="ADDRESS", help="By the settings, if not given.")] = None,
    port: Annotated[int | None, typer.Option(metavar="PORT", help="By the settings, if not given.")] = None,
) -> None:
    """Ask a broker for its first word. Status 0 if it says it within 4 seconds, 3 if not; no login is needed."""
    file = os.environ.get(config.FILE_VARIABLE)
    listen = config.load(Path(file) if file else None, os.environ, {}).listen
    place = host or _EVERYWHERE.get(listen.host, listen.host), listen.port if port is None else port
    try:
        with socket.create_connection(place, _TIMEOUT_SECONDS) as connection:
            connection.sendall(_HEADER)
            first = connection.recv(len(_START))
    except OSError as error:
        raise Unreachable(f"no broker at {place[0]}:{place[1]}: {error.strerror or error}") from error
    if first != _START:
        raise Unreachable(f"what listens at {place[0]}:{place[1]} speaks no AMQP")
    typer.echo("the broker speaks AMQP")
