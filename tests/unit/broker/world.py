"""A broker on a storage in memory, in virtual time, which can be found again as a restart finds it."""

from typing import Self

from flintmq.broker.broker import Broker
from flintmq.broker.message import Entry, Table
from flintmq.broker.ports import VHostRecord
from flintmq.broker.queue.base import Queue
from tests.unit.broker.memory import MemoryStorage, got, message


class World:
    """Tests say what is in its virtual host; most have a queue `q`. `count` is how many entries a restart found."""

    def __init__(self, storage: MemoryStorage | None = None) -> None:
        self.storage = MemoryStorage() if storage is None else storage
        self.broker = Broker(self.storage)
        if storage is None:
            self.broker.now_ms = 1000
            self.broker.put_vhost(VHostRecord("/"))
        else:
            self.count = self.broker.recover(storage.definitions.load())
            self.broker.now_ms = 5000
        self.vhost = self.broker.vhosts["/"]

    def restarted(self) -> Self:
        return type(self)(self.storage)

    def declare(self, name: str, arguments: Table | None = None, durable: bool = True) -> Queue:
        return self.vhost.declare_queue(name, durable, False, False, arguments or {}, None)

    @property
    def queue(self) -> Queue:
        return self.vhost.queues["q"]

    def put(self, *bodies: str) -> None:
        for body in bodies:
            self.vhost.deliver(message(body, persistent=True), [self.queue])

    def take(self) -> Entry:
        entry = got(self.queue)
        assert entry is not None
        return entry

    def pass_ms(self, ms: int) -> None:
        self.broker.now_ms += ms
        self.broker.dispatch()

    @property
    def kept(self) -> list[bytes]:
        """What the journal holds."""
        return sorted(self.storage.memory_journal.kept.values())


def taken(queue: Queue) -> list[Entry]:
    """All that is ready, which is settled."""
    found = []
    while (entry := got(queue)) is not None:
        queue.settle(entry)
        found.append(entry)
    return found


def bodies(queue: Queue) -> list[str]:
    """The bodies of all that is ready, which is settled."""
    return [entry.message.body.decode() for entry in taken(queue)]
