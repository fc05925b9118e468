"""A virtual host: its exchanges, queues and bindings, and the path of a message through them."""

from collections.abc import Callable
from typing import final

from flintmq.base.errors import AccessRefused, ConfigurationError, NotFound, PreconditionFailed
from flintmq.broker import arguments as args
from flintmq.broker.access.connection import Connection
from flintmq.broker.access.limits import Limits, check_vhost_queues
from flintmq.broker.bounds import check_arguments, check_room, name_fault, value_fault
from flintmq.broker.counters.traffic import Traffic
from flintmq.broker.delayed.messages import DELAYED_QUEUE_PREFIX, DelayedMessages
from flintmq.broker.dialect import Dialect, dialect_named
from flintmq.broker.exchange.random_source import RandomSource
from flintmq.broker.exchange.registry import ExchangeRegistry
from flintmq.broker.exchange.routing import Route
from flintmq.broker.lease.registry import LeaseRegistry
from flintmq.broker.message import Message, Table
from flintmq.broker.policy.change import PolicyChange
from flintmq.broker.policy.policies import Policies
from flintmq.broker.ports import BindingRecord, PolicyRecord, QueueRecord, Storage, VHostRecord
from flintmq.broker.queue.base import Consumer, Queue
from flintmq.broker.queue.capacity import has_room
from flintmq.broker.queue.classic import ClassicQueue
from flintmq.broker.queue.deletion import Deletion
from flintmq.broker.queue.entries import EntryQueue
from flintmq.broker.queue.ids import QueueIds
from flintmq.broker.queue.publish import put
from flintmq.broker.queue.purge import dead_letter_all
from flintmq.broker.queue.stream import StreamQueue
from flintmq.broker.stage.registry import StageRegistry
from flintmq.broker.terminus.registry import TerminusRegistry
from flintmq.broker.tick import Tick


def check_vhost(record: VHostRecord) -> None:
    """Raises ConfigurationError for an unknown dialect or queue type."""
    dialect_named(record.dialect)
    if record.default_queue_type and record.default_queue_type not in args.QUEUE_KINDS:
        raise ConfigurationError(
            f"queue type '{record.default_queue_type}' is unknown; known types: {', '.join(args.QUEUE_KINDS)}"
        )


def check_vhost_size(record: VHostRecord, is_new: bool) -> None:
    """Raises ConfigurationError for a name that clients could not send, or for too much metadata.

    A virtual host of an earlier release may keep a longer name.
    """
    fault = name_fault("vhost name", record.name) if is_new else ""
    fault = fault or value_fault(
        f"the description or tags of vhost '{record.name}'", [record.description, list(record.tags)]
    )
    if fault:
        raise ConfigurationError(fault)


def check_queue(vhost: VHostRecord, dialect: Dialect, name: str, any_type: bool, arguments: Table) -> tuple[str, Table]:
    """Check a declaration by itself, without what exists. Raises AmqpError.

    Returns the kind of the queue and its arguments. `any_type`: every type would accept the declaration, so that it
    gets the default type of the virtual host if it names none.
    """
    dialect.check_name("queue", name)
    check_arguments(f"queue '{name}' in vhost '{vhost.name}'", arguments)
    if any_type and vhost.default_queue_type and "x-queue-type" not in arguments:
        arguments = {**arguments, "x-queue-type": vhost.default_queue_type}
    kind = args.queue_kind(arguments, name, vhost.name)
    args.check_queue_arguments(arguments, kind, name, vhost.name)
    return kind, arguments


@final
class VHost:
    def __init__(
        self,
        name: str,
        storage: Storage,
        tick: Tick,
        ids: QueueIds,
        random_source: RandomSource,
        dialect: Dialect,
    ) -> None:
        self.name = name
        self.dialect = dialect
        self.record = VHostRecord(name, dialect.name)
        self.limits = Limits()
        # Whether the firehose copies published and delivered messages.
        self.traced = False
        self.churn = tick.churn
        self.traffic = Traffic()
        self.connections: dict[Connection, None] = {}
        self.queues: dict[str, Queue] = {}
        # Direct reply-to: the queues of reply addresses. Each belongs to one consumer, and none is in `queues`, so that
        # nothing finds, lists, changes or reads it. Only the default exchange sends to them.
        self.replies: dict[str, Queue] = {}
        # The exclusive queues of each connection.
        self._exclusive: dict[object, dict[Queue, None]] = {}
        self.policies = Policies()
        self.exchanges = ExchangeRegistry(
            name,
            self.queues,
            self.replies,
            storage,
            tick,
            self.policies.alternate,
            self.deliver,
            dialect,
            random_source,
        )
        self.router = self.exchanges.router
        self._delayed = DelayedMessages(name, storage, tick, ids, self.exchanges)
        self.exchanges.delayed_queues = self._delayed
        # Termini that outlive their links.
        self.termini = TerminusRegistry(name, storage, tick, ids)
        self.leases = LeaseRegistry(name, storage, tick, ids)
        # Staged publishes.
        self.stages = StageRegistry(name, storage, tick, ids, self.deliver)
        self._storage = storage
        # An attribute of its own, since every message uses it.
        self._journal = storage.journal
        self._tick = tick
        self._ids = ids

    def describe(self, record: VHostRecord) -> None:
        """Apply a changed record. Raises ConfigurationError as `check_vhost` does."""
        check_vhost(record)
        self.dialect = dialect_named(record.dialect)
        self.exchanges.dialect = self.dialect
        self.record = record

    def remove(self) -> None:
        """Close its connections, and delete its queues with their messages. The caller deletes its definition.

        If there are many queues, the ticks drop their messages.
        """
        for connection in list(self.connections):
            connection.disconnect(f"vhost '{self.name}' is deleted")
        self._delayed.discard()
        leaving: list[Queue] = []
        for queue in [*self.queues.values(), *self.replies.values()]:
            if _is_droppable(queue):
                # Its bindings and its definition go with those of the virtual host.
                leaving.append(queue)
                self.churn.queues_deleted += 1
                self.traffic.queue_gone(queue.kind, queue, queue.outflows or {})
                queue.owner = None
            else:
                self.remove_queue(queue)
        self.queues.clear()
        self._exclusive.clear()
        self.exchanges.discard()
        self._tick.begin(Deletion(leaving))
        self.termini.discard()
        self.stages.discard()

    # -- policies -----------------------------------------------------------------------------------------------

    def put_policy(self, record: PolicyRecord) -> None:
        """Set a policy, or replace the one of its name. Raises ConfigurationError for an invalid one.

        New objects get it at once, existing ones when the tick has finished its changes of policies.
        """
        self._policies_changed(self.policies.put(record))

    def delete_policy(self, record: PolicyRecord) -> None:
        """Delete the policy of this name, if any."""
        self._policies_changed(self.policies.remove(record))

    def _policies_changed(self, concerns: Callable[[str, str], bool]) -> None:
        queues = list(self.queues.values())
        self._tick.begin(PolicyChange(queues, self.exchanges, self.policies, concerns, self._tick))

    # -- messages -----------------------------------------------------------------------------------------------

    def deliver(self, message: Message, queues: list[Queue]) -> int:
        """Put a message on queues. Returns UNROUTED, ROUTED, STORED or TURNED_AWAY."""
        return put(queues, message, self._journal)

    def queues_of(self, route: Route, message: Message, more_keys: list[str] | None) -> list[Queue]:
        """Return the queues of a route for a message.

        Random choices and history take effect. Raises NotFound if there is no such exchange, AccessRefused if it is
        internal.
        """
        if more_keys is None:
            return self.router.queues(route, message)
        return self.router.queues_of_keys(route, message, more_keys)

    def check_room(self, coming_to: list[tuple[Message, list[Queue]]]) -> None:
        """Raises PreconditionFailed if a full queue would refuse one of these messages in case all of them came."""
        coming: dict[Queue, list[Message]] = {}
        for message, queues in coming_to:
            for queue in queues:
                if queue.is_guarded and not message.options.is_command:
                    coming.setdefault(queue, []).append(message)
        for queue, messages in coming.items():
            # A single message may go directly to a consumer. With several, they may share the consumer's credit.
            is_alone = len(coming) == 1 and len(messages) == 1
            if not has_room(queue, messages) and not (is_alone and queue.takes_at_once(messages[0])):
                raise PreconditionFailed(f"queue '{queue.name}' in vhost '{self.name}' has no room for the transaction")

    # -- queues -------------------------------------------------------------------------------------------------

    def queue(self, name: str, connection: object) -> Queue:
        """Return the queue of this name. Raises NotFound, or ResourceLocked if another connection owns it."""
        found = self.queues.get(name)
        if found is None:
            raise NotFound(f"no queue '{name}' in vhost '{self.name}'")
        found.check_access(connection)
        return found

    def make_reply_queue(self, name: str) -> Queue:
        """Create a queue for replies to one consumer, which must subscribe: the queue ends with that.

        The name is its address, and must be hard to guess. No policy or limit applies to the queue.
        """
        queue = ClassicQueue(
            self._ids.take(), self.name, name, "classic", False, True, None, {}, self._tick, self._journal
        )
        self.replies[name] = queue
        self.exchanges.queue_made()
        return queue

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
        """Create a queue, or return an equal existing one. `generated`: the server generated the name."""
        dialect = self.dialect
        any_type = durable and not exclusive and not auto_delete
        kind, arguments = check_queue(self.record, dialect, name, any_type, arguments)
        self.churn.queues_declared += 1
        found = self.queues.get(name)
        if found is not None:
            found.check_owner(connection if exclusive else None)
            args.check_same("queue", name, self.name, "durable", durable, found.durable)
            if dialect.compares_what_is_specified:
                args.check_same_table("queue", name, self.name, arguments, found.arguments)
                return found
            args.check_same("queue", name, self.name, "auto_delete", auto_delete, found.auto_delete)
            args.check_same_arguments(
                "queue",
                name,
                self.name,
                args.QUEUE_COMPARED,
                {**arguments, "x-queue-type": kind},
                {**found.arguments, "x-queue-type": found.kind},
            )
            found.used()
            return found
        if name.startswith("amq.") and not generated:
            raise AccessRefused(f"queue name '{name}' contains reserved prefix 'amq.*'")
        check_room(self._tick.alarm, f"queue '{name}' in vhost '{self.name}'", arguments)
        check_vhost_queues(self.limits, self.name, name, len(self.queues))
        if kind != "classic":
            args.check_replicated(kind, name, self.name, durable, exclusive, auto_delete, generated)
        self.churn.queues_created += 1
        queue = self._make_queue(
            self._ids.take(), name, durable, auto_delete, connection if exclusive else None, arguments
        )
        if exclusive:
            self._exclusive.setdefault(connection, {})[queue] = None
        # An exclusive queue ends with its connection, and never survives a restart.
        if durable and not exclusive:
            self._storage.definitions.put_queue(QueueRecord(queue.id, self.name, name, auto_delete, arguments))
        return queue

    def _make_queue(
        self, queue_id: int, name: str, durable: bool, auto_delete: bool, owner: object | None, arguments: Table
    ) -> Queue:
        queue: Queue
        kind = args.queue_kind(arguments, name, self.name)
        if kind == "stream":
            log = self._storage.open_stream(queue_id)
            queue = StreamQueue(queue_id, self.name, name, arguments, self._tick, log, self._storage.definitions)
        else:
            queue = ClassicQueue(
                queue_id,
                self.name,
                name,
                kind,
                durable,
                auto_delete,
                owner,
                arguments,
                self._tick,
                self._journal,
                self.dialect.ranks_all,
            )
        policy = arguments.get(args.LIFETIME)
        if isinstance(policy, str):
            queue.set_lifetime_policy(policy)
        effective = self.policies.effective(kind, name, arguments)
        if effective is not arguments:
            queue.configure(effective)
        self.queues[name] = queue
        self.exchanges.queue_made()
        return queue

    def delete_queue(self, name: str, if_unused: bool, if_empty: bool, connection: object) -> int:
        """Delete a queue. Returns the number of its messages.

        A missing queue is an error only in the strict dialect.
        """
        if name not in self.queues and not self.dialect.missing_is_fault:
            return 0
        queue = self.queue(name, connection)
        if if_unused and queue.consumers:
            raise PreconditionFailed(f"queue '{name}' in vhost '{self.name}' in use")
        held = queue.unacked if self.dialect.unacknowledged_protect else 0
        if if_empty and queue.message_count + queue.held_count + held > 0:
            raise PreconditionFailed(f"queue '{name}' in vhost '{self.name}' not empty")
        return self.remove_queue(queue)

    def rearrange(self, queue: Queue) -> None:
        """Apply changed arguments to a queue."""
        if self.queues.get(queue.name) is not queue:
            return
        queue.configure(self.policies.effective(queue.kind, queue.name, queue.arguments))
        if queue.durable and queue.owner is None:
            self._storage.definitions.put_queue(
                QueueRecord(queue.id, self.name, queue.name, queue.auto_delete, queue.arguments)
            )

    def remove_queue(self, queue: Queue) -> int:
        """Remove a queue with its bindings, messages and consumers. Returns the number of messages."""
        if self.replies.get(queue.name) is queue:
            del self.replies[queue.name]
            self.exchanges.queue_removed(queue)
            count = queue.delete()
            self.traffic.queue_gone(queue.kind, queue, queue.outflows or {})
            return count
        if self.queues.get(queue.name) is not queue:
            return 0
        self._lose(queue)
        count = 0
        if self.dialect.dead_letters_deleted and isinstance(queue, EntryQueue):
            count = dead_letter_all(queue)
        count += queue.delete()
        self.traffic.queue_gone(queue.kind, queue, queue.outflows or {})
        if queue.durable and queue.owner is None:
            self._storage.definitions.delete_queue(self.name, queue.name)
        if queue.keeps_all:
            self._storage.delete_stream(queue.id)
        owner = queue.owner
        if owner is not None:
            # Publishers' cached routes may keep the queue for a while; they must not keep its connection.
            queue.owner = None
            owned = self._exclusive[owner]
            del owned[queue]
            if not owned:
                del self._exclusive[owner]
        return count

    def _lose(self, queue: Queue) -> None:
        """Have nobody find a queue, and no message routed to it. Its messages and consumers are still there."""
        del self.queues[queue.name]
        self.churn.queues_deleted += 1
        self.exchanges.queue_removed(queue)

    def remove_queues_of(self, connection: object) -> None:
        """Remove the exclusive queues of a connection that has ended.

        Its client may declare them again at once. If there are many, the ticks drop their messages.
        """
        leaving: list[Queue] = []
        for queue in list(self._exclusive.get(connection, {})):
            if _is_droppable(queue) and not self.dialect.dead_letters_deleted:
                leaving.append(queue)
                self._lose(queue)
                self.traffic.queue_gone(queue.kind, queue, queue.outflows or {})
                queue.owner = None
            else:
                self.remove_queue(queue)
        if leaving:
            del self._exclusive[connection]
            self._tick.begin(Deletion(leaving))

    def unsubscribe(self, queue: Queue, consumer: Consumer) -> None:
        """End a subscription. An auto-delete queue is removed with its last one."""
        queue.unsubscribe(consumer)
        if queue.auto_delete and not queue.consumers:
            self.remove_queue(queue)

    # -- start-up -----------------------------------------------------------------------------------------------

    def restore_queue(self, record: QueueRecord) -> Queue:
        if record.name.startswith(DELAYED_QUEUE_PREFIX):
            return self._delayed.restore(record)
        return self._make_queue(record.id, record.name, True, record.auto_delete, None, record.arguments)

    def restore_binding(self, record: BindingRecord) -> None:
        exchanges = self.exchanges
        if record.destination_type == "exchange":
            exchanges.restore_binding(record, exchanges.by_name[record.destination])
        else:
            exchanges.restore_binding(record, self.queues[record.destination])


def _is_droppable(queue: Queue) -> bool:
    """Whether nobody has to be told of a queue that is deleted, so that ticks may drop its messages."""
    return isinstance(queue, EntryQueue) and not queue.consumers and not queue.is_held
