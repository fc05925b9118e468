"""Definitions of a broker, running or stopped, as JSON."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from flintmq.base.errors import ConfigurationError, FlintError
from flintmq.cli.api import Api, endpoint
from flintmq.cli.commands import command
from flintmq.cli.options import AmqpUrl, ApiUrl, Ca, PasswordFile

Data = Annotated[Path | None, typer.Option(metavar="DIR", help="Data directory of the stopped broker.")]
Live = Annotated[bool, typer.Option("--live", help="Use the HTTP API of a running broker.")]


@command("definitions import")
def import_definitions(
    file: Annotated[Path, typer.Argument(help="Definitions file, in RabbitMQ's format.")],
    data: Data = None,
    live: Live = False,
    api_url: ApiUrl = "",
    amqp_url: AmqpUrl = "",
    password_file: PasswordFile = None,
    ca: Ca = None,
) -> None:
    """Import definitions into a stopped broker or, with --live, into a running one.

    If the file has an error, nothing is imported into a stopped broker.
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
    """Read a definitions file. Raises ConfigurationError."""
    try:
        found = json.loads(file.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"cannot read the definitions file {file}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigurationError(f"{file} is not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise ConfigurationError(f"{file} has no definitions: they are a JSON object")
    return found


@command("definitions export")
def export_definitions(
    file: Annotated[Path | None, typer.Argument(help="File to write. Default: standard output.")] = None,
    data: Data = None,
    live: Live = False,
    api_url: ApiUrl = "",
    amqp_url: AmqpUrl = "",
    password_file: PasswordFile = None,
    ca: Ca = None,
) -> None:
    """Export definitions, with password hashes, of a stopped broker or, with --live, of a running one."""
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
        # The file has password hashes, so only its owner may read it.
        file.touch(mode=0o600)
        file.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise FlintError(f"cannot write {file}: {error.strerror}") from error
