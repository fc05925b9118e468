"""The exchanges of a virtual host and their bindings: declare, bind, unbind, delete, restore."""

from collections.abc import Callable
from typing import Final, final

from flintmq.base.errors import AccessRefused, CommandInvalid, ExchangeTypeConflict, NotFound, PreconditionFailed
from flintmq.base.limits import ASKING_WORK_UNITS
from flintmq.base.work import WORK
from flintmq.broker import arguments as args
from flintmq.broker.bounds import check_arguments, check_name, check_room
from flintmq.broker.dialect import Dialect
from flintmq.broker.exchange.base import Binding, Exchange
from flintmq.broker.exchange.bindings import Bindings
from flintmq.broker.exchange.default import DefaultExchange
from flintmq.broker.exchange.delayed import DelayedExchange, DelayedQueues
from flintmq.broker.exchange.random_source import RandomSource
from flintmq.broker.exchange.routing import Router
from flintmq.broker.exchange.types import check_type, make_exchange
from flintmq.broker.message import Message, Table
from flintmq.broker.ports import BindingRecord, ExchangeRecord, Storage
from flintmq.broker.queue.base import Queue
from flintmq.broker.selector.filter import Filter
from flintmq.broker.selector.selectors import NEVER_MATCHES, selector_of
from flintmq.broker.tick import Tick

# The exchanges that every virtual host has from the start (amqp-0-9-1 §3.1.3, RabbitMQ).
TRACE_EXCHANGE: Final = "amq.rabbitmq.trace"
PREDECLARED: Final = (
    ("amq.direct", "direct"),
    ("amq.fanout", "fanout"),
    ("amq.topic", "topic"),
    ("amq.headers", "headers"),
    ("amq.match", "headers"),
)

# Puts a message on queues; returns the result of the publish.
Deliver = Callable[[Message, list[Queue]], int]


def check_exchange(vhost: str, dialect: Dialect, name: str, kind: str, arguments: Table) -> None:
    """Check a declaration by itself, without what exists. Raises AmqpError."""
    dialect.check_name("exchange", name)
    check_arguments(f"exchange '{name}' in vhost '{vhost}'", arguments)
    dialect.check_field_names(arguments)
    try:
        check_type(kind)
    except PreconditionFailed as error:
        if not dialect.unknown_type_ends_connection:
            raise
        # amqp-0-9-1 exchange.declare.type
        raise CommandInvalid(error.text) from None


def new_exchange(
    vhost: str,
    name: str,
    kind: str,
    durable: bool,
    auto_delete: bool,
    internal: bool,
    arguments: Table,
    random_source: RandomSource,
) -> Exchange:
    """Make an exchange that `check_exchange` accepts. Raises PreconditionFailed if its type refuses the arguments."""
    exchange = make_exchange(vhost, name, kind, durable, auto_delete, internal, arguments, random_source)
    exchange.alternate = args.alternate_exchange(name, vhost, arguments)
    exchange.check()
    return exchange


def checked_filter(where: str, routing_key: str, arguments: Table) -> Filter | None:
    """The selector of a binding, whose key and arguments are checked. Raises PreconditionFailed."""
    check_name("routing key", routing_key)
    check_arguments(where, arguments)
    return selector_of(arguments, where)


@final
class ExchangeRegistry:
    """The exchanges of a virtual host. `queues` and `replies` are its queues by name, for the default exchange.

    `router` is told of every change. `deliver` puts a message on queues, for exchanges that send messages by
    themselves. `alternate_of` returns the name of the alternate exchange that policies set for an exchange, or "".
    """

    def __init__(
        self,
        vhost: str,
        queues: dict[str, Queue],
        replies: dict[str, Queue],
        storage: Storage,
        tick: Tick,
        alternate_of: Callable[[str], str],
        deliver: Deliver,
        dialect: Dialect,
        random_source: RandomSource,
    ) -> None:
        self.dialect = dialect
        self._random = random_source
        self._default = DefaultExchange(vhost, queues, replies)
        self.by_name: dict[str, Exchange] = {"": self._default}
        self.router = Router(vhost, self.by_name, tick.churn)
        self.bindings = Bindings(self.router, tick)
        self._vhost = vhost
        self._storage = storage
        self._tick = tick
        self._alternate_of = alternate_of
        self._deliver = deliver
        # Holds the messages of delayed exchanges. The virtual host sets it.
        self.delayed_queues: DelayedQueues
        for name, kind in PREDECLARED:
            self._add(make_exchange(vhost, name, kind, True, False, False, {}, random_source))
        # The broker publishes its traces to this exchange.
        self._add(make_exchange(vhost, TRACE_EXCHANGE, "topic", True, False, True, {}, random_source))

    def find(self, name: str) -> Exchange:
        """Return the exchange of this name. Raises NotFound."""
        return self.router.exchange(name)

    # -- declaring ----------------------------------------------------------------------------------------------

    def declare(
        self, name: str, kind: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> Exchange:
        """Create an exchange, or return an equal one that exists."""
        _refuse_default(name)
        check_exchange(self._vhost, self.dialect, name, kind, arguments)
        found = self.by_name.get(name)
        if found is not None:
            if self.dialect.compares_what_is_specified:
                if kind != found.type:
                    raise ExchangeTypeConflict(f"exchange '{name}' in vhost '{self._vhost}' has type '{found.type}'")
                args.check_same("exchange", name, self._vhost, "durable", durable, found.durable)
                args.check_same_table("exchange", name, self._vhost, arguments, found.arguments)
                return found
            args.check_same("exchange", name, self._vhost, "type", kind, found.type)
            args.check_same("exchange", name, self._vhost, "durable", durable, found.durable)
            args.check_same("exchange", name, self._vhost, "auto_delete", auto_delete, found.auto_delete)
            args.check_same("exchange", name, self._vhost, "internal", internal, found.internal)
            args.check_same_arguments("exchange", name, self._vhost, args.EXCHANGE_COMPARED, arguments, found.arguments)
            return found
        _refuse_reserved(name)
        check_room(self._tick.alarm, f"exchange '{name}' in vhost '{self._vhost}'", arguments)
        exchange = new_exchange(self._vhost, name, kind, durable, auto_delete, internal, arguments, self._random)
        if isinstance(exchange, DelayedExchange):
            exchange.delayed_queue = self.delayed_queues.make(exchange)
        self._add(exchange)
        if durable:
            self._storage.definitions.put_exchange(
                ExchangeRecord(self._vhost, name, kind, auto_delete, internal, arguments)
            )
        return exchange

    def find_declared(self, name: str) -> Exchange:
        """Return the exchange of a passive declaration. Raises NotFound, and AccessRefused for the default exchange."""
        _refuse_default(name)
        return self.find(name)

    def _add(self, exchange: Exchange) -> None:
        exchange.alternate = exchange.alternate or self._alternate_of(exchange.name)
        self.by_name[exchange.name] = exchange
        self.router.all_changed()

    def set_alternate(self, exchange: Exchange, name: str) -> None:
        """Set the alternate exchange of the policies. The exchange's own argument has precedence."""
        alternate = args.alternate_exchange(exchange.name, self._vhost, exchange.arguments) or name
        if alternate != exchange.alternate:
            exchange.alternate = alternate
            self.router.all_changed()

    # -- deleting -----------------------------------------------------------------------------------------------

    def delete(self, name: str, if_unused: bool) -> None:
        """Delete an exchange. A missing one is an error only in the strict dialect."""
        _refuse_default(name)
        _refuse_reserved(name)
        if name not in self.by_name and not self.dialect.missing_is_fault:
            return
        exchange = self.find(name)
        if if_unused and exchange.bindings:
            raise PreconditionFailed(f"exchange '{name}' in vhost '{self._vhost}' in use")
        self._remove([exchange])

    def _remove(self, leaving: list[Exchange]) -> None:
        """Remove exchanges, and auto-delete exchanges whose last binding led to them.

        This uses a list instead of recursion, because clients may build chains of any length.
        """
        while leaving:
            exchange = leaving.pop()
            if self.by_name.get(exchange.name) is not exchange:
                continue
            del self.by_name[exchange.name]
            exchange.gone = True
            if isinstance(exchange, DelayedExchange):
                self.delayed_queues.exchange_deleted(exchange)
            self.bindings.remove_from(exchange)
            leaving.extend([source for source in self.bindings.remove_to(exchange) if _is_unused(source)])
            self.router.all_changed()
            if exchange.durable:
                self._storage.definitions.delete_exchange(self._vhost, exchange.name)

    def discard(self) -> None:
        """Remove all bindings: the virtual host is deleted."""
        for exchange in self.by_name.values():
            self.bindings.remove_from(exchange)

    def queue_made(self) -> None:
        """Tell the router that the default exchange leads to a new queue."""
        self.router.changed(self._default)

    def queue_removed(self, queue: Queue) -> None:
        """Remove a queue's bindings, and the auto-delete exchanges that had no others."""
        self.router.changed(self._default)
        for source in self.bindings.remove_to(queue):
            self.router.changed(source)
            if _is_unused(source):
                self._remove([source])

    # -- binding ------------------------------------------------------------------------------------------------

    def bind_queue(self, queue: Queue, source: str, routing_key: str, arguments: Table) -> None:
        self.dialect.check_field_names(arguments)
        self._bind(Binding(self._bindable(source), queue, routing_key, arguments))

    def bind_exchange(self, destination: str, source: str, routing_key: str, arguments: Table) -> None:
        """exchange.bind (RabbitMQ): messages that match at the source go on through the destination."""
        _refuse_default(destination)
        end = self.find(destination)
        self._bind(Binding(self._bindable(source), end, routing_key, arguments))

    def _bind(self, binding: Binding) -> None:
        source = binding.source
        where = f"binding of exchange '{source.name}' in vhost '{self._vhost}'"
        binding.filter = checked_filter(where, binding.routing_key, binding.arguments)
        source.check_binding(binding)
        if binding.arguments and not source.has(binding):
            check_room(self._tick.alarm, where, binding.arguments)
        cost = source.match_cost(binding)
        if cost > 0 and source.match_cost_beside(binding) + cost > ASKING_WORK_UNITS and not source.has(binding):
            raise PreconditionFailed(
                f"exchange '{source.name}' in vhost '{self._vhost}' would compare each message with more bindings, or "
                f"longer selectors, than {ASKING_WORK_UNITS} units of work allow: spread them over several exchanges"
            )
        if not self.bindings.add(binding):
            return
        self.router.changed(source)
        if is_durable(binding):
            self._storage.definitions.put_binding(self._record(binding))
        for message in source.history():
            WORK.spent += 1
            if binding.filter is None or binding.filter.matches(message):
                self._deliver(message, self._queues_beyond(binding, message))

    def _queues_beyond(self, binding: Binding, message: Message) -> list[Queue]:
        if binding.queue is not None:
            return [binding.queue]
        assert binding.exchange is not None
        return self.router.queues_from(binding.exchange, [message.address.routing_key], message)

    def unbind_queue(self, queue: Queue, source: str, routing_key: str, arguments: Table) -> None:
        """Unbind a queue. A missing binding is an error only in the strict dialect."""
        is_found = self._unbind(Binding(self._bindable(source), queue, routing_key, arguments))
        if not is_found and self.dialect.missing_is_fault:
            raise NotFound(
                f"no binding '{routing_key}' between exchange '{source}' in vhost '{self._vhost}' and queue "
                f"'{queue.name}' in vhost '{self._vhost}'"
            )

    def unbind_exchange(self, destination: str, source: str, routing_key: str, arguments: Table) -> None:
        """exchange.unbind (RabbitMQ). A missing binding is no error."""
        _refuse_default(destination)
        end = self.find(destination)
        self._unbind(Binding(self._bindable(source), end, routing_key, arguments))

    def _unbind(self, binding: Binding) -> bool:
        """Remove a binding. Returns False if there is none."""
        source = binding.source
        # Integers of all types are equal here, but bindings are stored by the types that they were made with.
        found = self.bindings.remove(binding)
        if found is None:
            return False
        self.router.changed(source)
        if is_durable(found):
            self._storage.definitions.delete_binding(self._record(found))
        if _is_unused(source):
            self._remove([source])
        return True

    def _bindable(self, name: str) -> Exchange:
        """Return an exchange at which bindings may start."""
        if not self.dialect.binds_default_exchange:
            _refuse_default(name)
        return self.find(name)

    def _record(self, binding: Binding) -> BindingRecord:
        return BindingRecord(
            self._vhost,
            binding.source.name,
            binding.destination.name,
            binding.routing_key,
            binding.arguments,
            binding.destination_type,
        )

    def queues_when_due(self, exchange: DelayedExchange, keys: list[str], message: Message) -> list[Queue]:
        """Return the queues of a due message of a delayed exchange, by all its routing keys."""
        exchange.underlying.alternate = exchange.alternate
        return self.router.queues_from(exchange.underlying, keys, message)

    # -- start-up -----------------------------------------------------------------------------------------------

    def restore(self, record: ExchangeRecord) -> None:
        exchange = make_exchange(
            self._vhost,
            record.name,
            record.type,
            True,
            record.auto_delete,
            record.internal,
            record.arguments,
            self._random,
        )
        exchange.alternate = args.alternate_exchange(record.name, self._vhost, record.arguments)
        self._add(exchange)

    def restore_binding(self, record: BindingRecord, destination: Queue | Exchange) -> None:
        source = self.by_name[record.source]
        binding = Binding(source, destination, record.routing_key, record.arguments)
        try:
            binding.filter = selector_of(record.arguments, "")
        except PreconditionFailed:
            # An earlier release accepted this selector. The binding can be unbound, and does not keep the broker from
            # starting.
            binding.filter = NEVER_MATCHES
        self.bindings.add(binding)
        self.router.changed(source)


def _refuse_default(name: str) -> None:
    if name == "":
        raise AccessRefused("operation not permitted on the default exchange")


def _refuse_reserved(name: str) -> None:
    if name.startswith("amq."):
        raise AccessRefused(f"exchange name '{name}' contains reserved prefix 'amq.*'")


def _is_unused(exchange: Exchange) -> bool:
    return exchange.auto_delete and not exchange.bindings


def is_durable(binding: Binding) -> bool:
    """Whether the binding survives a restart: both ends have to.

    An exclusive queue ends with its connection, durable or not.
    """
    queue = binding.queue
    if queue is not None:
        return binding.source.durable and queue.durable and queue.owner is None
    return binding.source.durable and binding.destination.durable
