"""The leases of a virtual host, by queue and consumer name."""

from collections.abc import Mapping
from typing import final

from mypy_extensions import i64

from flintmq.base.errors import NotFound, PreconditionFailed
from flintmq.base.limits import LEASES_MAX
from flintmq.broker.lease.lease import Lease
from flintmq.broker.ports import LeaseRecord, Storage
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.entries import EntryQueue
from flintmq.broker.queue.ids import QueueIds
from flintmq.broker.queue.lease_access import check_leasable
from flintmq.broker.tick import Tick


@final
class LeaseRegistry:
    def __init__(self, vhost: str, storage: Storage, tick: Tick, ids: QueueIds) -> None:
        self.journal = storage.journal
        self.pages = storage.pages
        self.definitions = storage.definitions
        self.timers = tick.timers
        self._vhost = vhost
        self._tick = tick
        self._ids = ids
        self._by_queue: dict[Queue, dict[str, Lease]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def now_ms(self) -> i64:
        return self._tick.now_ms

    def of(self, queue: Queue) -> list[Lease]:
        return list(self._by_queue.get(queue, {}).values())

    def find(self, queue: Queue, name: str) -> Lease:
        """Return the lease of a queue with this name. Raises NotFound if there is none."""
        found = self._by_queue.get(queue, {}).get(name)
        if found is None:
            raise NotFound(
                f"no lease '{name}' of queue '{queue.name}' in vhost '{self._vhost}': it was never opened, or "
                "was released"
            )
        return found

    def open(self, queue: Queue, name: str, epoch: i64, timeout_ms: i64) -> Lease:
        """Open a lease of a queue: create it, take it over (epoch 0), or continue it with the epoch that it returned.

        Raises NotFound if there is no lease with this name to continue. Raises PreconditionFailed if a newer epoch
        exists, for an empty name, or if the queue cannot be leased, and AccessRefused if a consumer has the queue
        exclusively.
        """
        if not isinstance(queue, EntryQueue):
            raise PreconditionFailed(
                f"queue '{queue.name}' in vhost '{self._vhost}' is a stream and cannot be leased: read it by offset"
            )
        if name == "":
            raise PreconditionFailed(
                f"a lease of queue '{queue.name}' in vhost '{self._vhost}' needs the name of a consumer"
            )
        check_leasable(queue)
        if epoch != 0 or name in self._by_queue.get(queue, {}):
            lease = self.find(queue, name)
        else:
            lease = self._make(queue, name)
        lease.open(epoch, timeout_ms)
        return lease

    def _make(self, queue: EntryQueue, name: str) -> Lease:
        if self._count >= LEASES_MAX:
            raise PreconditionFailed(f"vhost '{self._vhost}' has {LEASES_MAX} leases already: release unused ones")
        record = LeaseRecord(self._ids.take(), self._vhost, queue.id, name)
        lease = self._keep(record, queue)
        self.definitions.put_lease(record)
        return lease

    def _keep(self, record: LeaseRecord, queue: EntryQueue) -> Lease:
        lease = Lease(record, queue, self)
        self._by_queue.setdefault(queue, {})[record.name] = lease
        self._count += 1
        queue.lease_count += 1
        queue.hold_for(lease)
        return lease

    @property
    def all(self) -> list[Lease]:
        return [lease for names in self._by_queue.values() for lease in names.values()]

    def forget(self, lease: Lease) -> None:
        """Remove a lease that was released, or deleted with its queue."""
        queue = lease.queue
        names = self._by_queue[queue]
        del names[lease.record.name]
        if not names:
            del self._by_queue[queue]
        self._count -= 1
        queue.lease_count -= 1
        queue.hold_no_more_for(lease)

    # -- start-up -----------------------------------------------------------------------------------------------

    def restore(self, record: LeaseRecord, queues: Mapping[int, Queue]) -> Lease | None:
        """Restore a lease. `queues` are the existing queues by id. Returns None if the lease's queue is gone."""
        queue = queues.get(record.queue_id)
        if isinstance(queue, EntryQueue):
            return self._keep(record, queue)
        self.definitions.delete_lease(record)
        return None
