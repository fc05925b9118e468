"""The base of all exchange types: bindings, and the interface for matching messages to them."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import final

from mypy_extensions import i64

from flintmq.broker.counters.traffic import ExchangeTraffic
from flintmq.broker.message import Message, Table
from flintmq.broker.queue.base import Queue
from flintmq.broker.selector.filter import Filter

# Routing key and arguments: the identity of a binding among those of its exchange to its destination.
BindingKey = tuple[str, str]


@final
class Binding:
    """An edge from an exchange to a queue or to another exchange. Exactly one of `queue` and `exchange` is set."""

    def __init__(
        self,
        source: "Exchange",
        destination: "Queue | Exchange",
        routing_key: str,
        arguments: Table,
        filter: Filter | None = None,
    ) -> None:
        self.source = source
        self.queue: Queue | None = None
        self.exchange: Exchange | None = None
        if isinstance(destination, Queue):
            self.queue = destination
        else:
            self.exchange = destination
        self.destination: Queue | Exchange = destination
        self.routing_key = routing_key
        self.arguments = arguments
        self.filter = filter

    @property
    def destination_type(self) -> str:
        return "exchange" if self.queue is None else "queue"

    @property
    def key(self) -> BindingKey:
        return self.routing_key, canonical(self.arguments) if self.arguments else ""

    @property
    def is_stale(self) -> bool:
        """Whether its destination is deleted."""
        if self.queue is not None:
            return self.queue.gone
        return self.exchange is not None and self.exchange.gone


def canonical(value: object) -> str:
    """Return a text that is the same for equal values of a table, whatever the order of keys. true and 1 differ."""
    if isinstance(value, dict):
        return "{" + ",".join([f"{key!r}:{canonical(value[key])}" for key in sorted(value)]) + "}"
    if isinstance(value, list):
        return "[" + ",".join([canonical(item) for item in value]) + "]"
    return repr(value)


class Exchange:
    """An exchange. Each type implements `add`, `remove` and `match`, and names itself in `type`.

    A type with arguments of its own overrides `check`; one that refuses bindings, `check_binding`; one that keeps
    messages, `history`. A type whose matching costs more than comparing keys sets `compares_all`, or overrides
    `match_cost` and `match_cost_beside`.

    `bindings` are by their destinations, so that all bindings to a deleted one leave them at once. Afterwards `remove`
    is called for each of them, later if there are many; until then `match` may return it. A type that selects one of
    its bindings for a message sets `picks_one`, and all its bindings are removed at once.

    `alternate` names the exchange for messages that match no binding, "" for none. `changed` is the topology version in
    which the bindings last changed.
    """

    type: str = ""
    # Whether matching depends on more than the routing keys, so that a route cannot be cached.
    per_message: bool = False

    def __init__(
        self, vhost: str, name: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> None:
        self.vhost = vhost
        self.name = name
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.arguments = arguments
        self.bindings: dict[Queue | Exchange, dict[BindingKey, Binding]] = {}
        self.binding_count: i64 = 0
        self.gone = False
        self.picks_one = False
        self.alternate = ""
        self.changed: i64 = 0
        # Whether each message is compared with all bindings, and the cost of these comparisons and filters.
        self.compares_all = False
        self.match_costs: i64 = 0
        # The same by destination, without those that cost nothing.
        self._costs_to: dict[Queue | Exchange, int] = {}
        self.traffic = ExchangeTraffic()

    def bind(self, binding: Binding) -> bool:
        """Add a binding. Returns False if an equal one exists."""
        found = self.bindings.get(binding.destination)
        if found is None:
            found = {}
            self.bindings[binding.destination] = found
        key = binding.key
        if key in found:
            return False
        found[key] = binding
        self.binding_count += 1
        self.add(binding)
        cost = self.match_cost(binding)
        if cost > 0:
            self.match_costs += cost
            self._costs_to[binding.destination] = self._costs_to.get(binding.destination, 0) + cost
        return True

    def unbind(self, binding: Binding) -> Binding | None:
        """Remove the binding that equals this one. Returns it, or None if there is none."""
        found = self.bindings.get(binding.destination)
        if found is None:
            return None
        removed = found.pop(binding.key, None)
        if removed is not None:
            self.binding_count -= 1
            self.remove(removed)
            cost = self.match_cost(removed)
            if cost > 0:
                self.match_costs -= cost
                self._costs_to[binding.destination] -= cost
            if not found:
                del self.bindings[binding.destination]
                self._costs_to.pop(binding.destination, None)
        return removed

    def unbind_all(self, destination: "Queue | Exchange") -> dict[BindingKey, Binding]:
        """Remove all bindings to a destination that is deleted, and return them. The caller calls `remove` for each."""
        gone = self.bindings.pop(destination, {})
        self.binding_count -= len(gone)
        self.match_costs -= self._costs_to.pop(destination, 0)
        return gone

    def has(self, binding: Binding) -> bool:
        """Whether there is a binding that equals this one."""
        found = self.bindings.get(binding.destination)
        return found is not None and binding.key in found

    def each_binding(self) -> Iterator[Binding]:
        """All bindings, one by one; they may change meanwhile."""
        for bindings in list(self.bindings.values()):
            yield from list(bindings.values())

    def match_cost_beside(self, binding: Binding) -> i64:
        """Return the cost of other bindings that a message matching this binding certainly meets, in units of work."""
        return self.match_costs if self.compares_all else 0

    def match_cost(self, binding: Binding) -> i64:
        """Return the units of work that this binding may cost each message, beyond comparing its key."""
        return 0 if binding.filter is None else 1 + binding.filter.cost

    def check(self) -> None:
        """Raises PreconditionFailed if the exchange's arguments are invalid for this type."""

    def check_binding(self, binding: Binding) -> None:
        """Raises PreconditionFailed if a binding is invalid for this type."""

    def history(self) -> list[Message]:
        """Return the messages that a new binding's destination gets at once, oldest first."""
        return []

    @abstractmethod
    def add(self, binding: Binding) -> None:
        """Take note of a binding that was added to `bindings`."""

    @abstractmethod
    def remove(self, binding: Binding) -> None:
        """Take note of a binding that was removed from `bindings`."""

    @abstractmethod
    def match(self, keys: list[str], message: Message | None) -> list[Binding]:
        """Return the bindings that a message with these routing keys matches, before their filters.

        There are several keys if a message has CC or BCC. A type that is `per_message` is asked once for each message.
        For the other types `message` may be None, and one answer may serve many messages.
        """
