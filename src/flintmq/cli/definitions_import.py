"""`flintmq definitions import`: a file of definitions into the data of a broker that does not run."""

import os
from pathlib import Path
from typing import Annotated

import typer

from flintmq.server import config

Data = Annotated[Path | None, typer.Option(metavar="DIR", help="Where the broker keeps its messages.")]


def import_definitions(
    file: Annotated[Path, typer.Argument(help="A file of definitions, such as RabbitMQ exports.")], data: Data = None
) -> None:
    """Import definitions: all of a file or, if anything in it is wrong, nothing. The broker must not be running."""
    flags = {"definitions.load": str(file)} | ({"storage.directory": str(data)} if data else {})

    from flintmq import app

    for remark in app.import_definitions_into(config.load(None, os.environ, flags)):
        typer.echo(f"flintmq: {remark}", err=True)
