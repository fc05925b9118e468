"""What every kind of queue has: a name, an owner, consumers, and a place in the tick."""

from abc import ABC, abstractmethod

from flintmq.base.errors import AccessRefused, ResourceLocked
from flintmq.broker.consumer import Consumer
from flintmq.broker.message import Entry, Message, Table


class Queue(ABC):
    """A queue of any kind.

    `owner` is the connection an exclusive queue belongs to. `ready` is the list of queues to be dispatched at the end
    of the tick, shared by all queues of the broker.
    """

    # x-queue-type, as a client writes it.
    kind: str = "classic"
    # Whether every message it takes is stored, persistent or not.
    keeps_all: bool = False

    def __init__(
        self,
        queue_id: int,
        vhost: str,
        name: str,
        durable: bool,
        auto_delete: bool,
        owner: object | None,
        arguments: Table,
        ready: "list[Queue]",
    ) -> None:
        self.id = queue_id
        self.vhost = vhost
        self.name = name
        self.durable = durable
        self.auto_delete = auto_delete
        self.owner = owner
        self.arguments = arguments
        self.consumers: list[Consumer] = []
        self._ready = ready
        self._is_ready = False
        self.gone = False

    # -- messages -----------------------------------------------------------------------------------------------

    @abstractmethod
    def enqueue(self, message: Message) -> Entry | None:
        """Take a message; returns the entry the journal has to keep, if it has to keep one."""

    @property
    @abstractmethod
    def message_count(self) -> int:
        """Messages that are ready to be delivered."""

    @abstractmethod
    def get(self) -> Entry | None:
        """Acquire the next entry for basic.get."""

    @abstractmethod
    def settle(self, entry: Entry) -> None:
        """An acquired entry has left the queue for good."""

    @abstractmethod
    def requeue(self, entries: list[Entry]) -> None:
        """Acquired entries come back, flagged as redelivered, each to the place it had."""

    @abstractmethod
    def purge(self) -> int:
        """Drop all messages that are ready; returns how many."""

    @abstractmethod
    def dispatch(self) -> bool:
        """Give entries to consumers that can take them; True when a burst was used up and more could go out."""

    # -- consumers ----------------------------------------------------------------------------------------------

    def subscribe(self, consumer: Consumer, arguments: Table) -> None:
        if self.consumers and (consumer.exclusive or self.consumers[0].exclusive):
            raise AccessRefused(f"queue '{self.name}' in vhost '{self.vhost}' in exclusive use")
        self.consumers.append(consumer)
        self.touch()

    def unsubscribe(self, consumer: Consumer) -> None:
        if consumer in self.consumers:
            self.consumers.remove(consumer)

    @property
    def consumer_count(self) -> int:
        return len(self.consumers)

    def touch(self) -> None:
        """There may be something to deliver: look at the end of this tick."""
        if not self._is_ready and self.consumers:
            self._is_ready = True
            self._ready.append(self)

    def dispatched(self) -> None:
        """The tick has taken this queue off the list."""
        self._is_ready = False

    def check_access(self, connection: object) -> None:
        """Raises ResourceLocked when another connection owns this queue exclusively."""
        if self.owner is not None:
            self.check_owner(connection)

    def check_owner(self, owner: object | None) -> None:
        """The same for a redeclaration, which has to agree in whose queue it is; None: everybody's."""
        if self.owner is not owner:
            raise ResourceLocked(
                f"cannot obtain exclusive access to locked queue '{self.name}' in vhost '{self.vhost}'. It could be "
                "originally declared on another connection or the exclusive property value does not match that of "
                "the original declaration."
            )

    def delete(self) -> int:
        """Drop everything, tell the consumers; returns how many messages were ready."""
        self.gone = True
        count = self.purge()
        consumers = self.consumers
        self.consumers = []
        for consumer in consumers:
            consumer.cancelled()
        return count
