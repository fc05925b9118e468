"""Bindings of queues and exchanges."""

from typing import Annotated

import typer

from flintmq.cli.amqp import channel
from flintmq.cli.commands import command
from flintmq.cli.lists import vhost_list_command
from flintmq.cli.options import DEFAULT_URL, Arguments, PasswordFile, Url, arguments_of
from flintmq.cli.tables import Column

Source = Annotated[str, typer.Argument(metavar="EXCHANGE", help="Where messages come from.")]
Destination = Annotated[str, typer.Argument(metavar="QUEUE", help="Where they go: a queue, or with --exchange one.")]
RoutingKey = Annotated[str, typer.Argument(metavar="KEY", help="The routing key or pattern.")]
ToExchange = Annotated[bool, typer.Option("--exchange", help="The destination is an exchange.")]


@command("bind")
def bind(
    source: Source,
    destination: Destination,
    routing_key: RoutingKey = "",
    to_exchange: ToExchange = False,
    arguments: Arguments = None,
    url: Url = DEFAULT_URL,
    password_file: PasswordFile = None,
) -> None:
    """Bind a queue, or an exchange, to an exchange."""
    with channel(url, password_file) as opened:
        how = opened.bind_exchange if to_exchange else opened.bind
        how(destination, source, routing_key, arguments_of(arguments))


@command("unbind")
def unbind(
    source: Source,
    destination: Destination,
    routing_key: RoutingKey = "",
    to_exchange: ToExchange = False,
    arguments: Arguments = None,
    url: Url = DEFAULT_URL,
    password_file: PasswordFile = None,
) -> None:
    """Undo a binding: key and arguments have to be those that it was made with."""
    with channel(url, password_file) as opened:
        how = opened.unbind_exchange if to_exchange else opened.unbind
        how(destination, source, routing_key, arguments_of(arguments))


vhost_list_command(
    "bindings",
    "Bindings of queues and exchanges.",
    Column("vhost", "vhost"),
    Column("source", "source", rank=0),
    Column("destination", "destination", rank=0),
    Column("kind", "destination_type"),
    Column("routing key", "routing_key", rank=0),
    Column("arguments", "arguments"),
)
