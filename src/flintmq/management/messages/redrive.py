"""Dead letters back to where they died, as far as what they tell of themselves is borne out by the broker.

The history of a letter is a header, and whoever can publish to the queue it lies on can write one: it must not take a
message, by the rights of whoever re-drives it, to where its publisher could not have sent it.
"""

from collections.abc import Callable
from typing import Final, final

from flintmq.base.errors import AccessRefused
from flintmq.broker.access.permission import WRITE, Rights
from flintmq.broker.bounds import name_fault
from flintmq.broker.message import Address, Entry, Message, Table
from flintmq.broker.queue.base import Queue
from flintmq.broker.vhost import VHost

# What a message has that came neither straight from a client nor with a client's history as its own.
_BY_THE_BROKER: Final = 0


@final
class Redrive:
    """A plan: from this queue back onto those that gave up what lies on it, as far as `rights` go."""

    def __init__(self, vhost: VHost, dead_letter_queue: Queue, rights: Rights, now_ms: Callable[[], int]) -> None:
        self._vhost = vhost
        self._dead_letter_queue = dead_letter_queue
        self._rights = rights
        self._now_ms = now_ms

    def plan(self, entry: Entry) -> tuple[Message, list[Queue]] | None:
        """None where nobody knows, or the queue named does not send its dead letters here."""
        message = entry.message
        death = last_death(message) if message.origin == _BY_THE_BROKER else None
        if death is None:
            return None
        queue = self._vhost.queues.get(str(death.get("queue")))
        if queue is None or queue is self._dead_letter_queue or queue.owner is not None:
            return None
        keys = _keys(death) or [message.address.routing_key]
        if not self._may_write("queue", queue.name) or not self._leads_here(queue, keys, message):
            return None
        address = self._address(queue, death, keys, message)
        # Its history stays with it; its time to live, if it has one, begins anew.
        again = Message(address, message.codec, message.properties, message.body, message.options, self._now_ms())
        return again, [queue]

    def _leads_here(self, queue: Queue, keys: list[str], message: Message) -> bool:
        """Whether this queue would bury the message where it lies."""
        exchange, key = queue.settings.dead_letter_exchange, queue.settings.dead_letter_key
        return exchange is not None and self._leads(
            exchange, keys if key is None else [key], message, self._dead_letter_queue
        )

    def _leads(self, name: str, keys: list[str], message: Message, queue: Queue) -> bool:
        exchange = self._vhost.exchanges.by_name.get(name)
        return exchange is not None and queue in self._vhost.router.queues_from(exchange, keys, message)

    def _address(self, queue: Queue, death: Table, keys: list[str], message: Message) -> Address:
        """The one it had there, where that still leads there and the caller may publish to it; the queue's own else."""
        name = death.get("exchange")
        # The history may have been written by a publisher, and a header holds more than a routing key.
        if (
            isinstance(name, str)
            and not name_fault("", keys[0])
            and self._may_publish(name, keys[0])
            and self._leads(name, keys, message, queue)
        ):
            return Address(name, keys[0])
        return Address("", queue.name)

    def _may_publish(self, name: str, key: str) -> bool:
        exchange = self._vhost.exchanges.by_name.get(name)
        if exchange is None or exchange.internal or not self._may_write("exchange", name):
            return False
        try:
            if exchange.type == "topic":
                self._rights.check_topic(WRITE, name, key)
        except AccessRefused:
            return False
        return True

    def _may_write(self, kind: str, name: str) -> bool:
        try:
            self._rights.check(WRITE, kind, name)
        except AccessRefused:
            return False
        return True


def _keys(death: Table) -> list[str]:
    keys = death.get("routing-keys")
    return [key for key in keys if isinstance(key, str)] if isinstance(keys, list) else []


def deaths(message: Message) -> list[Table]:
    """The latest first."""
    listed = message.codec.headers(message.properties).get("x-death")
    return [death for death in listed if isinstance(death, dict)] if isinstance(listed, list) else []


def last_death(message: Message) -> Table | None:
    # A search that finds nothing is cheaper by far than decoding a table.
    if b"x-death" not in message.properties:
        return None
    found = deaths(message)
    return found[0] if found else None
