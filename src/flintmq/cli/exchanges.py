"""Exchanges."""

from typing import Annotated

import typer

from flintmq.cli.amqp import channel
from flintmq.cli.commands import command
from flintmq.cli.lists import vhost_list_command
from flintmq.cli.options import DEFAULT_URL, Arguments, PasswordFile, Url, arguments_of
from flintmq.cli.tables import Column

Exchange = Annotated[str, typer.Argument(metavar="EXCHANGE", help="The exchange's name.")]


@command("declare exchange")
def declare_exchange(
    exchange: Exchange,
    kind: Annotated[str, typer.Option("--type", metavar="TYPE", help="direct, topic, fanout, headers, ...")] = "direct",
    transient: Annotated[bool, typer.Option("--transient", help="Gone with a restart.")] = False,
    auto_delete: Annotated[bool, typer.Option("--auto-delete", help="Deleted with its last binding.")] = False,
    internal: Annotated[bool, typer.Option("--internal", help="Only exchanges publish to it.")] = False,
    arguments: Arguments = None,
    url: Url = DEFAULT_URL,
    password_file: PasswordFile = None,
) -> None:
    """Declare an exchange. One that is there as it is described is no error."""
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
    if_unused: Annotated[bool, typer.Option("--if-unused", help="Not while anything is bound to it.")] = False,
    url: Url = DEFAULT_URL,
    password_file: PasswordFile = None,
) -> None:
    """Delete an exchange. One that is not there is no error."""
    with channel(url, password_file) as opened:
        opened.delete_exchange(exchange, if_unused=if_unused)


vhost_list_command(
    "exchanges",
    "Exchanges.",
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
