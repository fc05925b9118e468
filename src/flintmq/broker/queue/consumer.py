"""The interface of consumers to their queue: whether one can take an entry, and how it gets one."""

from abc import abstractmethod
from typing import TYPE_CHECKING

from mypy_extensions import i64, mypyc_attr

from flintmq.broker.queue.seen import Seen

if TYPE_CHECKING:
    from flintmq.base.errors import StorageError
    from flintmq.broker.message import Entry, Message
    from flintmq.broker.queue.base import Queue


@mypyc_attr(allow_interpreted_subclasses=True)
class Consumer:
    """A subscription to one queue, implemented by the gateway of its protocol.

    Among the consumers that can take an entry, one with the highest `priority` gets it. A consumer that `is_filtered`
    gets only entries that it `matches`; each comparison costs `matching_cost` units of work. A consumer that
    `has_byte_window` gets an entry only if it `is_within_window`. Consumers of one client share a `context`: an entry
    that one of them has rejected can be withheld from all of them.
    """

    def __init__(self, tag: str, no_ack: bool, exclusive: bool) -> None:
        self.tag = tag
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.priority: i64 = 0
        self.is_filtered = False
        self.matching_cost: i64 = 0
        self.has_byte_window = False
        # Whether it has exceeded the time for a delivery; it gets nothing until it has settled that.
        self.is_late = False
        self.context: object | None = None
        # For a browser or the reader of a stream: the entries that it was sent, also on earlier links.
        self.seen: Seen | None = None

    @abstractmethod
    def can_take(self) -> bool:
        """Whether there is credit for one more entry and room to write it."""

    @abstractmethod
    def deliver(self, queue: "Queue", entry: "Entry") -> None:
        """Hand over an acquired entry. Without `no_ack`, the consumer settles it or returns it to the queue.

        An entry that cannot be encoded for any consumer of the protocol is marked UNSENDABLE and not delivered: the
        queue dead-letters or drops it at once.
        """

    @abstractmethod
    def cancelled(self) -> None:
        """Tell the consumer that its queue is deleted, or ends the subscription: nothing more will be delivered."""

    @abstractmethod
    def failed(self, error: "StorageError") -> None:
        """End the subscription and tell the client why: the next entry cannot be read."""

    def is_active(self) -> bool:
        """Whether the client wants deliveries; False while it has suspended them (amqp-0-9-1 channel.flow)."""
        return True

    def holds_any(self) -> bool:
        """Whether it has deliveries that it has not settled."""
        return False

    def stood_down(self) -> None:
        """Tell the consumer that it is no longer the single active consumer of its queue, and waits for its turn."""

    def took_over(self) -> None:
        """Tell the consumer that it has become the single active consumer of its queue, after another one."""

    def matches(self, message: "Message") -> bool:
        """Whether the consumer wants this message at all. The answer for one message is always the same."""
        return True

    def is_within_window(self, message: "Message") -> bool:
        """Whether the message fits into the bytes that are left of the window."""
        return True

    def would_take(self, message: "Message") -> bool:
        """Whether the consumer can get this message now."""
        return (
            self.can_take()
            and (not self.is_filtered or self.matches(message))
            and (not self.has_byte_window or self.is_within_window(message))
        )
