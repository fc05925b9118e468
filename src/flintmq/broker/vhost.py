"""A virtual host: its exchanges, queues and bindings, and the road of a message through them."""

from typing import Final, final

from mypy_extensions import i64

from flintmq.base.errors import AccessRefused, CommandInvalid, NotFound, PreconditionFailed
from flintmq.broker import arguments as args
from flintmq.broker.consumer import Consumer
from flintmq.broker.dialect import RABBITMQ, Dialect
from flintmq.broker.exchange.base import Binding, Exchange
from flintmq.broker.exchange.default import DefaultExchange
from flintmq.broker.exchange.direct import DirectExchange
from flintmq.broker.exchange.fanout import FanoutExchange
from flintmq.broker.exchange.headers import HeadersExchange
from flintmq.broker.exchange.topic import TopicExchange
from flintmq.broker.message import Address, Entry, Message, Table
from flintmq.broker.ports import BindingRecord, ExchangeRecord, QueueRecord, Storage
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.classic import ClassicQueue
from flintmq.broker.queue.stream import StreamQueue

# What became of a published message. STORED ones are safe once the batch they are in is durable.
UNROUTED: Final = 0
ROUTED: Final = 1
STORED: Final = 2

EXCHANGE_TYPES: Final[dict[str, type[Exchange]]] = {
    "direct": DirectExchange,
    "fanout": FanoutExchange,
    "topic": TopicExchange,
    "headers": HeadersExchange,
}
# amqp-0-9-1 §3.1.3 and RabbitMQ's: there from the start in every virtual host.
_PREDECLARED: Final = (
    ("amq.direct", "direct"),
    ("amq.fanout", "fanout"),
    ("amq.topic", "topic"),
    ("amq.headers", "headers"),
    ("amq.match", "headers"),
)


@final
class Route:
    """Where an address leads, remembered until the virtual host's topology changes."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.version: i64 = -1
        self.exchange: Exchange | None = None
        self.queues: list[Queue] = []


@final
class QueueIds:
    """Hands out queue ids, each once in the life of a node."""

    def __init__(self, following: int) -> None:
        self._next = following

    def take(self) -> int:
        taken = self._next
        self._next += 1
        return taken


@final
class VHost:
    def __init__(
        self,
        name: str,
        storage: Storage,
        ready: list[Queue],
        unsynced: list[StreamQueue],
        ids: QueueIds,
        dialect: Dialect = RABBITMQ,
    ) -> None:
        self.name = name
        self.dialect = dialect
        self.queues: dict[str, Queue] = {}
        self.exchanges: dict[str, Exchange] = {"": DefaultExchange(name, self.queues)}
        self._storage = storage
        self._ready = ready
        self._unsynced = unsynced
        self._ids = ids
        # Grows with every change of exchanges, queues or bindings: a Route of another version is out of date.
        self.version: i64 = 0
        for exchange, kind in _PREDECLARED:
            self._make_exchange(exchange, kind, True, False, False, {})

    # -- messages -----------------------------------------------------------------------------------------------

    def publish(self, route: Route, message: Message) -> int:
        """Route a message and put it on its queues; returns UNROUTED, ROUTED or STORED.

        Raises NotFound when there is no such exchange, AccessRefused when it is internal.
        """
        if route.version != self.version:
            self._resolve(route)
        queues = route.queues
        exchange = route.exchange
        assert exchange is not None
        if exchange.reads_headers:
            queues = exchange.route(route.address.routing_key, message)
        if len(queues) == 1:
            queue = queues[0]
            entry = queue.enqueue(message)
            if entry is not None:
                self._storage.journal.append(message, [queue.id], [entry])
                return STORED
            return STORED if queue.keeps_all else ROUTED
        if not queues:
            return UNROUTED
        outcome = ROUTED
        ids: list[int] = []
        entries: list[Entry] = []
        for queue in queues:
            entry = queue.enqueue(message)
            if entry is not None:
                ids.append(queue.id)
                entries.append(entry)
            elif queue.keeps_all:
                outcome = STORED
        if entries:
            self._storage.journal.append(message, ids, entries)
            outcome = STORED
        return outcome

    def _resolve(self, route: Route) -> None:
        exchange = self.exchange(route.address.exchange)
        if exchange.internal:
            raise AccessRefused(f"cannot publish to internal exchange '{exchange.name}' in vhost '{self.name}'")
        route.exchange = exchange
        route.queues = [] if exchange.reads_headers else exchange.route(route.address.routing_key, None)
        route.version = self.version

    # -- exchanges ----------------------------------------------------------------------------------------------

    def exchange(self, name: str) -> Exchange:
        found = self.exchanges.get(name)
        if found is None:
            raise NotFound(f"no exchange '{name}' in vhost '{self.name}'")
        return found

    def declare_exchange(
        self, name: str, kind: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> Exchange:
        """Make an exchange, or find the equal one that is there."""
        if name == "":
            raise AccessRefused("operation not permitted on the default exchange")
        if kind not in EXCHANGE_TYPES:
            raise CommandInvalid(f"unknown exchange type '{kind}'")
        args.check_exchange_arguments(arguments)
        found = self.exchanges.get(name)
        if found is not None:
            args.check_same("exchange", name, self.name, "type", kind, found.type)
            args.check_same("exchange", name, self.name, "durable", durable, found.durable)
            args.check_same("exchange", name, self.name, "auto_delete", auto_delete, found.auto_delete)
            args.check_same("exchange", name, self.name, "internal", internal, found.internal)
            return found
        if name.startswith("amq."):
            raise AccessRefused(f"exchange name '{name}' contains reserved prefix 'amq.*'")
        exchange = self._make_exchange(name, kind, durable, auto_delete, internal, arguments)
        if durable:
            self._storage.definitions.put_exchange(
                ExchangeRecord(self.name, name, kind, auto_delete, internal, arguments)
            )
        return exchange

    def _make_exchange(
        self, name: str, kind: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> Exchange:
        exchange = EXCHANGE_TYPES[kind](self.name, name, durable, auto_delete, internal, arguments)
        self.exchanges[name] = exchange
        self.version += 1
        return exchange

    def delete_exchange(self, name: str, if_unused: bool) -> None:
        """Deleting what is not there is no error (RabbitMQ)."""
        if name == "":
            raise AccessRefused("operation not permitted on the default exchange")
        if name.startswith("amq."):
            raise AccessRefused(f"exchange name '{name}' contains reserved prefix 'amq.*'")
        exchange = self.exchanges.get(name)
        if exchange is None:
            return
        if if_unused and exchange.bindings:
            raise PreconditionFailed(f"exchange '{name}' in vhost '{self.name}' in use")
        del self.exchanges[name]
        self.version += 1
        if exchange.durable:
            self._storage.definitions.delete_exchange(self.name, name)

    # -- queues -------------------------------------------------------------------------------------------------

    def queue(self, name: str, connection: object) -> Queue:
        """The queue of that name, if this connection may use it."""
        found = self.queues.get(name)
        if found is None:
            raise NotFound(f"no queue '{name}' in vhost '{self.name}'")
        found.check_access(connection)
        return found

    def declare_queue(
        self,
        name: str,
        durable: bool,
        exclusive: bool,
        auto_delete: bool,
        arguments: Table,
        connection: object,
        generated: bool = False,
    ) -> Queue:
        """Make a queue, or find the equal one that is there. `generated`: the name was made by the server."""
        kind = args.queue_kind(arguments)
        args.check_queue_arguments(arguments)
        found = self.queues.get(name)
        if found is not None:
            found.check_access(connection)
            args.check_same("queue", name, self.name, "durable", durable, found.durable)
            args.check_same("queue", name, self.name, "exclusive", exclusive, found.owner is not None)
            args.check_same("queue", name, self.name, "auto_delete", auto_delete, found.auto_delete)
            args.check_same_arguments(
                "queue",
                name,
                self.name,
                args.QUEUE_COMPARED,
                {**arguments, "x-queue-type": kind},
                {**found.arguments, "x-queue-type": found.kind},
            )
            return found
        if name.startswith("amq.") and not generated:
            raise AccessRefused(f"queue name '{name}' contains reserved prefix 'amq.*'")
        if kind == "stream" and (not durable or exclusive or auto_delete or generated):
            raise PreconditionFailed(
                f"invalid property for stream queue '{name}' in vhost '{self.name}': a stream is durable, not "
                "exclusive, not auto-deleted, and named by its client"
            )
        queue = self._make_queue(
            self._ids.take(), name, durable, auto_delete, connection if exclusive else None, arguments
        )
        # An exclusive queue ends with its connection, so it has nothing to survive a restart for.
        if durable and not exclusive:
            self._storage.definitions.put_queue(QueueRecord(queue.id, self.name, name, auto_delete, arguments))
        return queue

    def _make_queue(
        self, queue_id: int, name: str, durable: bool, auto_delete: bool, owner: object | None, arguments: Table
    ) -> Queue:
        queue: Queue
        if args.queue_kind(arguments) == "stream":
            log = self._storage.open_stream(queue_id)
            queue = StreamQueue(queue_id, self.name, name, arguments, self._ready, log, self._unsynced)
        else:
            queue = ClassicQueue(
                queue_id,
                self.name,
                name,
                durable,
                auto_delete,
                owner,
                arguments,
                self._ready,
                self._storage.journal,
            )
        self.queues[name] = queue
        self.version += 1
        return queue

    def delete_queue(self, name: str, if_unused: bool, if_empty: bool, connection: object) -> int:
        """Returns how many messages went with it. Deleting what is not there is no error (RabbitMQ)."""
        queue = self.queues.get(name)
        if queue is None:
            return 0
        queue.check_access(connection)
        if if_unused and queue.consumers:
            raise PreconditionFailed(f"queue '{name}' in vhost '{self.name}' in use")
        if if_empty and queue.message_count > 0:
            raise PreconditionFailed(f"queue '{name}' in vhost '{self.name}' not empty")
        return self.remove_queue(queue)

    def remove_queue(self, queue: Queue) -> int:
        """Take a queue out, with its bindings, messages and consumers."""
        if self.queues.get(queue.name) is not queue:
            return 0
        del self.queues[queue.name]
        self.version += 1
        for exchange in list(self.exchanges.values()):
            if exchange.bindings and exchange.unbind_queue(queue):
                self._drop_if_unused(exchange)
        count = queue.delete()
        if queue.durable and queue.owner is None:
            self._storage.definitions.delete_queue(self.name, queue.name)
        if queue.keeps_all:
            self._storage.delete_stream(queue.id)
        # Routes that publishers remember may hold the queue for a while; they must not hold a connection with it.
        queue.owner = None
        return count

    def unsubscribe(self, queue: Queue, consumer: Consumer) -> None:
        """End a subscription; the last one of an auto-delete queue ends the queue."""
        queue.unsubscribe(consumer)
        if queue.auto_delete and not queue.consumers:
            self.remove_queue(queue)

    # -- bindings -----------------------------------------------------------------------------------------------

    def bind(self, queue: Queue, exchange_name: str, routing_key: str, arguments: Table) -> None:
        exchange = self._bindable(exchange_name)
        exchange.check(routing_key, arguments)
        if not exchange.bind(Binding(queue, routing_key, arguments)):
            return
        self.version += 1
        if self._is_durable(exchange, queue):
            self._storage.definitions.put_binding(
                BindingRecord(self.name, exchange_name, queue.name, routing_key, arguments)
            )

    def unbind(self, queue: Queue, exchange_name: str, routing_key: str, arguments: Table) -> None:
        """Removing a binding that is not there is no error (RabbitMQ)."""
        exchange = self._bindable(exchange_name)
        if exchange.unbind(Binding(queue, routing_key, arguments)) is None:
            return
        self.version += 1
        if self._is_durable(exchange, queue):
            self._storage.definitions.delete_binding(
                BindingRecord(self.name, exchange_name, queue.name, routing_key, arguments)
            )
        self._drop_if_unused(exchange)

    def _bindable(self, name: str) -> Exchange:
        if name == "":
            raise AccessRefused("operation not permitted on the default exchange")
        return self.exchange(name)

    def _is_durable(self, exchange: Exchange, queue: Queue) -> bool:
        return exchange.durable and queue.durable and queue.owner is None

    def _drop_if_unused(self, exchange: Exchange) -> None:
        if exchange.auto_delete and not exchange.bindings and exchange.name in self.exchanges:
            del self.exchanges[exchange.name]
            self.version += 1
            if exchange.durable:
                self._storage.definitions.delete_exchange(self.name, exchange.name)

    # -- start-up -----------------------------------------------------------------------------------------------

    def restore_exchange(self, record: ExchangeRecord) -> None:
        self._make_exchange(record.name, record.type, True, record.auto_delete, record.internal, record.arguments)

    def restore_queue(self, record: QueueRecord) -> Queue:
        return self._make_queue(record.id, record.name, True, record.auto_delete, None, record.arguments)

    def restore_binding(self, record: BindingRecord) -> None:
        queue = self.queues[record.destination]
        self.exchanges[record.source].bind(Binding(queue, record.routing_key, record.arguments))
        self.version += 1
