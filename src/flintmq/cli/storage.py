"""A broker's data directory."""

import json
import os
import sys
from itertools import islice
from pathlib import Path
from typing import Annotated, Final

import typer

from flintmq.base.counting import counted
from flintmq.cli.commands import command
from flintmq.cli.options import Json
from flintmq.cli.progress import progress_bar, size_in_words

EXIT_DAMAGED: Final = 1

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The data of a broker, running or not, or a backup.")]


@command("storage verify")
def verify(
    directory: Directory,
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


@command("storage dump")
def dump(
    directory: Directory,
    queue: Annotated[str | None, typer.Option(metavar="NAME", help="Of this queue, or stream, only.")] = None,
    vhost: Annotated[str, typer.Option(metavar="NAME", help="Where that queue is.")] = "/",
    records: Annotated[
        bool, typer.Option("--records", help="All that the files hold, settled or not, as it was written.")
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="Stop after so many lines.")] = None,
) -> None:
    """Print messages as lines of JSON, without taking them from anywhere; of a queue in the order of the journal."""
    from flintmq.app import offline

    work = offline.dump_of(directory)
    lines = work.records(queue, vhost) if records else work.messages(queue, vhost)
    try:
        for line in islice(lines, limit):
            sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read this has seen enough; nothing may be written to it while Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    for damage in work.damage:
        typer.echo(f"flintmq: damaged, and not shown: {damage}", err=True)


@command("storage backup")
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


@command("storage restore")
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


@command("storage rebuild")
def rebuild(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where a stopped broker keeps its messages.")],
) -> None:
    """Rebuild lost, damaged or outdated definitions: virtual hosts, exchanges and queues. No message is touched."""
    from flintmq.app import offline
    from flintmq.server import config

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
