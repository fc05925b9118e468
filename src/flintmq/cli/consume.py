"""`flintmq consume`: bodies from a queue to standard output, a line each, acknowledged once written."""

import sys
from typing import Annotated

import typer

from flintmq.cli.publish import DEFAULT_URL, Url


def consume(
    queue: Annotated[str, typer.Argument(help="The queue, or the stream.")],
    count: Annotated[int | None, typer.Option(min=1, metavar="N", help="Stop after so many messages.")] = None,
    wait: Annotated[
        float | None, typer.Option(min=0, metavar="SECONDS", help="Stop after so long without one; else never.")
    ] = None,
    offset: Annotated[
        str | None,
        typer.Option(metavar="OFFSET", help="Where to start in a stream: first, last, next, a number, or an age (2h)."),
    ] = None,
    reader: Annotated[
        str | None, typer.Option(metavar="NAME", help="Go on in a stream where the reader of this name has stopped.")
    ] = None,
    values: Annotated[
        list[str] | None,
        typer.Option("--filter", metavar="VALUE", help="Of a stream, only this filter value."),
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Print the bodies of a queue's messages and acknowledge them. What was not printed stays on the queue."""
    from flintmq import client

    arguments: dict[str, object] = {}
    if offset is not None:
        arguments["x-stream-offset"] = int(offset) if offset.isdecimal() else offset
    if reader is not None:
        arguments["x-stream-reader"] = reader
    if values:
        arguments["x-stream-filter"] = values
    window = min(count or 1000, 1000)
    left = count
    with client.connect(url) as connection:
        channel = connection.channel()
        for batch in channel.consume(queue, prefetch=window, batch_size=window, timeout=wait, arguments=arguments):
            wanted = batch.messages if left is None else batch.messages[:left]
            for message in wanted:
                sys.stdout.buffer.write(message.body + b"\n")
            sys.stdout.buffer.flush()
            channel.ack(wanted[-1].delivery_tag, multiple=True)
            if left is not None:
                left -= len(wanted)
                if left == 0:
                    break
