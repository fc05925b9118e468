"""Bindings of queues and exchanges to exchanges."""

from typing import Annotated

import typer

from flintmq.cli.amqp import channel
from flintmq.cli.commands import command
from flintmq.cli.lists import vhost_list_command
from flintmq.cli.options import DEFAULT_URL, Arguments, PasswordFile, Url, arguments_of
from flintmq.cli.tables import Column

Source = Annotated[str, typer.Argument(metavar="EXCHANGE", help="Name of the source exchange.")]
Destination = Annotated[
    str, typer.Argument(metavar="QUEUE", help="Name of the destination: a queue, or an exchange with --exchange.")
]
RoutingKey = Annotated[str, typer.Argument(metavar="KEY", help="Routing key or pattern.")]
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
    """Bind a queue or an exchange to an exchange."""
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
    """Remove a binding. Routing key and arguments must be those of the binding."""
    with channel(url, password_file) as opened:
        how = opened.unbind_exchange if to_exchange else opened.unbind
        how(destination, source, routing_key, arguments_of(arguments))


vhost_list_command(
    "bindings",
    "List bindings of queues and exchanges.",
    Column("vhost", "vhost"),
    Column("source", "source", rank=0),
    Column("destination", "destination", rank=0),
    Column("kind", "destination_type"),
    Column("routing key", "routing_key", rank=0),
    Column("arguments", "arguments"),
)
