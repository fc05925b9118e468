"""The recovery of a queue at start-up: the journal restores its entries one by one."""

from typing import final

from mypy_extensions import i64

from flintmq.broker.message import ACQUIRED, FOREVER, Entry
from flintmq.broker.queue.base import Recoverable
from flintmq.broker.queue.entries import EntryQueue
from flintmq.broker.queue.sequence_owners import SequenceOwners


@final
class Recovery(Recoverable):
    """Restores the entries of `queue`. Notes must have set its `sequence_owners` before the first entry."""

    def __init__(self, queue: EntryQueue) -> None:
        self._queue = queue

    def restore(self, entry: Entry) -> None:
        queue = self._queue
        # A claim goes before a reservation: an entry that a commit put on the queue may have been acquired since.
        holder = queue.sequence_owners.holder_of(entry.seq)
        if holder is None:
            reservation = queue.sequence_owners.reservation_of(entry.seq)
            if reservation is not None:
                reservation.found(entry)
                return
        settings = queue.settings
        # The journal does not say when an entry came back: its pause begins again.
        is_paused = entry.returns > 0 and queue.groups is None and (settings.pauses_failed or settings.pauses_returned)
        is_outside = holder is not None or is_paused
        queue.restored(entry, is_outside)
        if is_outside:
            ttl_ms = settings.ttl_of(entry.message.options)
            if ttl_ms != FOREVER:
                entry.expires_ms = entry.message.timestamp_ms + ttl_ms
            queue.rank(entry)
        if holder is not None:
            entry.state = ACQUIRED
            queue.add_unacked(entry)
            holder.claimed(queue, entry)
        elif is_paused:
            queue.pause_entry(entry)
        else:
            queue.put(entry, entry.message.timestamp_ms)

    def restore_all(self, entries: list[Entry]) -> None:
        queue = self._queue
        is_owned = queue.sequence_owners.has_any
        for entry in entries:
            # Most entries are ready at once: nobody owns them, no consumer failed with them, no feature hears of them.
            if is_owned or entry.returns > 0 or not queue.append_plain(entry):
                self.restore(entry)

    def start_at(self, seq: i64) -> None:
        queue = self._queue
        queue.next_seq = max(seq, queue.sequence_owners.end)
        queue.unpublished = queue.next_seq
        queue.sequence_owners = SequenceOwners()
        queue.settle_replaced()
        # Entries that were acquired before the restart are ready again, so the queue may be too long.
        queue.trim()
        if queue.lifetime is not None:
            queue.lifetime.restart()
