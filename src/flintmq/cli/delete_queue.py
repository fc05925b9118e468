"""`flintmq delete queue`."""

from typing import Annotated

import typer

from flintmq.base.counting import counted
from flintmq.cli.amqp import DEFAULT_URL, PasswordFile, Queue, Url, channel


def delete_queue(
    queue: Queue,
    if_unused: Annotated[bool, typer.Option("--if-unused", help="Not while it has consumers.")] = False,
    if_empty: Annotated[bool, typer.Option("--if-empty", help="Not while messages are ready on it.")] = False,
    url: Url = DEFAULT_URL,
    password_file: PasswordFile = None,
) -> None:
    """Delete a queue with the messages on it. One that is not there is no error."""
    with channel(url, password_file) as opened:
        count = opened.delete_queue(queue, if_unused=if_unused, if_empty=if_empty)
    typer.echo(f"deleted with {counted(count, 'message')}", err=True)
