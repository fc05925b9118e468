"""Messages of delayed exchanges: held durably, and routed when they are due."""

from functools import partial
from typing import Final, final

from flintmq.broker.delayed.queue import HIDDEN_KEYS_HEADER, DelayedQueue
from flintmq.broker.exchange.delayed import DelayedExchange, DelayedQueues
from flintmq.broker.exchange.registry import ExchangeRegistry
from flintmq.broker.message import Entry, Message
from flintmq.broker.ports import QueueRecord, Storage
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.ids import QueueIds
from flintmq.broker.queue.publish import put
from flintmq.broker.tick import Tick

# The prefix of the queues' names in the definitions. Clients cannot declare names that begin like this.
DELAYED_QUEUE_PREFIX: Final = "amq.delayed."
DELAY_HEADER: Final = "x-delay"


@final
class DelayedMessages(DelayedQueues):
    """The delayed messages of one virtual host."""

    def __init__(self, vhost: str, storage: Storage, tick: Tick, ids: QueueIds, exchanges: ExchangeRegistry) -> None:
        self._vhost = vhost
        self._storage = storage
        self._tick = tick
        self._ids = ids
        self._exchanges = exchanges
        self._queues: dict[str, DelayedQueue] = {}

    def make(self, exchange: DelayedExchange) -> Queue:
        name = DELAYED_QUEUE_PREFIX + exchange.name
        queue_id = self._ids.take()
        queue = self._add(queue_id, name, exchange)
        if exchange.durable:
            self._storage.definitions.put_queue(QueueRecord(queue_id, self._vhost, name))
        return queue

    def restore(self, record: QueueRecord) -> DelayedQueue:
        """Restore a queue at start-up, after the exchanges."""
        exchange = self._exchanges.find(record.name.removeprefix(DELAYED_QUEUE_PREFIX))
        assert isinstance(exchange, DelayedExchange)
        queue = self._add(record.id, record.name, exchange)
        exchange.delayed_queue = queue
        return queue

    def _add(self, queue_id: int, name: str, exchange: DelayedExchange) -> DelayedQueue:
        due = partial(self._due, exchange)
        queue = DelayedQueue(queue_id, self._vhost, name, exchange.durable, self._tick, self._storage.journal, due)
        self._queues[exchange.name] = queue
        return queue

    def exchange_deleted(self, exchange: DelayedExchange) -> None:
        queue = self._queues.pop(exchange.name)
        queue.delete()
        if queue.durable:
            self._storage.definitions.delete_queue(self._vhost, queue.name)

    def discard(self) -> None:
        """Discard all messages: the virtual host is deleted."""
        for queue in self._queues.values():
            queue.delete()

    def _due(self, exchange: DelayedExchange, entry: Entry) -> None:
        """Route a due message, in one journal group with its settlement: a crash leaves both or neither."""
        held = entry.message
        codec = held.codec
        headers = codec.headers(held.properties)
        delay = headers.get(DELAY_HEADER)
        if isinstance(delay, int) and not isinstance(delay, bool) and delay > 0:
            # RabbitMQ's plugin negates the delay, too: consumers see its length, and no other exchange delays the
            # message again.
            headers[DELAY_HEADER] = -delay
        hidden = _keys(headers.pop(HIDDEN_KEYS_HEADER, None))
        keys = [held.address.routing_key, *_keys(headers.get("CC")), *hidden]
        properties = codec.edited(held.properties, headers, True)
        options = codec.options(properties)
        if hidden:
            # Another delayed exchange on the route may hold the message again.
            options.hidden_keys = hidden
        message = Message(
            held.address,
            codec,
            properties,
            held.body,
            options,
            self._tick.now_ms,
            held.origin,
        )
        journal = self._storage.journal
        journal.begin_group()
        try:
            put(self._exchanges.queues_when_due(exchange, keys, message), message, journal)
            self._queues[exchange.name].settle(entry)
        finally:
            journal.end_group()


def _keys(listed: object) -> list[str]:
    return [key for key in listed if isinstance(key, str)] if isinstance(listed, list) else []
