"""Queues and streams."""

from typing import Annotated

import typer

from flintmq.base.plurals import counted
from flintmq.cli.amqp import channel
from flintmq.cli.commands import command
from flintmq.cli.lists import vhost_list_command
from flintmq.cli.options import DEFAULT_URL, Arguments, PasswordFile, Queue, Url, Yes, arguments_of, confirm
from flintmq.cli.tables import Column


@command("declare queue")
def declare_queue(
    queue: Queue,
    kind: Annotated[str, typer.Option("--type", metavar="TYPE", help="Type: classic, quorum or stream.")] = "",
    transient: Annotated[
        bool, typer.Option("--transient", help="A restart deletes the queue and its messages.")
    ] = False,
    auto_delete: Annotated[
        bool, typer.Option("--auto-delete", help="Delete the queue when its last consumer is gone.")
    ] = False,
    arguments: Arguments = None,
    url: Url = DEFAULT_URL,
    password_file: PasswordFile = None,
) -> None:
    """Declare a queue or a stream. It is no error if it exists with the same properties."""
    found = arguments_of(arguments) | ({"x-queue-type": kind} if kind else {})
    with channel(url, password_file) as opened:
        opened.declare_queue(queue, durable=not transient, auto_delete=auto_delete, arguments=found)


@command("delete queue")
def delete_queue(
    queue: Queue,
    if_unused: Annotated[bool, typer.Option("--if-unused", help="Only if it has no consumers.")] = False,
    if_empty: Annotated[bool, typer.Option("--if-empty", help="Only if it has no ready messages.")] = False,
    yes: Yes = False,
    url: Url = DEFAULT_URL,
    password_file: PasswordFile = None,
) -> None:
    """Delete a queue and its messages. It is no error if the queue does not exist."""
    # With --if-empty, the broker refuses to delete a queue that has messages.
    if not if_empty:
        confirm(f"Delete the queue {queue} and all its messages?", yes)
    with channel(url, password_file) as opened:
        count = opened.delete_queue(queue, if_unused=if_unused, if_empty=if_empty)
    typer.echo(f"deleted with {counted(count, 'message')}", err=True)


@command("purge")
def purge(queue: Queue, yes: Yes = False, url: Url = DEFAULT_URL, password_file: PasswordFile = None) -> None:
    """Delete all ready messages of a queue."""
    confirm(f"Delete all ready messages of the queue {queue}?", yes)
    with channel(url, password_file) as opened:
        count = opened.purge_queue(queue)
    typer.echo(f"{counted(count, 'message')} deleted", err=True)


vhost_list_command(
    "queues",
    "List queues and streams.",
    Column("vhost", "vhost"),
    Column("name", "name", rank=0),
    Column("type", "type"),
    Column("state", "state"),
    Column("ready", "messages_ready", "count"),
    Column("unacked", "messages_unacknowledged", "count"),
    Column("bytes", "message_bytes", "bytes"),
    Column("in", "message_stats.publish_details.rate", "rate"),
    Column("out", "message_stats.deliver_get_details.rate", "rate"),
    Column("consumers", "consumers", "count"),
    Column("policy", "policy"),
    Column("arguments", "arguments"),
)


vhost_list_command(
    "streams",
    "List streams, with their size and offsets.",
    Column("vhost", "vhost"),
    Column("name", "name", rank=0),
    Column("records", "messages", "count"),
    Column("bytes", "message_bytes", "bytes"),
    Column("segments", "segments", "count"),
    Column("first", "first_offset", "count"),
    Column("next", "next_offset", "count"),
    Column("in", "message_stats.publish_details.rate", "rate"),
    Column("out", "message_stats.deliver_get_details.rate", "rate"),
    Column("consumers", "consumers", "count"),
    Column("policy", "policy"),
    Column("arguments", "arguments"),
)
