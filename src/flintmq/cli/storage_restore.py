"""`flintmq storage restore`: a backup becomes a data directory."""

from pathlib import Path
from typing import Annotated

import typer

from flintmq.base.counting import counted
from flintmq.cli.progress import progress_bar, size_in_words
from flintmq.cli.storage_verify import EXIT_DAMAGED


def restore(
    backup: Annotated[Path, typer.Argument(metavar="BACKUP", help="What `flintmq storage backup` made.")],
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new, or empty, directory for a broker's data.")],
) -> None:
    """Restore a backup: every file is checked, and nothing is overwritten."""
    from flintmq.app import offline

    contents = offline.manifest_of(backup)
    with progress_bar("Copying", lambda: contents.total_bytes) as progress:
        offline.restore_backup(backup, directory, progress)
    # What came of it is read once more: it is what a broker will start with.
    work = offline.verification_of(directory)
    with progress_bar("Reading", lambda: work.total) as progress:
        report = work.run(progress)
    files, size = counted(len(contents.files), "file"), size_in_words(contents.total_bytes)
    typer.echo(f"{directory}: the state of {contents.taken}, {files}, {size}")
    typer.echo("\n".join(report.lines()))
    if report.damage:
        raise typer.Exit(EXIT_DAMAGED)
