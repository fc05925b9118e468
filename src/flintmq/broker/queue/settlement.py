"""How a consumer can be done with a message (amqp-1.0 §3.4): whatever protocol it speaks, it comes to one of these.

- accepted: the message leaves the queue;
- rejected: it goes to the dead letters, or is dropped where there are none. AMQP 0-9-1's reject without requeue;
- released: it goes back to its place, as if it had never been taken but for the sign that it was (`redelivered`);
- modified: it goes back too. With `delivery_failed` this was a failure of the consumer, and is counted: AMQP 0-9-1's
  requeue, and what its recover and the end of its channels come to, as with RabbitMQ. With `undeliverable_here` the
  consumers of this context do not get it again, for as long as there is this context;
- discarded: modified with `undeliverable_here` as RabbitMQ means it: as rejected, but that it counts as a failure only
  with `delivery_failed`.

What is counted is the message's delivery-count (x-delivery-count in AMQP 0-9-1), and counts towards a queue's delivery
limit. A message that is released, or modified without `delivery_failed`, can come back for ever.
"""

from typing import Final, final

from mypy_extensions import i32

from flintmq.broker.message import Entry, Message, Table
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.entries import EntryQueue

_ACCEPT: Final = 0
_REJECT: Final = 1
_RELEASE: Final = 2
_MODIFY: Final = 3
_DISCARD: Final = 4


@final
class Outcome:
    """`annotations` are what a consumer adds to the message, by names and in values the message's codec understands."""

    def __init__(
        self,
        kind: i32,
        delivery_failed: bool = False,
        undeliverable_here: bool = False,
        annotations: Table | None = None,
    ) -> None:
        self.kind: i32 = kind
        self.delivery_failed = delivery_failed
        self.undeliverable_here = undeliverable_here
        self.annotations = annotations

    def makes_dead_letter(self, queue: Queue, entry: Entry) -> bool:
        """Whether the entry becomes a dead letter by it."""
        settings = queue.settings
        if settings.dead_letter_exchange is None or self.kind == _ACCEPT:
            return False
        return self.kind in (_REJECT, _DISCARD) or (
            self.delivery_failed and 0 <= settings.delivery_limit <= int(entry.returns) and not queue.keeps_all
        )

    def apply(self, queue: Queue, entry: Entry, context: object | None) -> None:
        """Settle an acquired entry. `context` is that of the consumer, which `undeliverable_here` is about."""
        if self.kind == _ACCEPT:
            queue.settle(entry)
        elif self.kind == _REJECT:
            queue.reject(entry)
        else:
            if self.annotations and isinstance(queue, EntryQueue):
                queue.rewrite(entry, _annotated(entry.message, self.annotations))
            if self.kind == _DISCARD:
                if self.delivery_failed:
                    queue.reject(entry)
                else:
                    queue.dead_letter(entry)
                return
            if self.undeliverable_here and context is not None and isinstance(queue, EntryQueue):
                queue.exclude(entry, context)
            if self.delivery_failed:
                queue.fail([entry])
            else:
                queue.release([entry])


ACCEPTED: Final = Outcome(_ACCEPT)
REJECTED: Final = Outcome(_REJECT)
RELEASED: Final = Outcome(_RELEASE)
# The consumer has failed with the message.
FAILED: Final = Outcome(_MODIFY, True)


def modified(delivery_failed: bool, undeliverable_here: bool, annotations: Table | None = None) -> Outcome:
    return Outcome(_MODIFY, delivery_failed, undeliverable_here, annotations)


def discarded(delivery_failed: bool, annotations: Table | None = None) -> Outcome:
    return Outcome(_DISCARD, delivery_failed, False, annotations)


def _annotated(message: Message, annotations: Table) -> Message:
    """Routed by now, so that what it asks of a queue stays what it was."""
    codec = message.codec
    return Message(
        message.address,
        codec,
        codec.annotated(message.properties, annotations),
        message.body,
        message.options,
        message.timestamp_ms,
        message.origin,
    )
