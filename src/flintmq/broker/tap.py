"""What sees every message that a client publishes or is delivered, while somebody wants that: tracing."""

from abc import abstractmethod
from typing import final

from mypy_extensions import i64, mypyc_attr

from flintmq.broker.message import Entry, Message
from flintmq.broker.queue.base import Queue


@final
class Client:
    """Who published, or is delivered to. `channel` is the number of a channel or of a session."""

    def __init__(self, connection: str, channel: i64, user: str, vhost: str) -> None:
        self.connection = connection
        self.channel: i64 = channel
        self.user = user
        self.vhost = vhost


@mypyc_attr(allow_interpreted_subclasses=True)
class Tap:
    """Called in the middle of publishing and dispatching: whatever changes a queue has to wait for `end_dispatch`."""

    @abstractmethod
    def published(self, client: Client, message: Message, queues: list[Queue]) -> Message:
        """A message is about to go to these queues; returns the one that goes in its place, or the same."""

    @abstractmethod
    def released(self, client: Client, queue: Queue, message: Message) -> None:
        """A message that was staged is on its way to this queue, as it is; `client` committed it."""

    @abstractmethod
    def delivered(self, client: Client, queue: Queue, entry: Entry) -> None:
        """An entry, with its message, is about to be sent."""

    @abstractmethod
    def end_dispatch(self) -> None:
        """The tick has dispatched its queues: messages may be published now."""
