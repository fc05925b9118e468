"""The data directory of a broker."""

import json
import os
import sys
from itertools import islice
from pathlib import Path
from typing import Annotated, Final

import typer

from flintmq.base.plurals import counted
from flintmq.cli.commands import command
from flintmq.cli.options import Json
from flintmq.cli.progress import progress_bar, size_in_words

EXIT_DAMAGED: Final = 1

Directory = Annotated[
    Path, typer.Argument(metavar="DIR", help="Data directory of a broker, running or stopped, or a backup.")
]


@command("storage verify")
def verify(
    directory: Directory,
    as_json: Json = False,
) -> None:
    """Check every byte of a data directory, and print what it contains. Exit status 1 if something is damaged."""
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
    queue: Annotated[str | None, typer.Option(metavar="NAME", help="Only this queue or stream.")] = None,
    vhost: Annotated[str, typer.Option(metavar="NAME", help="Virtual host of the queue.")] = "/",
    records: Annotated[
        bool, typer.Option("--records", help="Print all records of the files, with those of settled messages.")
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="Maximum number of lines.")] = None,
) -> None:
    """Print messages as lines of JSON, in the order of the journal. Nothing is removed."""
    from flintmq.app import offline

    work = offline.dump_of(directory)
    lines = work.records(queue, vhost) if records else work.messages(queue, vhost)
    try:
        for line in islice(lines, limit):
            sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader, such as `head`, closed the pipe. Python must not write to it again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    for damage in work.damage:
        typer.echo(f"flintmq: damaged, not printed: {damage}", err=True)


@command("storage backup")
def backup(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Data directory of the broker.")],
    destination: Annotated[Path, typer.Argument(metavar="DEST", help="Directory of the backup; must be new.")],
    as_json: Json = False,
) -> None:
    """Back up a broker, running or stopped: a consistent copy with all that was confirmed before."""
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
                    "looks": taken.attempts,
                    "cut_seconds": round(taken.snapshot_seconds, 3),
                    "seconds": round(taken.seconds, 3),
                }
            )
        )
        return
    for damage in contents.damage:
        typer.echo(f"flintmq: already damaged, copied as it is: {damage}", err=True)
    files, size = counted(len(contents.files), "file"), size_in_words(contents.total_bytes)
    typer.echo(f"{destination}: state of {contents.taken}, {files}, {size}, in {taken.seconds:.1f} s")


@command("storage restore")
def restore(
    backup: Annotated[Path, typer.Argument(metavar="BACKUP", help="A backup made by `flintmq storage backup`.")],
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Data directory to create; must be new or empty.")],
) -> None:
    """Restore a backup into a new data directory. Every file is checked; nothing is overwritten."""
    from flintmq.app import offline

    contents = offline.manifest_of(backup)
    with progress_bar("Copying", lambda: contents.total_bytes) as progress:
        offline.restore_backup(backup, directory, progress)
    # The restored directory is checked as well, because a broker will start with it.
    work = offline.verification_of(directory)
    with progress_bar("Reading", lambda: work.total) as progress:
        report = work.run(progress)
    files, size = counted(len(contents.files), "file"), size_in_words(contents.total_bytes)
    typer.echo(f"{directory}: state of {contents.taken}, {files}, {size}")
    typer.echo("\n".join(report.lines()))
    if report.damage:
        raise typer.Exit(EXIT_DAMAGED)


@command("storage rebuild")
def rebuild(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Data directory of a stopped broker.")],
) -> None:
    """Rebuild lost, damaged or outdated definitions from the messages: virtual hosts, exchanges and queues.

    Messages are not changed.
    """
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
        typer.echo(f"the old definitions are in {rebuilt.kept_in}")
    if rebuilt.unnamed:
        typer.echo(f"the names of these queues are lost, so they have new names: {', '.join(rebuilt.unnamed)}")
    if rebuilt.had_base:
        typer.echo("users, permissions, policies and bindings are those of the old definitions: check them")
        return
    typer.echo("users, permissions, policies and bindings are lost: import them with `flintmq definitions import`")
    typer.echo(f"until then the only user is '{settings.default_user.name}', as in a new broker")
