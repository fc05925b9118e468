"""The broker process: run it, check that it answers, and find what prevents it from starting."""

import gc
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from flintmq.cli.api import Unreachable
from flintmq.cli.commands import command
from flintmq.cli.options import ConfigFile, Json
from flintmq.cli.tables import printable

if TYPE_CHECKING:
    from flintmq.server.config import Settings

Data = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Data directory. Default: ./flintmq-data."),
]
Host = Annotated[str | None, typer.Option(metavar="ADDRESS", help="Address to listen on.")]
Port = Annotated[int | None, typer.Option(metavar="PORT", help="Port to listen on; 0 means any free port.")]

_HEADER: Final = b"AMQP\x00\x00\x09\x01"
# connection.start is a method frame on channel 0, of class 10 and method 10.
_START: Final = b"\x01\x00\x00"
_PING_SECONDS: Final = 4.0
_ALL_ADDRESSES: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - all addresses include this machine's
_COLOURS: Final = {"fine": typer.colors.GREEN, "doubtful": typer.colors.YELLOW, "wrong": typer.colors.RED}


@command("serve")
def serve(
    config_file: ConfigFile = None,
    data: Data = None,
    host: Host = None,
    port: Port = None,
    log_level: Annotated[
        str | None, typer.Option(metavar="LEVEL", help="Log level: debug, info, warning or error.")
    ] = None,
    log_format: Annotated[str | None, typer.Option(metavar="FORMAT", help="Log format: text or json.")] = None,
) -> None:
    """Run a broker. Flags override environment variables such as FLINTMQ_LISTEN_PORT, and these override the file."""
    from flintmq.server import config

    given = _flags(data, host, port, {"log.level": log_level, "log.format": log_format})

    def load() -> config.Settings:
        return config.load(config_file, os.environ, given)

    settings = load()

    # What a start creates stays: looking for garbage in it takes a tenth of the start. `run` turns this on again.
    gc.disable()
    raise typer.Exit(_load_run()(settings, load))


def _load_run() -> "Callable[[Settings, Callable[[], Settings]], int]":
    """Import `run`, and rich not with it.

    structlog imports rich where it is installed, to draw tracebacks. The log of a broker has none of these, and rich
    takes 35 ms and 3 MB.
    """
    is_hidden = sys.modules.setdefault("rich", None) is None  # type: ignore[arg-type]
    from flintmq.app.process import run

    if is_hidden:
        del sys.modules["rich"]
    return run


def _flags(
    data: Path | None, host: str | None, port: int | None, more: Mapping[str, str | None] | None = None
) -> dict[str, str]:
    """The flags that are given, by the names of their settings."""
    found = {"storage.directory": data, "listen.host": host, "listen.port": port, **(more or {})}
    return {key: str(value) for key, value in found.items() if value is not None}


@command("ping")
def ping(
    host: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Default: from the settings.")] = None,
    port: Annotated[int | None, typer.Option(metavar="PORT", help="Default: from the settings.")] = None,
) -> None:
    """Check that a broker answers, without a login. Exit status 0 if it answers within 4 seconds, 3 if not."""
    import socket

    from flintmq.server import config

    file = os.environ.get(config.FILE_VARIABLE)
    listen = config.load(Path(file) if file else None, os.environ, {}).listen
    address = host or _ALL_ADDRESSES.get(listen.host, listen.host), listen.port if port is None else port
    try:
        with socket.create_connection(address, _PING_SECONDS) as connection:
            connection.sendall(_HEADER)
            first = connection.recv(len(_START))
    except OSError as error:
        raise Unreachable(f"no broker at {address[0]}:{address[1]}: {error.strerror or error}") from error
    if first != _START:
        raise Unreachable(f"the server at {address[0]}:{address[1]} does not speak AMQP")
    typer.echo("the broker speaks AMQP")


@command("doctor")
def doctor(
    config_file: ConfigFile = None,
    data: Data = None,
    host: Host = None,
    port: Port = None,
    as_json: Json = False,
) -> None:
    """Check whether `flintmq serve` with the same flags can start and run well. Nothing is changed.

    Exit status 1 if anything is wrong; `doubtful` does not count.
    """
    from flintmq.cli.diagnosis import examine
    from flintmq.server import config

    settings = config.load(config_file, os.environ, _flags(data, host, port))
    findings = examine(settings, config_file, config.variables_in(os.environ))
    if as_json:
        typer.echo(json.dumps([finding.__dict__ for finding in findings]))
    else:
        for finding in findings:
            verdict = typer.style(f"{finding.verdict:<9}", fg=_COLOURS[finding.verdict])
            typer.echo(f"{verdict}{finding.about:<16}{printable(finding.text)}")
    if any(finding.verdict == "wrong" for finding in findings):
        raise typer.Exit(1)
