"""`flintmq delete queue`."""

from typing import Annotated

import typer

from flintmq.base.counting import counted
from flintmq.cli.amqp import DEFAULT_URL, PasswordFile, Queue, Url, channel
from flintmq.cli.confirmation import Yes, confirm


def delete_queue(
    queue: Queue,
    if_unused: Annotated[bool, typer.Option("--if-unused", help="Not while it has consumers.")] = False,
    if_empty: Annotated[bool, typer.Option("--if-empty", help="Not while messages are ready on it.")] = False,
    yes: Yes = False,
    url: Url = DEFAULT_URL,
    password_file: PasswordFile = None,
) -> None:
    """Delete a queue with the messages on it. It is no error if there is no such queue."""
    # The broker refuses to delete a queue with messages itself: then there is nothing to lose.
    if not if_empty:
        confirm(f"Delete the queue {queue} with all messages on it?", yes)
    with channel(url, password_file) as opened:
        count = opened.delete_queue(queue, if_unused=if_unused, if_empty=if_empty)
    typer.echo(f"deleted with {counted(count, 'message')}", err=True)
