"""Redrive: puts dead letters back on the queues that they came from.

The history of a dead letter is a header that anybody with permission to publish to its queue can forge. So the history
is checked against the broker: a redrive must not take a message, with the permissions of its caller, to a queue that
its publisher could not have reached.
"""

from collections.abc import Callable
from typing import Final, final

from flintmq.base.errors import AccessRefused
from flintmq.broker.access.permission import WRITE, Rights
from flintmq.broker.bounds import name_fault
from flintmq.broker.dead_letter.dead_letters import last_death
from flintmq.broker.message import Address, Entry, Message, Table
from flintmq.broker.queue.base import Queue
from flintmq.broker.vhost import VHost

# The origin of a message that the broker itself dead-lettered, and whose history no client has written.
_BY_THE_BROKER: Final = 0


@final
class Redrive:
    """A plan for a move: from the queue of dead letters back to the queues that dead-lettered them, as far as `rights`
    permit.
    """

    def __init__(self, vhost: VHost, dead_letter_queue: Queue, rights: Rights, now_ms: Callable[[], int]) -> None:
        self._vhost = vhost
        self._dead_letter_queue = dead_letter_queue
        self._rights = rights
        self._now_ms = now_ms

    def plan(self, entry: Entry) -> tuple[Message, list[Queue]] | None:
        """The message to publish and its queue; None if its history is missing or not plausible, or the caller may not
        write there.
        """
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
        # The message keeps its history; its time to live begins again.
        again = Message(address, message.codec, message.properties, message.body, message.options, self._now_ms())
        return again, [queue]

    def _leads_here(self, queue: Queue, keys: list[str], message: Message) -> bool:
        """Tell whether this queue would dead-letter the message to the queue where it is."""
        exchange, key = queue.settings.dead_letter_exchange, queue.settings.dead_letter_key
        return exchange is not None and self._leads(
            exchange, keys if key is None else [key], message, self._dead_letter_queue
        )

    def _leads(self, name: str, keys: list[str], message: Message, queue: Queue) -> bool:
        exchange = self._vhost.exchanges.by_name.get(name)
        return exchange is not None and queue in self._vhost.router.queues_from(exchange, keys, message)

    def _address(self, queue: Queue, death: Table, keys: list[str], message: Message) -> Address:
        """The address that the message had on its queue, if it still leads there and the caller may publish to it;
        otherwise the queue's own address.
        """
        name = death.get("exchange")
        # A publisher may have written the history, and a header can hold more than a routing key.
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
