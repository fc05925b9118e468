"""What every exchange type has: bindings, and the question where a message goes."""

from abc import ABC, abstractmethod
from typing import final

from flintmq.broker.message import Message, Table
from flintmq.broker.queue.base import Queue


@final
class Binding:
    """One edge from an exchange to a queue. Routing key and arguments tell it from others between the same two."""

    def __init__(self, queue: Queue, routing_key: str, arguments: Table) -> None:
        self.queue = queue
        self.routing_key = routing_key
        self.arguments = arguments
        self.key = (queue.name, routing_key, repr(sorted(arguments.items())))


class Exchange(ABC):
    """An exchange of any type. A type fills `add`, `remove` and `route`; the rest is the same for all."""

    type: str = ""
    # Whether where a message goes depends on more than its routing key, so that a route cannot be remembered.
    reads_headers: bool = False

    def __init__(
        self, vhost: str, name: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> None:
        self.vhost = vhost
        self.name = name
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.arguments = arguments
        self.bindings: dict[tuple[str, str, str], Binding] = {}

    def bind(self, binding: Binding) -> bool:
        """Add a binding; False when the same one is there already."""
        if binding.key in self.bindings:
            return False
        self.add(binding)
        self.bindings[binding.key] = binding
        return True

    def unbind(self, binding: Binding) -> Binding | None:
        """Remove the binding equal to this one; returns it, or None when there is none."""
        found = self.bindings.pop(binding.key, None)
        if found is not None:
            self.remove(found)
        return found

    def unbind_queue(self, queue: Queue) -> list[Binding]:
        """Remove all bindings to a queue that goes away."""
        gone = [binding for binding in self.bindings.values() if binding.queue is queue]
        for binding in gone:
            del self.bindings[binding.key]
            self.remove(binding)
        return gone

    def check(self, routing_key: str, arguments: Table) -> None:
        """Raises PreconditionFailed when a binding makes no sense for this type."""

    @abstractmethod
    def add(self, binding: Binding) -> None: ...

    @abstractmethod
    def remove(self, binding: Binding) -> None: ...

    @abstractmethod
    def route(self, routing_key: str, message: Message | None) -> list[Queue]:
        """The queues a message goes to, each once. Types that do not read headers need no message."""
