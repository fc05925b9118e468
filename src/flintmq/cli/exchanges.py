"""Exchanges."""

from typing import Annotated

import typer

from flintmq.cli.amqp import channel
from flintmq.cli.commands import command
from flintmq.cli.lists import vhost_list_command
from flintmq.cli.options import DEFAULT_URL, Arguments, PasswordFile, Url, arguments_of
from flintmq.cli.tables import Column

Exchange = Annotated[str, typer.Argument(metavar="EXCHANGE", help="Name of the exchange.")]


@command("declare exchange")
def declare_exchange(
    exchange: Exchange,
    kind: Annotated[
        str, typer.Option("--type", metavar="TYPE", help="Type: direct, topic, fanout, headers, ...")
    ] = "direct",
    transient: Annotated[bool, typer.Option("--transient", help="A restart deletes the exchange.")] = False,
    auto_delete: Annotated[
        bool, typer.Option("--auto-delete", help="Delete the exchange when its last binding is gone.")
    ] = False,
    internal: Annotated[bool, typer.Option("--internal", help="Clients cannot publish to it; exchanges can.")] = False,
    arguments: Arguments = None,
    url: Url = DEFAULT_URL,
    password_file: PasswordFile = None,
) -> None:
    """Declare an exchange. It is no error if it exists with the same properties."""
    with channel(url, password_file) as opened:
        opened.declare_exchange(
            exchange,
            kind,
            durable=not transient,
            auto_delete=auto_delete,
            internal=internal,
            arguments=arguments_of(arguments),
        )


@command("delete exchange")
def delete_exchange(
    exchange: Exchange,
    if_unused: Annotated[bool, typer.Option("--if-unused", help="Only if it has no bindings.")] = False,
    url: Url = DEFAULT_URL,
    password_file: PasswordFile = None,
) -> None:
    """Delete an exchange. It is no error if the exchange does not exist."""
    with channel(url, password_file) as opened:
        opened.delete_exchange(exchange, if_unused=if_unused)


vhost_list_command(
    "exchanges",
    "List exchanges.",
    Column("vhost", "vhost"),
    Column("name", "name", rank=0),
    Column("type", "type", rank=0),
    Column("durable", "durable"),
    Column("auto-delete", "auto_delete"),
    Column("internal", "internal"),
    Column("in", "message_stats.publish_in_details.rate", "rate"),
    Column("out", "message_stats.publish_out_details.rate", "rate"),
    Column("policy", "policy"),
    Column("arguments", "arguments"),
)
