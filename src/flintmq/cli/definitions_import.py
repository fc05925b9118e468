"""`flintmq definitions import`: a file of definitions into a broker, running or not."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from flintmq.base.errors import ConfigurationError
from flintmq.cli.administration import AmqpUrl, ApiUrl, Ca, PasswordFile
from flintmq.cli.api import Api, endpoint
from flintmq.server import config

Data = Annotated[Path | None, typer.Option(metavar="DIR", help="Where the broker keeps its messages.")]
Live = Annotated[bool, typer.Option("--live", help="Of the broker that runs, by its API.")]


def import_definitions(
    file: Annotated[Path, typer.Argument(help="A file of definitions, such as RabbitMQ exports.")],
    data: Data = None,
    live: Live = False,
    api_url: ApiUrl = "",
    amqp_url: AmqpUrl = "",
    password_file: PasswordFile = None,
    ca: Ca = None,
) -> None:
    """Import definitions: into a broker that does not run or, with --live, into one that does.

    Of a file in which anything is wrong, a broker that does not run takes nothing.
    """
    if live:
        definitions = _read(file)
        with Api(endpoint(api_url, amqp_url, password_file, ca)) as api:
            api.post("definitions", definitions)
        return
    flags = {"definitions.load": str(file)} | ({"storage.directory": str(data)} if data else {})

    from flintmq.app import offline

    for remark in offline.import_definitions_into(config.load(None, os.environ, flags)):
        typer.echo(f"flintmq: {remark}", err=True)


def _read(file: Path) -> dict[str, object]:
    """Raises ConfigurationError."""
    try:
        found = json.loads(file.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"cannot read the definitions in {file}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigurationError(f"{file} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ConfigurationError(f"{file} has no definitions in it: they are an object")
    return found
