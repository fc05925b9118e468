"""`flintmq storage verify`: read all of a data directory, and say what of it is damaged."""

import json
from pathlib import Path
from typing import Annotated, Final

import typer

from flintmq.cli.progress import progress_bar
from flintmq.cli.storage_backup import Json

EXIT_DAMAGED: Final = 1


def verify(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The data of a broker, running or not, or a backup.")
    ],
    as_json: Json = False,
) -> None:
    """Check every byte that a broker wrote, and show what there is. The status is 1 where something is damaged."""
    from flintmq.app import offline

    work = offline.verification_of(directory)
    with progress_bar("Reading", lambda: work.total) as progress:
        report = work.run(progress)
    typer.echo(json.dumps(report.fields()) if as_json else "\n".join(report.lines()))
    if report.damage:
        raise typer.Exit(EXIT_DAMAGED)
