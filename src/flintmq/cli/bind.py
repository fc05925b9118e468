"""`flintmq bind`."""

from typing import Annotated

import typer

from flintmq.cli.amqp import DEFAULT_URL, Arguments, PasswordFile, Url, arguments_of, channel

Source = Annotated[str, typer.Argument(metavar="EXCHANGE", help="Where messages come from.")]
Destination = Annotated[str, typer.Argument(metavar="QUEUE", help="Where they go: a queue, or with --exchange one.")]
RoutingKey = Annotated[str, typer.Argument(metavar="KEY", help="The routing key or pattern.")]
ToExchange = Annotated[bool, typer.Option("--exchange", help="The destination is an exchange.")]


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
