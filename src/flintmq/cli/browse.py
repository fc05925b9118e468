"""`flintmq browse`."""

from typing import TYPE_CHECKING

from flintmq.cli.administration import Json
from flintmq.cli.amqp import DEFAULT_URL, PasswordFile, Queue, Url, channel
from flintmq.cli.get import Count
from flintmq.cli.messages import print_messages

if TYPE_CHECKING:
    from flintmq.client import Delivery

# From what is ready, the broker sends the next ones at once.
_IDLE_SECONDS = 0.5


def browse(
    queue: Queue,
    count: Count = 20,
    as_json: Json = False,
    url: Url = DEFAULT_URL,
    password_file: PasswordFile = None,
) -> None:
    """Print the oldest messages that are ready on a queue, and take none. Nobody notices; read streams with consume."""
    messages: list[Delivery] = []
    with channel(url, password_file) as opened:
        # Passively: an error of a queue that is not there says so at once.
        ready = opened.declare_queue(queue, passive=True).message_count
        wanted = min(count, ready)
        if wanted:
            arguments: dict[str, object] = {"x-browse": True}
            for batch in opened.consume(
                queue, min(wanted, 1000), timeout=_IDLE_SECONDS, arguments=arguments, no_ack=True
            ):
                messages += batch.messages
                if len(messages) >= wanted:
                    break
    print_messages(messages[:wanted], as_json)
