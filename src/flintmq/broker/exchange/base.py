"""What every exchange type has: bindings, and the question which of them a message matches."""

from abc import abstractmethod
from typing import final

from mypy_extensions import i64

from flintmq.broker.counters.traffic import Passing
from flintmq.broker.message import Message, Table
from flintmq.broker.queue.base import Queue
from flintmq.broker.selector.filter import Filter

# Destination's kind and name, routing key, arguments: what tells a binding from others of the same exchange.
BindingKey = tuple[str, str, str, str]


@final
class Binding:
    """One edge from an exchange to a queue or to another exchange; one of `queue` and `exchange` is not None."""

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
        arguments = canonical(self.arguments) if self.arguments else ""
        return self.destination_type, self.destination.name, self.routing_key, arguments


def canonical(value: object) -> str:
    """The same text for equal values of a table, in whatever order their keys are; true and 1 are different."""
    if isinstance(value, dict):
        return "{" + ",".join([f"{key!r}:{canonical(value[key])}" for key in sorted(value)]) + "}"
    if isinstance(value, list):
        return "[" + ",".join([canonical(item) for item in value]) + "]"
    return repr(value)


class Exchange:
    """An exchange of any type. A type fills `add`, `remove` and `match`; the rest is the same for all.

    `alternate` names the exchange that gets what matches nothing here, empty for none. `changed` is the router's: the
    version in which this exchange's bindings became what they are.
    """

    type: str = ""
    # Whether what matches depends on more than the routing key, so that a route cannot be remembered.
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
        self.bindings: dict[BindingKey, Binding] = {}
        self.alternate = ""
        self.changed: i64 = 0
        # Whether each message meets all bindings; and what their comparisons and filters cost it.
        self.asks_all = False
        self.asking: i64 = 0
        self.passing = Passing()

    def bind(self, binding: Binding) -> bool:
        """Add a binding; False when the same one is there already."""
        key = binding.key
        if key in self.bindings:
            return False
        self.bindings[key] = binding
        self.add(binding)
        self.asking += self.asking_cost(binding)
        return True

    def unbind(self, key: BindingKey) -> Binding | None:
        """Remove the binding of this key; returns it, or None when there is none."""
        found = self.bindings.pop(key, None)
        if found is not None:
            self.remove(found)
            self.asking -= self.asking_cost(found)
        return found

    def asking_beside(self, binding: Binding) -> i64:
        """What other bindings cost a message that meets this one, as far as it is certain to meet them."""
        return self.asking if self.asks_all else 0

    def asking_cost(self, binding: Binding) -> i64:
        """Units of work that each message may cost for the sake of this binding, beyond those of its key."""
        return 0 if binding.filter is None else 1 + binding.filter.cost

    def check(self) -> None:
        """Raises PreconditionFailed when the exchange's own arguments make no sense for this type."""

    def check_binding(self, binding: Binding) -> None:
        """Raises PreconditionFailed when a binding makes no sense for this type."""

    def history(self) -> list[Message]:
        """What a new binding's destination is given at once, oldest first."""
        return []

    @abstractmethod
    def add(self, binding: Binding) -> None:
        """A binding is new in `bindings`."""

    @abstractmethod
    def remove(self, binding: Binding) -> None:
        """A binding has left `bindings`."""

    @abstractmethod
    def match(self, keys: list[str], message: Message | None) -> list[Binding]:
        """The bindings that a message with these routing keys goes by, before their filters.

        There are several keys where a message names further ones (CC, BCC). Types that are not `per_message` need no
        message.
        """
