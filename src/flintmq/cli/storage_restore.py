"""`flintmq storage restore`: a backup becomes a data directory."""

from pathlib import Path
from typing import Annotated

import typer

from flintmq.cli.progress import progress_bar, size_in_words


def restore(
    backup: Annotated[Path, typer.Argument(metavar="BACKUP", help="What `flintmq storage backup` made.")],
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new, or empty, directory for a broker's data.")],
) -> None:
    """Restore a backup: every file is checked, and nothing is overwritten."""
    from flintmq import app

    contents = app.manifest_of(backup)
    with progress_bar("Copying", lambda: contents.total_bytes) as progress:
        app.restore_backup(backup, directory, progress)
    size = size_in_words(contents.total_bytes)
    typer.echo(f"{directory}: the state of {contents.taken}, {len(contents.files)} files, {size}")
