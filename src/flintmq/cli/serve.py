"""`flintmq serve`: run a broker until it is told to stop."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from flintmq.cli.config_show import ConfigFile
from flintmq.server import config

Data = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Where messages are kept; ./flintmq-data, if nothing names another place."),
]
Host = Annotated[str | None, typer.Option(metavar="ADDRESS", help="The address to listen on.")]
Port = Annotated[int | None, typer.Option(metavar="PORT", help="The port to listen on; 0 takes a free one.")]


def serve(
    config_file: ConfigFile = None,
    data: Data = None,
    host: Host = None,
    port: Port = None,
    log_level: Annotated[str | None, typer.Option(metavar="LEVEL", help="debug, info, warning or error.")] = None,
    log_format: Annotated[str | None, typer.Option(metavar="FORMAT", help="text or json.")] = None,
) -> None:
    """Run a broker. Flags win over the environment (FLINTMQ_LISTEN_PORT and so on), and it wins over the file."""
    given = flags(data, host, port, {"log.level": log_level, "log.format": log_format})

    def load() -> config.Settings:
        return config.load(config_file, os.environ, given)

    settings = load()

    from flintmq.app.serving import run

    raise typer.Exit(run(settings, load))


def flags(
    data: Path | None, host: str | None, port: int | None, more: Mapping[str, str | None] | None = None
) -> dict[str, str]:
    """By the settings that they are for."""
    found = {"storage.directory": data, "listen.host": host, "listen.port": port, **(more or {})}
    return {key: str(value) for key, value in found.items() if value is not None}
