"""Outcomes of deliveries, for all protocols (amqp-1.0 §3.4).

- accepted: the message leaves the queue;
- rejected: it is dead-lettered, or dropped without a dead letter exchange. AMQP 0-9-1: reject without requeue;
- released: it returns to its place, unchanged but for the flag `redelivered`;
- modified: it returns to its place. With `delivery_failed` this counts as a failure of the consumer. AMQP 0-9-1:
  requeue, recover, and the end of a channel, as in RabbitMQ. With `undeliverable_here` consumers of this context do not
  get it again as long as the context exists;
- discarded: RabbitMQ's meaning of modified with `undeliverable_here`: like rejected, but it counts as a failure only
  with `delivery_failed`.

Failures increase the delivery-count of the message (x-delivery-count in AMQP 0-9-1), which the delivery limit of a
queue restricts. A message that is released, or modified without `delivery_failed`, can come back for ever.
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
    """An outcome. `annotations` are added to the message; their names and values are those of the message's codec."""

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
        """Whether this outcome makes the entry a dead letter."""
        settings = queue.settings
        if settings.dead_letter_exchange is None or self.kind == _ACCEPT:
            return False
        return self.kind in (_REJECT, _DISCARD) or (
            self.delivery_failed and 0 <= settings.delivery_limit <= int(entry.returns) and not queue.keeps_all
        )

    def apply(self, queue: Queue, entry: Entry, context: object | None) -> None:
        """Settle an acquired entry. `context` is that of its consumer, for `undeliverable_here`."""
        if self.kind == _ACCEPT:
            queue.settle(entry)
        elif self.kind == _REJECT:
            queue.reject(entry)
        else:
            if self.annotations and isinstance(queue, EntryQueue):
                _annotate(queue, entry, self.annotations)
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
# The consumer has failed to handle the message.
FAILED: Final = Outcome(_MODIFY, True)


def modified(delivery_failed: bool, undeliverable_here: bool, annotations: Table | None = None) -> Outcome:
    return Outcome(_MODIFY, delivery_failed, undeliverable_here, annotations)


def discarded(delivery_failed: bool, annotations: Table | None = None) -> Outcome:
    return Outcome(_DISCARD, delivery_failed, False, annotations)


def _annotate(queue: EntryQueue, entry: Entry, annotations: Table) -> None:
    """Add annotations to the message of an acquired entry. Its options stay the same, because it is already routed."""
    message = entry.message
    codec = message.codec
    annotated = Message(
        message.address,
        codec,
        codec.annotated(message.properties, annotations),
        message.body,
        message.options,
        message.timestamp_ms,
        message.origin,
    )
    if entry.segment != 0:
        queue.journal.replace(queue.id, entry, annotated)
    entry.message = annotated
