"""`flintmq declare exchange`."""

from typing import Annotated

import typer

from flintmq.cli.amqp import DEFAULT_URL, Arguments, PasswordFile, Url, arguments_of, channel

Exchange = Annotated[str, typer.Argument(metavar="EXCHANGE", help="The exchange's name.")]


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
