"""The base of consumers of both protocols, with the conditions that a client sets on its messages."""

from mypy_extensions import i64

from flintmq.base.limits import BROWSED_ENTRIES_PER_UNIT
from flintmq.broker.message import Message
from flintmq.broker.queue.base import Consumer, Queue
from flintmq.broker.selector.filter import Filter


class ClientConsumer(Consumer):
    """A consumer of the connection with the number `origin`."""

    def __init__(self, tag: str, no_ack: bool, exclusive: bool, origin: i64) -> None:
        super().__init__(tag, no_ack, exclusive)
        self._origin: i64 = origin
        self._no_local = False
        self._condition: Filter | None = None

    def filter_by(self, no_local: bool, condition: Filter | None) -> None:
        """Get only messages that match the condition; with `no_local`, none that its own connection published."""
        self._no_local = no_local
        self._condition = condition
        self.is_filtered = no_local or condition is not None
        self.matching_cost = 0 if condition is None else condition.cost

    def search_units(self, queue: Queue) -> i64:
        """The units of work for searching a queue for messages of this consumer."""
        return queue.message_count // BROWSED_ENTRIES_PER_UNIT if self.is_filtered else 0

    def matches(self, message: Message) -> bool:
        if self._no_local and message.origin == self._origin:
            return False
        return self._condition is None or self._condition.matches(message)
