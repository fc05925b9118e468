"""`flintmq serve`: run a broker until it is told to stop."""

import os
from pathlib import Path
from typing import Annotated

import typer

from flintmq.server import config


def serve(
    config_file: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", envvar=config.FILE_VARIABLE, help="Settings, in TOML."),
    ] = None,
    data: Annotated[Path | None, typer.Option(metavar="DIR", help="Where messages are kept.")] = None,
    host: Annotated[str | None, typer.Option(metavar="ADDRESS", help="The address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(metavar="PORT", help="The port to listen on; 0 takes a free one.")] = None,
    log_level: Annotated[str | None, typer.Option(metavar="LEVEL", help="debug, info, warning or error.")] = None,
    log_format: Annotated[str | None, typer.Option(metavar="FORMAT", help="text or json.")] = None,
) -> None:
    """Run a broker. Flags win over the environment (FLINTMQ_LISTEN_PORT and so on), and it wins over the file."""
    flags = {
        "storage.directory": data,
        "listen.host": host,
        "listen.port": port,
        "log.level": log_level,
        "log.format": log_format,
    }
    given = {key: str(value) for key, value in flags.items() if value is not None}

    def load() -> config.Settings:
        return config.load(config_file, os.environ, given)

    settings = load()

    from flintmq import app

    raise typer.Exit(app.run(settings, load))
