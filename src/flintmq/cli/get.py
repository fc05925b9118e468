"""`flintmq get`."""

from typing import TYPE_CHECKING, Annotated

import typer

from flintmq.cli.administration import Json
from flintmq.cli.amqp import DEFAULT_URL, PasswordFile, Queue, Url, channel
from flintmq.cli.messages import print_messages

if TYPE_CHECKING:
    from flintmq.client import Delivery

Count = Annotated[int, typer.Option(min=1, metavar="N", help="So many, if there are.")]


def get(
    queue: Queue,
    count: Count = 1,
    requeue: Annotated[bool, typer.Option("--requeue", help="Put them back, marked as redelivered.")] = False,
    as_json: Json = False,
    url: Url = DEFAULT_URL,
    password_file: PasswordFile = None,
) -> None:
    """Take messages from a queue and print them; they are acknowledged once printed. To look only, see browse."""
    with channel(url, password_file) as opened:
        messages: list[Delivery] = []
        while len(messages) < count and (message := opened.get(queue)) is not None:
            messages.append(message)
        print_messages(messages, as_json)
        if messages and requeue:
            opened.nack(messages[-1].delivery_tag, multiple=True)
        elif messages:
            opened.ack(messages[-1].delivery_tag, multiple=True)
