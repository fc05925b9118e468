"""The broker: virtual hosts over one storage, and the tick that moves what came in to where it goes."""

from typing import final

from mypy_extensions import i64

from flintmq.broker.dialect import RABBITMQ, Dialect
from flintmq.broker.ports import Definitions, Storage
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.classic import ClassicQueue
from flintmq.broker.queue.stream import StreamQueue
from flintmq.broker.vhost import QueueIds, VHost


@final
class Broker:
    """`now_ms` is the time of what is being taken in (Unix time); whoever reads the clock sets it."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.vhosts: dict[str, VHost] = {}
        self.now_ms: i64 = 0
        self._ready: list[Queue] = []
        # Streams with consumers that wait for records to become durable.
        self._unsynced: list[StreamQueue] = []
        self._ids = QueueIds(1)

    def add_vhost(self, name: str, dialect: Dialect = RABBITMQ) -> VHost:
        vhost = VHost(name, self.storage, self._ready, self._unsynced, self._ids, dialect)
        self.vhosts[name] = vhost
        self.storage.definitions.put_vhost(name)
        return vhost

    def dispatch(self) -> bool:
        """Deliver from every queue that may have something for its consumers.

        True when a queue used up its burst: others get their turn, and the sockets theirs, before it goes on.
        """
        ready = self._ready
        if not ready:
            return False
        turn = ready[:]
        ready.clear()
        more = False
        turn.reverse()
        try:
            while turn:
                queue = turn.pop()
                queue.dispatched()
                if queue.dispatch():
                    queue.touch()
                    more = True
        finally:
            # A queue that fails must not take along those behind it.
            ready.extend(turn)
        return more

    @property
    def has_ready(self) -> bool:
        """Whether a queue may have something to deliver."""
        return bool(self._ready)

    def on_durable(self) -> None:
        """The storage made progress: streams may have more to deliver at the end of the next tick."""
        unsynced = self._unsynced[:]
        self._unsynced.clear()
        for stream in unsynced:
            stream.synced()

    def recover(self, definitions: Definitions) -> int:
        """Build everything from storage, before the first connection; returns how many messages were found."""
        self._ids = QueueIds(definitions.next_queue_id)
        for name in definitions.vhosts:
            self.vhosts[name] = VHost(name, self.storage, self._ready, self._unsynced, self._ids)
        for exchange in definitions.exchanges:
            self.vhosts[exchange.vhost].exchanges.restore(exchange)
        queues: dict[int, ClassicQueue] = {}
        for record in definitions.queues:
            queue = self.vhosts[record.vhost].restore_queue(record)
            if isinstance(queue, ClassicQueue):
                queues[record.id] = queue
        for binding in definitions.bindings:
            self.vhosts[binding.vhost].restore_binding(binding)
        count = 0
        for queue_id, entry in self.storage.recover(set(queues)):
            queues[queue_id].restore(entry)
            count += 1
        for queue_id, queue in queues.items():
            queue.start_at(self.storage.recovered_next_seq(queue_id))
        return count
