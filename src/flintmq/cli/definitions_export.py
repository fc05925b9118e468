"""`flintmq definitions export`: the definitions of a broker that does not run, as JSON."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from flintmq.base.errors import FlintError
from flintmq.cli.definitions_import import Data
from flintmq.server import config


def export_definitions(
    file: Annotated[Path | None, typer.Argument(help="Where to write; the standard output, if not given.")] = None,
    data: Data = None,
) -> None:
    """Export definitions, password hashes among them. The broker must not be running."""
    flags = {"storage.directory": str(data)} if data else {}

    from flintmq import app

    text = json.dumps(app.export_definitions_from(config.load(None, os.environ, flags)), indent=2)
    if file is None:
        typer.echo(text)
        return
    try:
        # Hashes can be tried out at leisure by whoever has them.
        file.touch(mode=0o600)
        file.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise FlintError(f"{file} cannot be written: {error.strerror}") from error
