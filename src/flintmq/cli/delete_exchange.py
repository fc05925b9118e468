"""`flintmq delete exchange`."""

from typing import Annotated

import typer

from flintmq.cli.amqp import DEFAULT_URL, PasswordFile, Url, channel
from flintmq.cli.declare_exchange import Exchange


def delete_exchange(
    exchange: Exchange,
    if_unused: Annotated[bool, typer.Option("--if-unused", help="Not while anything is bound to it.")] = False,
    url: Url = DEFAULT_URL,
    password_file: PasswordFile = None,
) -> None:
    """Delete an exchange. One that is not there is no error."""
    with channel(url, password_file) as opened:
        opened.delete_exchange(exchange, if_unused=if_unused)
