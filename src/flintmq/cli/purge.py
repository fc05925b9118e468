"""`flintmq purge`."""

import typer

from flintmq.base.counting import counted
from flintmq.cli.amqp import DEFAULT_URL, PasswordFile, Queue, Url, channel
from flintmq.cli.confirmation import Yes, confirm


def purge(queue: Queue, yes: Yes = False, url: Url = DEFAULT_URL, password_file: PasswordFile = None) -> None:
    """Delete all messages that are ready on a queue."""
    confirm(f"Delete all ready messages on the queue {queue}?", yes)
    with channel(url, password_file) as opened:
        count = opened.purge_queue(queue)
    typer.echo(f"{counted(count, 'message')} deleted", err=True)
