"""`flintmq storage rebuild`: definitions that are lost, made anew from what the messages say of them."""

import os
from pathlib import Path
from typing import Annotated

import typer

from flintmq.base.counting import counted
from flintmq.cli.progress import progress_bar
from flintmq.server import config


def rebuild(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where a stopped broker keeps its messages.")],
) -> None:
    """Rebuild lost, damaged or outdated definitions: virtual hosts, exchanges and queues. No message is touched."""
    from flintmq.app import offline

    settings = config.load(None, os.environ, {"storage.directory": str(directory)})
    total = offline.size_of_journal(directory)
    with progress_bar("Reading", lambda: total) as progress:
        rebuilt = offline.rebuild_definitions(settings, progress)
    found = rebuilt.definitions
    counts = (counted(len(found.vhosts), "vhost"), counted(len(found.exchanges), "exchange"))
    typer.echo(f"{directory}: rebuilt {', '.join(counts)}, {counted(len(found.queues), 'queue')}")
    if rebuilt.kept_in is not None:
        typer.echo(f"the definitions that were there are in {rebuilt.kept_in}")
    if rebuilt.unnamed:
        typer.echo(f"no name is known of these queues, so they have new ones: {', '.join(rebuilt.unnamed)}")
    if rebuilt.had_base:
        typer.echo("users, permissions, policies and bindings are those of the old definitions: look through them")
        return
    typer.echo("users, permissions, policies and bindings are not known: `flintmq definitions import` brings them")
    typer.echo(f"until then there is the user '{settings.default_user.name}', as in a new broker")
