"""Link termini that outlive their links (amqp-1.0 part 3 §3.5): a source or target, with its unsettled deliveries.

A terminus is in use by a link, or suspended: then it waits for a link of the same name, until it expires. Nobody else
gets the messages that it holds meanwhile. A durable terminus is a definition. One of UNSETTLED_STATE also keeps a note
in the journal for each delivery, in one group with the changes of the messages: after a crash both are there, or
neither.
"""

from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64, trait

from flintmq.base.errors import StorageError
from flintmq.broker.counters.partial_messages import PartialMessageHolder
from flintmq.broker.message import Entry
from flintmq.broker.notes import Notes
from flintmq.broker.ports import JournalRanges, Page, TerminusRecord, journal_ranges
from flintmq.broker.queue.base import EntryHolder, Queue, Recoverable
from flintmq.broker.queue.entries import EntryQueue
from flintmq.broker.queue.seen import Seen
from flintmq.broker.queue.seen import decoded as decoded_seen
from flintmq.broker.queue.settlement import Outcome
from flintmq.broker.timers import Timed

if TYPE_CHECKING:
    from flintmq.broker.terminus.registry import TerminusRegistry

SOURCE: Final = "source"
TARGET: Final = "target"

# The part of a terminus that survives a restart (amqp-1.0 §3.5.5).
NONE: Final = 0
CONFIGURATION: Final = 1
UNSETTLED_STATE: Final = 2

# The memory of a part of a message with its note, in bytes (639 were measured). A part is a frame. A peer may insist on
# frames of 512 bytes, whose messages then count for less than 1.5 times their size.
PART_BYTES: Final = 700

# The size from which on a partial message is moved out of memory while suspended: a smaller page would take as much
# memory.
_PAGED_OUT_MIN_BYTES: Final = 2_048

# The event after which a terminus begins to expire (amqp-1.0 §3.5.6).
LINK_DETACH: Final = "link-detach"
SESSION_END: Final = "session-end"
CONNECTION_CLOSE: Final = "connection-close"
NEVER: Final = "never"


@trait
class DetachedLink:
    """A link that has released its terminus while its session goes on: its peer can still settle its deliveries."""

    @abstractmethod
    def superseded(self) -> None:
        """Another link uses the terminus, or it is gone: settlements over this link have no effect any more."""


class Terminus(Timed, Recoverable):
    """A link terminus. `link` uses it, over `session` and `connection`. A suspended terminus keeps the last two."""

    def __init__(self, record: TerminusRecord, termini: "TerminusRegistry") -> None:
        super().__init__()
        self.record = record
        self.link: object | None = None
        # The link that used it last, while its deliveries can still be settled over it (amqp-1.0 §2.7.6).
        self.detached: DetachedLink | None = None
        self.session: object | None = None
        self.connection: object | None = None
        # Expired or closed. The name may belong to another terminus by now.
        self.gone = False
        self._termini = termini
        self._notes = Notes(record.id, termini.journal)
        # Restored at start-up, and the clock is not known yet.
        self._is_restored = False
        self._node: Queue | None = None

    def own(self, node: Queue) -> None:
        """Count as a link of a node with a lifetime policy, for as long as this terminus exists."""
        if node is not self._node:
            self._disown()
            self._node = node
        if node.lifetime is not None:
            node.lifetime.open(self)

    def _disown(self) -> None:
        node, self._node = self._node, None
        if node is not None and node.lifetime is not None:
            node.lifetime.close(self)

    @property
    def keeps_notes(self) -> bool:
        return self.record.durability == UNSETTLED_STATE

    # -- lifecycle ----------------------------------------------------------------------------------------------

    def attach(self, link: object, session: object, connection: object) -> None:
        self._termini.timers.cancel(self)
        self._is_restored = False
        self._supersede()
        self._termini.leave(self)
        self.link = link
        self.session = session
        self.connection = connection
        self._termini.join(self)

    def made(self, node: Queue) -> None:
        """Own a node that was created for this terminus. A restart finds it if both are durable."""
        self.own(node)
        if self.record.node_id == node.id:
            return
        self.record = replace(self.record, node_id=node.id)
        if self.record.durability > NONE:
            self._termini.definitions.put_terminus(self.record)

    def configure(self, durability: int, expiry: str, timeout_ms: i64, configuration: bytes) -> None:
        """Change the properties of the terminus: a link that attaches asks for others than the one before."""
        before = self.record
        self.record = replace(
            before, durability=durability, expiry=expiry, timeout_ms=int(timeout_ms), configuration=configuration
        )
        if self.record == before:
            return
        if durability > NONE:
            self._termini.definitions.put_terminus(self.record)
        elif before.durability > NONE:
            self._termini.definitions.delete_terminus(self.record)
        if (durability == UNSETTLED_STATE) != (before.durability == UNSETTLED_STATE):
            self._notes.begin_group()
            self._keep_or_drop_notes()
            self._notes.end_group()

    def detach(self, detached: DetachedLink | None = None) -> None:
        """Suspend the terminus. Its peer can still settle deliveries through `detached` until a link resumes it."""
        self.link = None
        self.detached = detached
        if self.record.expiry == LINK_DETACH:
            self._expire_later()

    def _supersede(self) -> None:
        detached, self.detached = self.detached, None
        if detached is not None:
            detached.superseded()

    def end_session(self) -> None:
        self.link = None
        self.detached = None
        if self.record.expiry in (LINK_DETACH, SESSION_END):
            self._expire_later()

    def close_connection(self) -> None:
        self.link = None
        self.detached = None
        if self.record.expiry != NEVER:
            self._expire_later()

    def expire(self) -> None:
        """Delete the terminus: give back what it holds, and drop its notes and definition."""
        if self.gone:
            return
        self._notes.begin_group()
        self.release_all()
        self._notes.end_group()
        self.discard()
        if self.record.durability > NONE:
            self._termini.definitions.delete_terminus(self.record)

    def discard(self) -> None:
        """Discard the terminus without its definition, which its virtual host's deletion removes."""
        self.gone = True
        self.link = None
        self._supersede()
        self._termini.timers.cancel(self)
        self._termini.forget(self)
        self._disown()

    def _expire_later(self) -> None:
        if self.gone:
            return
        if self.record.timeout_ms == 0:
            self.expire()
        else:
            self._termini.timers.at(self._termini.now_ms + self.record.timeout_ms, self)

    def on_due(self, now_ms: i64) -> None:
        if self._is_restored:
            # The event after which it expires happened before the restart, at an unknown time.
            self._is_restored = False
            self._expire_later()
        elif self.link is None:
            self.expire()

    @property
    @abstractmethod
    def tags(self) -> list[bytes]:
        """The tags of unsettled deliveries."""

    @abstractmethod
    def release_all(self) -> None:
        """Give back everything unsettled, within the open journal group."""

    @abstractmethod
    def _keep_or_drop_notes(self) -> None:
        """Write the notes of unsettled deliveries, or drop them, after `keeps_notes` has changed."""

    # -- start-up -----------------------------------------------------------------------------------------------

    def start_at(self, seq: i64) -> None:
        self._notes.start_at(seq)
        if self.record.expiry != NEVER:
            self._is_restored = True
            # The timer fires as soon as the broker knows the time.
            self._termini.timers.at(1, self)


@final
class SentDelivery:
    """A delivery that was sent and is not settled."""

    def __init__(self, tag: bytes, queue: Queue, entry: Entry) -> None:
        self.tag = tag
        self.queue = queue
        self.entry = entry
        self.note: Entry | None = None


@final
class SourceTerminus(Terminus, EntryHolder):
    """A source, from which the broker sends. `unsettled` are its deliveries by tag, in the order they were sent.

    It has acquired the entries of its deliveries, from one queue or several.
    """

    def __init__(self, record: TerminusRecord, termini: "TerminusRegistry") -> None:
        super().__init__(record, termini)
        self.unsettled: dict[bytes, SentDelivery] = {}
        # The number of the last delivery, from which its tag was made. A restart does not know it.
        self.last_number: i64 = 0
        # The entries that links without acquisition (browsers) were sent. The note of it says what a restart must not
        # send again: for a stream everything sent, because unsettled deliveries have their own notes; for queues, what
        # is settled.
        self.seen: Seen | None = None
        self._settled: Seen | None = None
        self._seen_note: Entry | None = None
        self._noted_end = 0
        # Deliveries that a transaction settles, whatever happens to the terminus meanwhile.
        self._staged: dict[SentDelivery, None] = {}
        # Queues of which it holds, or held, entries.
        self._queues: dict[Queue, None] = {}
        # Deliveries whose notes were found, by queue and sequence number. Used at start-up only.
        self._found: dict[Queue, dict[int, SentDelivery]] = {}
        self._replaced: list[SentDelivery] = []

    def hold(self, tag: bytes, queue: Queue, entry: Entry) -> SentDelivery:
        """Hold an acquired entry under a delivery tag. It may be sent once the note is durable."""
        held = SentDelivery(tag, queue, entry)
        self.unsettled[tag] = held
        if queue not in self._queues:
            self._queues[queue] = None
            queue.hold_for(self)
        if self.keeps_notes:
            self._write(held)
        return held

    def settle(self, tag: bytes, outcome: Outcome) -> SentDelivery | None:
        """Settle a delivery with its outcome. Returns None if it is not held (any more)."""
        held = self.unsettled.pop(tag, None)
        if held is not None:
            self._apply(held, outcome)
        return held

    def _apply(self, held: SentDelivery, outcome: Outcome) -> None:
        note = held.note
        seen = self.seen if self.keeps_notes else None
        if note is None and seen is None:
            outcome.apply(held.queue, held.entry, self)
            return
        self._notes.begin_group()
        try:
            if note is not None:
                self._notes.drop(note)
            if seen is not None:
                self._note_seen(seen, held)
            outcome.apply(held.queue, held.entry, self)
        finally:
            self._notes.end_group()

    def _note_seen(self, seen: Seen, held: SentDelivery) -> None:
        """Note that a delivery of a browsed entry is settled: no restart may send it again."""
        if held.queue.keeps_all:
            if self._noted_end == seen.end:
                return
            self._noted_end = seen.end
            noted = seen
        else:
            settled = self._settled
            if settled is None or settled.queue_id != seen.queue_id:
                lacking = [*self.unsettled.values(), *self._staged]
                settled = seen.without([int(each.entry.seq) for each in lacking])
                self._settled = settled
            settled.add(held.entry.seq)
            noted = settled
        before = self._seen_note
        self._seen_note = self._notes.write(_SEEN + noted.encoded())
        if before is not None:
            self._notes.drop(before)

    def _drop_seen(self) -> None:
        note, self._seen_note = self._seen_note, None
        self._noted_end = 0
        self._settled = None
        if note is not None:
            self._notes.drop(note)

    def stage(self, tag: bytes) -> SentDelivery | None:
        """Reserve a delivery for a transaction: only `settle_staged` settles it, and `unstage` or a crash returns it.

        Returns None if it is not held.
        """
        held = self.unsettled.pop(tag, None)
        if held is not None:
            self._staged[held] = None
        return held

    def unstage(self, held: SentDelivery) -> None:
        del self._staged[held]
        self.unsettled[held.tag] = held

    def settle_staged(self, held: SentDelivery, outcome: Outcome) -> None:
        del self._staged[held]
        self._apply(held, outcome)

    @property
    def tags(self) -> list[bytes]:
        """The tags of its deliveries, which no other delivery may have."""
        return [*self.unsettled, *[held.tag for held in self._staged]]

    def take(self, tag: bytes) -> SentDelivery | None:
        """Forget a delivery without settling its entry. Returns None if it is not held."""
        held = self.unsettled.pop(tag, None)
        if held is not None:
            self._drop(held)
        return held

    def release_all(self) -> None:
        self._drop_seen()
        for held in self._staged:
            self._drop(held)
        unsettled = list(self.unsettled.values())
        self.unsettled = {}
        back: dict[Queue, list[Entry]] = {}
        for held in unsettled:
            self._drop(held)
            back.setdefault(held.queue, []).append(held.entry)
        for queue, entries in back.items():
            queue.release(entries)

    def discard(self) -> None:
        super().discard()
        for queue in self._queues:
            queue.hold_no_more_for(self)
            queue.context_ended(self)
        self._queues = {}

    def queue_gone(self, queue: Queue) -> None:
        self._supersede()
        self._drop_seen()
        self._queues.pop(queue, None)
        for held in self._staged:
            if held.queue is queue:
                self._drop(held)
        for held in list(self.unsettled.values()):
            if held.queue is queue:
                del self.unsettled[held.tag]
                self._drop(held)
                queue.settle(held.entry)

    def _keep_or_drop_notes(self) -> None:
        if not self.keeps_notes:
            self._drop_seen()
        for held in [*self.unsettled.values(), *self._staged]:
            if self.keeps_notes:
                self._write(held)
            else:
                self._drop(held)

    def _write(self, held: SentDelivery) -> None:
        # A note is written only for an entry that a restart finds on its queue.
        if held.entry.segment != 0 or held.queue.keeps_all:
            held.note = self._notes.write(b"%d %d " % (held.queue.id, int(held.entry.seq)) + held.tag)

    def _drop(self, held: SentDelivery) -> None:
        note = held.note
        if note is not None:
            held.note = None
            self._notes.drop(note)

    # -- start-up -----------------------------------------------------------------------------------------------

    def restore(self, entry: Entry) -> None:
        """Restore a note, before the entries of any queue."""
        if entry.message.body[:1] == _SEEN:
            self._restore_seen(entry)
            return
        queue_id, seq, tag = entry.message.body.split(b" ", 2)
        queue = self._termini.queue_by_id(int(queue_id))
        if queue is None:
            self._notes.drop(entry)
            return
        number = int(seq)
        found = self._found.setdefault(queue, {})
        older = found.get(number)
        if older is not None:
            # The record of its settlement was damaged. The message was delivered again since.
            self._drop(older)
            if self.unsettled.get(older.tag) is older:
                del self.unsettled[older.tag]
        held = SentDelivery(tag, queue, entry)
        held.note = entry
        found[number] = held
        self.unsettled[tag] = held
        if older is None and isinstance(queue, EntryQueue):
            queue.sequence_owners.claim(number, 1, self)

    def _restore_seen(self, entry: Entry) -> None:
        """Restore the latest note of sent entries. An older one is there if the record that dropped it was damaged."""
        self._drop_seen()
        seen = decoded_seen(entry.message.body[1:])
        if self._termini.queue_by_id(seen.queue_id) is None:
            self._notes.drop(entry)
            return
        self.seen = seen
        self._seen_note = entry
        self._noted_end = seen.end

    def claimed(self, queue: Queue, entry: Entry) -> None:
        held = self._found[queue].pop(int(entry.seq))
        held.entry = entry
        if self.unsettled.get(held.tag) is not held:
            # A damaged record: the tag has been another delivery's since.
            self._replaced.append(held)

    def start_at(self, seq: i64) -> None:
        super().start_at(seq)
        for queue, missing in self._found.items():
            for number, held in missing.items():
                entry = queue.recall(_entry_at(held.entry, number)) if queue.keeps_all else None
                if entry is None:
                    if self.unsettled.get(held.tag) is held:
                        del self.unsettled[held.tag]
                    self._drop(held)
                else:
                    if self.seen is None:
                        self.seen = Seen(queue.id)
                    self.seen.pass_over(entry.seq + 1)
                    # No current reader has had it.
                    entry.position = 0
                    held.entry = entry
            self._queues[queue] = None
            queue.hold_for(self)
        self._found = {}
        for held in self._replaced:
            self._drop(held)
            held.queue.release([held.entry])
        self._replaced = []


# The first octet of the note of sent entries. Other notes begin with a queue's id.
_SEEN: Final = b"s"


def _entry_at(note: Entry, seq: int) -> Entry:
    """Return an entry that has nothing but its sequence number."""
    return Entry(note.message, seq)


@final
class ReceivedDelivery:
    """A delivery that is arriving, or that arrived and is not settled by its sender.

    `size` is the number of bytes of its message so far. `outcome` is encoded by the gateway. `notes` are those of the
    parts, and later that of the outcome. While suspended, parts may be in `page`, on the disk.
    """

    def __init__(self) -> None:
        # Parts without notes, and parts that were in a page. Parts in notes are not kept twice.
        self.parts_without_notes: list[bytes] = []
        self.size: i64 = 0
        self.outcome: bytes | None = None
        # Whether a transaction has yet to confirm the outcome. A crash rolls it back, so that there is no note.
        self.is_provisional = False
        self.notes: list[Entry] = []
        self.page: Page | None = None
        # The places in the journal of the notes of parts that are, or were, in the page.
        self.paged_ranges: list[JournalRanges] = []

    @property
    def parts(self) -> list[bytes]:
        """The parts of its message, none once there is an outcome."""
        if self.outcome is not None:
            return []
        return [*self.parts_without_notes, *[_note_content(note.message.body) for note in self.notes]]

    @property
    def held(self) -> i64:
        """The memory it takes, in bytes, with the overhead of each part."""
        return max(self.size, PART_BYTES * (len(self.notes) + len(self.parts_without_notes)))


@final
class TargetTerminus(Terminus, PartialMessageHolder):
    """A target, by which the broker receives. `unsettled` are deliveries by tag, in the order they began."""

    def __init__(self, record: TerminusRecord, termini: "TerminusRegistry") -> None:
        super().__init__(record, termini)
        self.unsettled: dict[bytes, ReceivedDelivery] = {}

    @property
    def tags(self) -> list[bytes]:
        return list(self.unsettled)

    @property
    def partial_messages(self) -> list[ReceivedDelivery]:
        """Deliveries whose messages have not arrived completely."""
        return [received for received in self.unsettled.values() if received.outcome is None]

    @property
    def user_name(self) -> str:
        return self.record.user

    @property
    def partial_bytes(self) -> int:
        return sum([int(partial.held) for partial in self.partial_messages])

    @property
    def paged_out_bytes(self) -> int:
        """The bytes of partial messages that are out of memory."""
        return sum([int(partial.size) for partial in self.partial_messages if partial.page is not None])

    def discard_partial_messages(self) -> int:
        partial_messages = [tag for tag, received in self.unsettled.items() if received.outcome is None]
        self._notes.begin_group()
        for tag in partial_messages:
            self.forget(tag)
        self._notes.end_group()
        return len(partial_messages)

    def attach(self, link: object, session: object, connection: object) -> None:
        super().attach(link, session, connection)
        self._termini.partial_messages.resumed(self)
        self._page_in()

    def _page_out(self) -> None:
        """Move partial messages out of memory: no connection continues them."""
        for partial in self.partial_messages:
            if partial.page is None and partial.size >= _PAGED_OUT_MIN_BYTES:
                partial.page = self._termini.pages.put_out(b"".join(partial.parts))
                partial.parts_without_notes = []
                if partial.notes:
                    partial.paged_ranges.append(journal_ranges(partial.notes))
                    partial.notes = []

    def _page_in(self) -> None:
        """Bring partial messages back: a link continues.

        One that cannot be read is discarded: its sender does not find it in the unsettled map and sends it from the
        beginning.
        """
        for tag, received in list(self.unsettled.items()):
            page, received.page = received.page, None
            if page is None:
                continue
            try:
                received.parts_without_notes = [self._termini.pages.bring_back(page)]
            except StorageError:
                self._termini.partial_messages.discarded += 1
                self.forget(tag)

    def detach(self, detached: DetachedLink | None = None) -> None:
        super().detach(detached)
        self._suspend()

    def end_session(self) -> None:
        super().end_session()
        self._suspend()

    def close_connection(self) -> None:
        super().close_connection()
        self._suspend()

    def _suspend(self) -> None:
        if self.gone:
            return
        partial_messages = self._termini.partial_messages
        partial_messages.suspended(self)
        if not partial_messages.is_disk_low:
            self._page_out()

    def discard(self) -> None:
        super().discard()
        self._termini.partial_messages.resumed(self)

    def start_at(self, seq: i64) -> None:
        super().start_at(seq)
        self._suspend()

    def part(self, tag: bytes, data: bytes) -> ReceivedDelivery:
        """Add a part of a message. It may be confirmed to the sender once this batch is durable."""
        received = self._find(tag)
        received.size += len(data)
        if self.keeps_notes:
            received.notes.append(self._notes.write(_PART + _with_length(tag) + data))
        else:
            received.parts_without_notes.append(data)
        return received

    def begin(self) -> None:
        """Open a journal group: after a crash, everything until `end` is restored or nothing.

        It makes one of putting a message on its queues and calling `received`.
        """
        self._notes.begin_group()

    def end(self) -> None:
        self._notes.end_group()

    def received(self, tag: bytes, outcome: bytes) -> ReceivedDelivery:
        """Record the outcome of a message. The sender does not know it yet, and may send the message again."""
        received = self._find(tag)
        self._drop(received)
        received.parts_without_notes = []
        received.size = 0
        received.outcome = outcome
        received.is_provisional = False
        if self.keeps_notes:
            received.notes.append(self._notes.write(_OUTCOME + _with_length(tag) + outcome))
        return received

    def posted(self, tag: bytes, outcome: bytes) -> ReceivedDelivery:
        """Record a provisional outcome: a transaction's commit calls `received`, its rollback `forget`."""
        self.forget(tag)
        received = self._find(tag)
        received.outcome = outcome
        received.is_provisional = True
        return received

    def forget(self, tag: bytes) -> bool:
        """Forget a delivery that its sender has settled or aborted. Returns False if it is not known."""
        received = self.unsettled.pop(tag, None)
        if received is None:
            return False
        self._drop(received)
        return True

    def release_all(self) -> None:
        for received in self.unsettled.values():
            self._drop(received)
        self.unsettled = {}

    def _find(self, tag: bytes) -> ReceivedDelivery:
        received = self.unsettled.get(tag)
        if received is None:
            received = ReceivedDelivery()
            self.unsettled[tag] = received
        return received

    def _drop(self, received: ReceivedDelivery) -> None:
        for note in received.notes:
            self._notes.drop(note)
        received.notes = []
        for ranges in received.paged_ranges:
            self._notes.drop_runs(ranges)
        received.paged_ranges = []
        page, received.page = received.page, None
        if page is not None:
            self._termini.pages.drop(page)

    def _keep_or_drop_notes(self) -> None:
        self._page_in()
        for tag, received in self.unsettled.items():
            if not self.keeps_notes:
                received.parts_without_notes = received.parts
                self._drop(received)
            elif received.is_provisional:
                continue
            elif received.outcome is not None:
                received.notes.append(self._notes.write(_OUTCOME + _with_length(tag) + received.outcome))
            else:
                for part in received.parts_without_notes:
                    received.notes.append(self._notes.write(_PART + _with_length(tag) + part))
                received.parts_without_notes = []

    def restore(self, entry: Entry) -> None:
        body = entry.message.body
        content = _note_content(body)
        received = self._find(body[2 : len(body) - len(content)])
        received.notes.append(entry)
        if body[:1] == _OUTCOME:
            received.outcome = content
        else:
            received.size += len(content)


# The first octet of a target's notes. The length of the tag and the tag follow.
_PART: Final = b"p"
_OUTCOME: Final = b"o"


def _with_length(tag: bytes) -> bytes:
    # A tag has at most 32 bytes (amqp-1.0 part 2 §2.8.7).
    return bytes([len(tag)]) + tag


def _note_content(note: bytes) -> bytes:
    """Return the contents of a target's note, behind the tag."""
    return note[2 + note[1] :]
