"""`flintmq storage backup`: a consistent copy of a broker's data, while it runs."""

import json
from pathlib import Path
from typing import Annotated

import typer

from flintmq.base.counting import counted
from flintmq.cli.progress import progress_bar, size_in_words

Json = Annotated[bool, typer.Option("--json", help="Say what there is to say as JSON, on the standard output.")]


def backup(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where the broker keeps its messages.")],
    destination: Annotated[Path, typer.Argument(metavar="DEST", help="The backup: a new directory.")],
    as_json: Json = False,
) -> None:
    """Back a broker up, running or not: all that was confirmed before, as the broker had it at one moment."""
    from flintmq.app import offline

    work = offline.backup_of(directory, destination)
    with progress_bar("Copying", lambda: work.total) as progress:
        taken = work.take(progress)
    contents = taken.manifest
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "backup": str(destination),
                    "taken": contents.taken,
                    "files": len(contents.files),
                    "bytes": contents.total_bytes,
                    "damage": contents.damage,
                    "looks": taken.looks,
                    "cut_seconds": round(taken.cut_seconds, 3),
                    "seconds": round(taken.seconds, 3),
                }
            )
        )
        return
    for damage in contents.damage:
        typer.echo(f"flintmq: damaged before, and copied as it is: {damage}", err=True)
    files, size = counted(len(contents.files), "file"), size_in_words(contents.total_bytes)
    typer.echo(f"{destination}: the state of {contents.taken}, {files}, {size}, in {taken.seconds:.1f} s")
