"""The broker's process: run it, ask whether it answers, and look for what keeps it from running well."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

import typer

from flintmq.cli.api import Unreachable
from flintmq.cli.commands import command
from flintmq.cli.options import ConfigFile, Json
from flintmq.cli.tables import printable

Data = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Where messages are kept; ./flintmq-data, if nothing names another place."),
]
Host = Annotated[str | None, typer.Option(metavar="ADDRESS", help="The address to listen on.")]
Port = Annotated[int | None, typer.Option(metavar="PORT", help="The port to listen on; 0 takes a free one.")]

_HEADER: Final = b"AMQP\x00\x00\x09\x01"
# connection.start is a method frame on channel 0, of class 10 and method 10.
_START: Final = b"\x01\x00\x00"
_PING_SECONDS: Final = 4.0
_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where we are, then
_COLOURS: Final = {"fine": typer.colors.GREEN, "doubtful": typer.colors.YELLOW, "wrong": typer.colors.RED}


@command("serve")
def serve(
    config_file: ConfigFile = None,
    data: Data = None,
    host: Host = None,
    port: Port = None,
    log_level: Annotated[str | None, typer.Option(metavar="LEVEL", help="debug, info, warning or error.")] = None,
    log_format: Annotated[str | None, typer.Option(metavar="FORMAT", help="text or json.")] = None,
) -> None:
    """Run a broker. Flags win over the environment (FLINTMQ_LISTEN_PORT and so on), and it wins over the file."""
    from flintmq.server import config

    given = _flags(data, host, port, {"log.level": log_level, "log.format": log_format})

    def load() -> config.Settings:
        return config.load(config_file, os.environ, given)

    settings = load()

    from flintmq.app.serving import run

    raise typer.Exit(run(settings, load))


def _flags(
    data: Path | None, host: str | None, port: int | None, more: Mapping[str, str | None] | None = None
) -> dict[str, str]:
    """By the settings that they are for."""
    found = {"storage.directory": data, "listen.host": host, "listen.port": port, **(more or {})}
    return {key: str(value) for key, value in found.items() if value is not None}


@command("ping")
def ping(
    host: Annotated[str | None, typer.Option(metavar="ADDRESS", help="By the settings, if not given.")] = None,
    port: Annotated[int | None, typer.Option(metavar="PORT", help="By the settings, if not given.")] = None,
) -> None:
    """Ask a broker for its first word. Status 0 if it says it within 4 seconds, 3 if not; no login is needed."""
    import socket

    from flintmq.server import config

    file = os.environ.get(config.FILE_VARIABLE)
    listen = config.load(Path(file) if file else None, os.environ, {}).listen
    place = host or _EVERYWHERE.get(listen.host, listen.host), listen.port if port is None else port
    try:
        with socket.create_connection(place, _PING_SECONDS) as connection:
            connection.sendall(_HEADER)
            first = connection.recv(len(_START))
    except OSError as error:
        raise Unreachable(f"no broker at {place[0]}:{place[1]}: {error.strerror or error}") from error
    if first != _START:
        raise Unreachable(f"what listens at {place[0]}:{place[1]} speaks no AMQP")
    typer.echo("the broker speaks AMQP")


@command("doctor")
def doctor(
    config_file: ConfigFile = None,
    data: Data = None,
    host: Host = None,
    port: Port = None,
    as_json: Json = False,
) -> None:
    """Look for what would keep `flintmq serve` with the same flags from starting, or from running well.

    Nothing is changed. Status 1 if anything is wrong; what is only doubtful does not count.
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
