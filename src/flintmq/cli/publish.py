"""`flintmq publish`: a message per argument, or per line of standard input, each confirmed."""

import sys
from collections.abc import Iterator
from typing import Annotated, Final

import typer

PERSISTENT: Final = 2

Url = Annotated[
    str,
    typer.Option(
        metavar="URL", envvar="FLINTMQ_URL", help="The broker: amqp://user:password@host:port/vhost", show_envvar=True
    ),
]
DEFAULT_URL: Final = "amqp://guest:guest@127.0.0.1:5672/%2f"


def publish(
    routing_key: Annotated[str, typer.Argument(help="The routing key; for the default exchange, the queue's name.")],
    bodies: Annotated[
        list[str] | None, typer.Argument(help="Bodies; without any, each line of standard input.")
    ] = None,
    exchange: Annotated[str, typer.Option(metavar="NAME", help="The exchange; the default one if not given.")] = "",
    transient: Annotated[bool, typer.Option("--transient", help="Do not ask for the messages to be stored.")] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Publish messages, and say how many were confirmed. One that no queue takes is an error."""
    from flintmq import client

    properties = client.encode_properties(client.Properties(delivery_mode=None if transient else PERSISTENT))

    def publishes() -> Iterator[client.Publish]:
        for body in _bodies(bodies):
            yield client.Publish(exchange, routing_key, body, properties, mandatory=True)

    with client.connect(url) as connection:
        count = connection.channel(confirms=True).publish_batch(publishes())
    typer.echo(f"{count} confirmed", err=True)


def _bodies(given: list[str] | None) -> Iterator[bytes]:
    if given:
        for body in given:
            yield body.encode()
    else:
        for line in sys.stdin.buffer:
            yield line.rstrip(b"\n")
