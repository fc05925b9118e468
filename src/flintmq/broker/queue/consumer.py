"""What a queue knows of a consumer: whether it can take more, and how to give it an entry."""

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
    """A subscription to one queue, implemented by the gateway of the protocol it came by.

    Of consumers that can take an entry, one of the highest `priority` gets it. One that `is_choosy` is asked whether
    an entry `suits` it, which costs so many units of work as `suiting_cost`; one that `is_measured` whether an entry
    `fits` what it holds already. `context` is what it shares with others of the same client: what was rejected there
    can be withheld from all of them.
    """

    def __init__(self, tag: str, no_ack: bool, exclusive: bool) -> None:
        self.tag = tag
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.priority: i64 = 0
        self.is_choosy = False
        self.suiting_cost: i64 = 0
        self.is_measured = False
        # It was too long about a delivery, and gets nothing before it has settled that.
        self.is_late = False
        self.context: object | None = None
        # Of a consumer that takes nothing: what it has been sent, on links before this one, too.
        self.seen: Seen | None = None

    @abstractmethod
    def can_take(self) -> bool:
        """Whether there is credit for one more entry and room to write it."""

    @abstractmethod
    def deliver(self, queue: "Queue", entry: "Entry") -> None:
        """Hand over an acquired entry. Without `no_ack`, the consumer settles it or gives it back to the queue.

        One that cannot be encoded for any consumer of its protocol is marked UNSENDABLE instead, and is not delivered:
        the queue gives it up at once.
        """

    @abstractmethod
    def cancelled(self) -> None:
        """The queue is gone, or ends the subscription; nothing more will be delivered."""

    @abstractmethod
    def failed(self, error: "StorageError") -> None:
        """What comes next cannot be read: end the subscription, and let the client know why."""

    def is_active(self) -> bool:
        """False while the client has asked for nothing to be sent (amqp-0-9-1 channel.flow)."""
        return True

    def holds_any(self) -> bool:
        """Whether it has deliveries that it has not settled."""
        return False

    def stood_down(self) -> None:
        """It was the single active consumer of its queue, and waits for its turn from now on."""

    def took_over(self) -> None:
        """It is the single active consumer of its queue from now on, after another one."""

    def suits(self, message: "Message") -> bool:
        """Whether the consumer wants this message at all. The answer for one message is always the same."""
        return True

    def fits(self, message: "Message") -> bool:
        """Whether the message fits the window of bytes that is left now."""
        return True

    def would_take(self, message: "Message") -> bool:
        """Whether it can be given this message now."""
        return (
            self.can_take()
            and (not self.is_choosy or self.suits(message))
            and (not self.is_measured or self.fits(message))
        )
