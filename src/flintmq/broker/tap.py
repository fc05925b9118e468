"""The interface of tracing, which sees every message that a client publishes or is delivered."""

from abc import abstractmethod
from typing import final

from mypy_extensions import i64, mypyc_attr

from flintmq.broker.message import Entry, Message
from flintmq.broker.queue.base import Queue


@final
class Client:
    """The client that published a message, or gets it. `channel` is the number of a channel or session."""

    def __init__(self, connection: str, channel: i64, user: str, vhost: str) -> None:
        self.connection = connection
        self.channel: i64 = channel
        self.user = user
        self.vhost = vhost


@mypyc_attr(allow_interpreted_subclasses=True)
class Tap:
    """Called while messages are published and dispatched: it must not change queues before `end_dispatch`."""

    @abstractmethod
    def published(self, client: Client, message: Message, queues: list[Queue]) -> Message:
        """A message is about to be put on these queues. Returns the message to put there: this one or a substitute."""

    @abstractmethod
    def committed(self, client: Client, queue: Queue, message: Message) -> None:
        """A staged message is about to be put on this queue, unchanged. `client` committed it."""

    @abstractmethod
    def delivered(self, client: Client, queue: Queue, entry: Entry) -> None:
        """An entry is about to be sent, with its message."""

    @abstractmethod
    def end_dispatch(self) -> None:
        """The tick has dispatched its queues: messages may be published now."""
