"""Definitions of a broker, running or not, as JSON."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from flintmq.base.errors import ConfigurationError, FlintError
from flintmq.cli.api import Api, endpoint
from flintmq.cli.commands import command
from flintmq.cli.options import AmqpUrl, ApiUrl, Ca, PasswordFile

Data = Annotated[Path | None, typer.Option(metavar="DIR", help="Where the broker keeps its messages.")]
Live = Annotated[bool, typer.Option("--live", help="Of the broker that runs, by its API.")]


@command("definitions import")
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
    from flintmq.server import config

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


@command("definitions export")
def export_definitions(
    file: Annotated[Path | None, typer.Argument(help="Where to write; the standard output, if not given.")] = None,
    data: Data = None,
    live: Live = False,
    api_url: ApiUrl = "",
    amqp_url: AmqpUrl = "",
    password_file: PasswordFile = None,
    ca: Ca = None,
) -> None:
    """Export definitions, password hashes too: of a broker that does not run or, with --live, of one that does."""
    if live:
        with Api(endpoint(api_url, amqp_url, password_file, ca)) as api:
            definitions = api.get("definitions")
    else:
        flags = {"storage.directory": str(data)} if data else {}

        from flintmq.app import offline
        from flintmq.server import config

        definitions = offline.export_definitions_from(config.load(None, os.environ, flags))
    text = json.dumps(definitions, indent=2)
    if file is None:
        typer.echo(text)
        return
    try:
        # Hashes can be tried out at leisure by whoever has them.
        file.touch(mode=0o600)
        file.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise FlintError(f"{file} cannot be written: {error.strerror}") from error
