"""`flintmq declare queue`."""

from typing import Annotated

import typer

from flintmq.cli.amqp import DEFAULT_URL, Arguments, PasswordFile, Queue, Url, arguments_of, channel


def declare_queue(
    queue: Queue,
    kind: Annotated[str, typer.Option("--type", metavar="TYPE", help="classic, quorum or stream.")] = "",
    transient: Annotated[bool, typer.Option("--transient", help="Gone with a restart, messages and all.")] = False,
    auto_delete: Annotated[bool, typer.Option("--auto-delete", help="Deleted with its last consumer.")] = False,
    arguments: Arguments = None,
    url: Url = DEFAULT_URL,
    password_file: PasswordFile = None,
) -> None:
    """Declare a queue or a stream. One that is there as it is described is no error."""
    found = arguments_of(arguments) | ({"x-queue-type": kind} if kind else {})
    with channel(url, password_file) as opened:
        opened.declare_queue(queue, durable=not transient, auto_delete=auto_delete, arguments=found)
