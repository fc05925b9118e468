"""The exchanges of a virtual host and what is bound to them: declared, bound, deleted, and brought back."""

from typing import Final, final

from flintmq.base.errors import AccessRefused, CommandInvalid, PreconditionFailed
from flintmq.broker import arguments as args
from flintmq.broker.exchange.base import Binding, Exchange
from flintmq.broker.exchange.default import DefaultExchange
from flintmq.broker.exchange.direct import DirectExchange
from flintmq.broker.exchange.fanout import FanoutExchange
from flintmq.broker.exchange.headers import HeadersExchange
from flintmq.broker.exchange.topic import TopicExchange
from flintmq.broker.message import Table
from flintmq.broker.ports import BindingRecord, ExchangeRecord, Storage
from flintmq.broker.queue.base import Queue
from flintmq.broker.routing import Router

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
class Exchanges:
    """`queues` are the virtual host's, by name: what the default exchange knows. `router` hears of every change."""

    def __init__(self, vhost: str, queues: dict[str, Queue], storage: Storage) -> None:
        self.by_name: dict[str, Exchange] = {"": DefaultExchange(vhost, queues)}
        self.router = Router(vhost, self.by_name)
        self._vhost = vhost
        self._storage = storage
        for name, kind in _PREDECLARED:
            self._make(name, kind, True, False, False, {})

    def find(self, name: str) -> Exchange:
        """Raises NotFound."""
        return self.router.exchange(name)

    # -- declaring ----------------------------------------------------------------------------------------------

    def declare(
        self, name: str, kind: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> Exchange:
        """Make an exchange, or find the equal one that is there."""
        if name == "":
            raise AccessRefused("operation not permitted on the default exchange")
        if kind not in EXCHANGE_TYPES:
            raise CommandInvalid(f"unknown exchange type '{kind}'")
        args.check_exchange_arguments(arguments)
        found = self.by_name.get(name)
        if found is not None:
            args.check_same("exchange", name, self._vhost, "type", kind, found.type)
            args.check_same("exchange", name, self._vhost, "durable", durable, found.durable)
            args.check_same("exchange", name, self._vhost, "auto_delete", auto_delete, found.auto_delete)
            args.check_same("exchange", name, self._vhost, "internal", internal, found.internal)
            return found
        if name.startswith("amq."):
            raise AccessRefused(f"exchange name '{name}' contains reserved prefix 'amq.*'")
        exchange = self._make(name, kind, durable, auto_delete, internal, arguments)
        if durable:
            self._storage.definitions.put_exchange(
                ExchangeRecord(self._vhost, name, kind, auto_delete, internal, arguments)
            )
        return exchange

    def _make(
        self, name: str, kind: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> Exchange:
        exchange = EXCHANGE_TYPES[kind](self._vhost, name, durable, auto_delete, internal, arguments)
        self.by_name[name] = exchange
        self.router.changed()
        return exchange

    def delete(self, name: str, if_unused: bool) -> None:
        """Deleting what is not there is no error (RabbitMQ)."""
        if name == "":
            raise AccessRefused("operation not permitted on the default exchange")
        if name.startswith("amq."):
            raise AccessRefused(f"exchange name '{name}' contains reserved prefix 'amq.*'")
        exchange = self.by_name.get(name)
        if exchange is None:
            return
        if if_unused and exchange.bindings:
            raise PreconditionFailed(f"exchange '{name}' in vhost '{self._vhost}' in use")
        self._remove(exchange)

    def _remove(self, exchange: Exchange) -> None:
        del self.by_name[exchange.name]
        self.router.changed()
        if exchange.durable:
            self._storage.definitions.delete_exchange(self._vhost, exchange.name)

    # -- binding ------------------------------------------------------------------------------------------------

    def bind_queue(self, queue: Queue, source: str, routing_key: str, arguments: Table) -> None:
        exchange = self._bindable(source)
        exchange.check(routing_key, arguments)
        if not exchange.bind(Binding(queue, routing_key, arguments)):
            return
        self.router.changed()
        if _is_durable(exchange, queue):
            self._storage.definitions.put_binding(
                BindingRecord(self._vhost, source, queue.name, routing_key, arguments)
            )

    def unbind_queue(self, queue: Queue, source: str, routing_key: str, arguments: Table) -> None:
        """Removing a binding that is not there is no error (RabbitMQ)."""
        exchange = self._bindable(source)
        if exchange.unbind(Binding(queue, routing_key, arguments)) is None:
            return
        self.router.changed()
        if _is_durable(exchange, queue):
            self._storage.definitions.delete_binding(
                BindingRecord(self._vhost, source, queue.name, routing_key, arguments)
            )
        self._remove_if_unused(exchange)

    def queue_made(self, queue: Queue) -> None:
        """The default exchange leads to it now."""
        self.router.changed()

    def queue_removed(self, queue: Queue) -> None:
        """Its bindings go with it, and the auto-delete exchanges that had no others."""
        self.router.changed()
        for exchange in list(self.by_name.values()):
            if exchange.bindings and exchange.unbind_queue(queue):
                self._remove_if_unused(exchange)

    def _bindable(self, name: str) -> Exchange:
        if name == "":
            raise AccessRefused("operation not permitted on the default exchange")
        return self.find(name)

    def _remove_if_unused(self, exchange: Exchange) -> None:
        if exchange.auto_delete and not exchange.bindings and exchange.name in self.by_name:
            self._remove(exchange)

    # -- start-up -----------------------------------------------------------------------------------------------

    def restore(self, record: ExchangeRecord) -> None:
        self._make(record.name, record.type, True, record.auto_delete, record.internal, record.arguments)

    def restore_binding(self, record: BindingRecord, queue: Queue) -> None:
        self.by_name[record.source].bind(Binding(queue, record.routing_key, record.arguments))
        self.router.changed()


def _is_durable(exchange: Exchange, queue: Queue) -> bool:
    return exchange.durable and queue.durable and queue.owner is None
