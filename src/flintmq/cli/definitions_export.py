"""`flintmq definitions export`: the definitions of a broker, running or not, as JSON."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from flintmq.base.errors import FlintError
from flintmq.cli.administration import AmqpUrl, ApiUrl, Ca, PasswordFile
from flintmq.cli.api import Api, endpoint
from flintmq.cli.definitions_import import Data, Live
from flintmq.server import config


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
