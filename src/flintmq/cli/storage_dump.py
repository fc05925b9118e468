"""`flintmq storage dump`: the messages of a data directory as lines of JSON."""

import json
import os
import sys
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer


def dump(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The data of a broker, running or not, or a backup.")
    ],
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
