"""Exchanges, queues and bindings of a file, looked at before the first of them is made: what the broker would refuse
then is refused while nothing has changed.
"""

from collections.abc import Iterable
from typing import Final, final

from flintmq.base.errors import ConfigurationError, NotFound
from flintmq.broker import arguments as args
from flintmq.broker.access.limits import Limits, check_vhost_queues
from flintmq.broker.bounds import check_arguments, check_name
from flintmq.broker.broker import Broker
from flintmq.broker.dialect import dialect_named
from flintmq.broker.exchange.base import Binding, Exchange
from flintmq.broker.exchange.random_source import RandomSource
from flintmq.broker.exchange.registry import PREDECLARED, TRACE_EXCHANGE
from flintmq.broker.exchange.types import check_type, make_exchange
from flintmq.broker.message import Table
from flintmq.broker.ports import LimitRecord, VHostRecord
from flintmq.broker.selector.selectors import selector_of
from flintmq.broker.vhost import VHost
from flintmq.management.definitions.document import BindingEntry, ExchangeEntry, QueueEntry, arguments_of

# How RabbitMQ may write queue types, and that a virtual host has none of its own.
QUEUE_TYPES: Final = {
    "undefined": "",
    "rabbit_classic_queue": "classic",
    "rabbit_quorum_queue": "quorum",
    "rabbit_stream_queue": "stream",
}
# Every broker has its own of these, whatever a file says of them.
RESERVED: Final = "amq."
# Queues of names that the server made went with their connections, and so did what was bound to them.
_GENERATED: Final = "amq.gen-"


@final
class _PlannedVHost:
    """A virtual host as it will be: what is there, `known`, and what the file adds."""

    def __init__(self, known: VHost | None, record: VHostRecord) -> None:
        self.record = record
        self.dialect = dialect_named(record.dialect)
        self.limits = Limits()
        self._known = known
        self._exchanges: dict[str, Exchange] = {}
        self._queues: set[str] = set()
        if known is not None:
            self.limits.values = dict(known.limits.values)
        else:
            for name, kind in (*PREDECLARED, (TRACE_EXCHANGE, "topic")):
                self.add_exchange(make_exchange(record.name, name, kind, True, False, False, {}, RandomSource(0)))

    def find_exchange(self, name: str) -> Exchange | None:
        """None for the default one, which nobody makes or binds."""
        found = self._exchanges.get(name)
        if found is None and name and self._known is not None:
            found = self._known.exchanges.by_name.get(name)
        return found

    def has_queue(self, name: str) -> bool:
        return name in self._queues or (self._known is not None and name in self._known.queues)

    @property
    def queue_count(self) -> int:
        return len(self._queues) + (0 if self._known is None else len(self._known.queues))

    def add_exchange(self, exchange: Exchange) -> None:
        self._exchanges[exchange.name] = exchange

    def add_queue(self, name: str) -> None:
        self._queues.add(name)


@final
class Topology:
    """`records` are what else the file brings. Every method raises what the broker would."""

    def __init__(self, broker: Broker, records: Iterable[object]) -> None:
        vhosts = {vhost.name: vhost.record for vhost in broker.vhosts.values()}
        vhosts |= {record.name: record for record in records if isinstance(record, VHostRecord)}
        self._vhosts = {name: _PlannedVHost(broker.vhosts.get(name), record) for name, record in vhosts.items()}
        for record in records:
            if isinstance(record, LimitRecord) and record.scope == "vhost":
                self._vhosts[record.owner].limits.values[record.name] = record.value

    def exchange(self, entry: ExchangeEntry) -> None:
        vhost = self._vhosts[entry.vhost]
        name, arguments = entry.name, arguments_of(entry)
        if name == "" or vhost.find_exchange(name) or name.startswith(RESERVED):
            return
        vhost.dialect.check_name("exchange", name)
        check_arguments(f"exchange '{name}' in vhost '{entry.vhost}'", arguments)
        vhost.dialect.check_field_names(arguments)
        check_type(entry.type)
        made = make_exchange(
            entry.vhost, name, entry.type, entry.durable, entry.auto_delete, entry.internal, arguments, RandomSource(0)
        )
        args.alternate_exchange(name, entry.vhost, arguments)
        made.check()
        vhost.add_exchange(made)

    def queue(self, entry: QueueEntry) -> None:
        vhost = self._vhosts[entry.vhost]
        name, arguments = entry.name, queue_arguments(entry, vhost.record.default_queue_type)
        if vhost.has_queue(name) or name.startswith(RESERVED):
            return
        vhost.dialect.check_name("queue", name)
        check_arguments(f"queue '{name}' in vhost '{entry.vhost}'", arguments)
        default = vhost.record.default_queue_type
        if default and entry.durable and not entry.auto_delete:
            arguments = {"x-queue-type": default, **arguments}
        kind = args.queue_kind(arguments, name, entry.vhost)
        args.check_queue_arguments(arguments, kind, name, entry.vhost)
        check_vhost_queues(vhost.limits, entry.vhost, name, vhost.queue_count)
        if kind != "classic":
            args.check_replicated(kind, name, entry.vhost, entry.durable, False, entry.auto_delete, False)
        vhost.add_queue(name)

    def binding(self, entry: BindingEntry) -> None:
        if is_implied(entry):
            return
        vhost = self._vhosts[entry.vhost]
        arguments = arguments_of(entry)
        if entry.destination_type not in ("queue", "exchange"):
            raise ConfigurationError(f"a destination_type is queue or exchange, not {entry.destination_type}")
        is_queue = entry.destination_type == "queue"
        is_there = vhost.has_queue if is_queue else vhost.find_exchange
        if not is_there(entry.destination):
            raise NotFound(f"no {entry.destination_type} '{entry.destination}' in vhost '{entry.vhost}'")
        source = vhost.find_exchange(entry.source)
        if source is None:
            raise NotFound(f"no exchange '{entry.source}' in vhost '{entry.vhost}'")
        where = f"binding of exchange '{entry.source}' in vhost '{entry.vhost}'"
        check_name("routing key", entry.routing_key)
        check_arguments(where, arguments)
        vhost.dialect.check_field_names(arguments)
        selector_of(arguments, where)
        if source.type != "x-local-random":
            # The other types do not ask where a binding leads to, which may not be there yet.
            source.check_binding(Binding(source, source, entry.routing_key, arguments))


def queue_arguments(entry: QueueEntry, default_type: str) -> Table:
    """The arguments of a queue, with its type where that is said beside them alone, as in exports of ours, and is not
    what the queue would be anyway.
    """
    arguments = arguments_of(entry)
    usual = default_type if default_type and entry.durable and not entry.auto_delete else "classic"
    kind = QUEUE_TYPES.get(entry.type or "", entry.type)
    if "x-queue-type" not in arguments and kind in args.QUEUE_KINDS and kind != usual:
        return {"x-queue-type": kind, **arguments}
    return arguments


def is_implied(entry: BindingEntry) -> bool:
    """Whether there is nothing to bind: the default exchange has its bindings by itself."""
    return entry.source == "" or entry.destination.startswith(_GENERATED)
