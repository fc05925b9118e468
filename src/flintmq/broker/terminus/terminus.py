"""Ends of links that outlive them (amqp-1.0 §3.5): a source or a target, with what is not settled of its deliveries.

A terminus is in use by a link, or suspended; then it waits for a link of the same name, until it expires. What it holds
in that time nobody else gets. A durable one is a definition. One of UNSETTLED_STATE also keeps notes in the journal of
each delivery, in the same groups as what happens to the messages: after a crash both are there, or none.
"""

from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64, trait

from flintmq.base.errors import StorageError
from flintmq.broker.counters.partial_messages import PartialMessageHolder
from flintmq.broker.message import Entry
from flintmq.broker.notes import Notes
from flintmq.broker.ports import Page, PlacesOfPage, TerminusRecord, places_of
from flintmq.broker.queue.base import EntryHolder, Queue, Recoverable
from flintmq.broker.queue.entries import EntryQueue
from flintmq.broker.queue.seen import Seen
from flintmq.broker.queue.seen import decoded as decoded_seen
from flintmq.broker.queue.settlement import Outcome
from flintmq.broker.timers import Timed

if TYPE_CHECKING:
    from flintmq.broker.terminus.registry import Termini

SOURCE: Final = "source"
TARGET: Final = "target"

# What of a terminus survives a restart (amqp-1.0 §3.5.5).
NONE: Final = 0
CONFIGURATION: Final = 1
UNSETTLED_STATE: Final = 2

# What a part of a message takes at least, with its note (639 bytes were measured). A part is a frame, the smallest of
# which that a peer may insist on have 512 bytes: messages in those count for less than half as much again.
PART_BYTES: Final = 700

# Half a message from here on is put out of memory while nobody is connected: a page of less would take as much.
_PUT_OUT_BYTES: Final = 2_048

# When a terminus begins to expire (amqp-1.0 §3.5.6).
LINK_DETACH: Final = "link-detach"
SESSION_END: Final = "session-end"
CONNECTION_CLOSE: Final = "connection-close"
NEVER: Final = "never"


@trait
class DetachedLink:
    """A link that has let go of its terminus while its session goes on: its peer can still settle what went over it."""

    @abstractmethod
    def superseded(self) -> None:
        """Another link uses the terminus, or it is gone: what is said of deliveries by this link counts no more."""


class Terminus(Timed, Recoverable):
    """`link` is who uses it, over `session` and `connection`; these are the last ones while it is suspended."""

    def __init__(self, record: TerminusRecord, termini: "Termini") -> None:
        super().__init__()
        self.record = record
        self.link: object | None = None
        # Who used it last, as long as that one's deliveries can be settled (amqp-1.0 §2.7.6).
        self.detached: DetachedLink | None = None
        self.session: object | None = None
        self.connection: object | None = None
        # Expired, or closed: the name may stand for another one by now.
        self.gone = False
        self._termini = termini
        self._notes = Notes(record.id, termini.journal)
        # From a start of the broker until the clock is known.
        self._is_restored = False
        self._node: Queue | None = None

    def own(self, node: Queue) -> None:
        """The link is one of those of a queue with a lifetime, for as long as this is here."""
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

    # -- its life -----------------------------------------------------------------------------------------------

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
        """A queue was made for it, which a restart finds, too, if both are durable."""
        self.own(node)
        if self.record.node_id == node.id:
            return
        self.record = replace(self.record, node_id=node.id)
        if self.record.durability > NONE:
            self._termini.definitions.put_terminus(self.record)

    def configure(self, durability: int, expiry: str, timeout_ms: i64, configuration: bytes) -> None:
        """A link that attaches says something else of it than the one before."""
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
        """The link has let go of it, and may come back. Until then `detached` tells what is said of its deliveries."""
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
        """Nobody will come back to it: what it holds goes back, and nothing is known of it any more."""
        if self.gone:
            return
        self._notes.begin_group()
        self.let_go()
        self._notes.end_group()
        self.discard()
        if self.record.durability > NONE:
            self._termini.definitions.delete_terminus(self.record)

    def discard(self) -> None:
        """Its virtual host is deleted, with its definition."""
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
            # Whatever it was to expire with is over since before the restart, nobody knows for how long.
            self._is_restored = False
            self._expire_later()
        elif self.link is None:
            self.expire()

    @property
    @abstractmethod
    def tags(self) -> list[bytes]:
        """Those of the deliveries that are not settled."""

    @abstractmethod
    def let_go(self) -> None:
        """Give up all that is unsettled, within the group of the journal that is open."""

    @abstractmethod
    def _keep_or_drop_notes(self) -> None:
        """Notes of what is unsettled are to be kept from now on, or no more."""

    # -- start-up -----------------------------------------------------------------------------------------------

    def start_at(self, seq: i64) -> None:
        self._notes.start_at(seq)
        if self.record.expiry != NEVER:
            self._is_restored = True
            # As soon as there is a clock.
            self._termini.timers.at(1, self)


@final
class Held:
    """A delivery that a link has sent and nobody has settled."""

    def __init__(self, tag: bytes, queue: Queue, entry: Entry) -> None:
        self.tag = tag
        self.queue = queue
        self.entry = entry
        self.note: Entry | None = None


@final
class SourceTerminus(Terminus, EntryHolder):
    """What the broker sends from. `unsettled` are its deliveries by their tags, in the order they were sent.

    Entries in here are acquired, from one queue or several.
    """

    def __init__(self, record: TerminusRecord, termini: "Termini") -> None:
        super().__init__(record, termini)
        self.unsettled: dict[bytes, Held] = {}
        # The number that the last of its deliveries had, and its tag was made of. A restart does not know it.
        self.last_number: i64 = 0
        # What its links were sent, where they take nothing from their queue. The note of it says what a restart must
        # not send again: of a stream all, since what is not settled has notes of its own, and else what is settled.
        self.seen: Seen | None = None
        self._settled: Seen | None = None
        self._seen_note: Entry | None = None
        self._noted_end = 0
        # Those of which a transaction decides: it settles them, whatever becomes of the terminus meanwhile.
        self._staged: dict[Held, None] = {}
        # Those it holds something of, or has.
        self._queues: dict[Queue, None] = {}
        # Notes that were found by now, and tell what is held: by queue, with tags by number.
        self._found: dict[Queue, dict[int, Held]] = {}
        self._strays: list[Held] = []

    def hold(self, tag: bytes, queue: Queue, entry: Entry) -> Held:
        """An acquired entry is on its way by this tag. It may be sent once the note is durable."""
        held = Held(tag, queue, entry)
        self.unsettled[tag] = held
        if queue not in self._queues:
            self._queues[queue] = None
            queue.hold_for(self)
        if self.keeps_notes:
            self._write(held)
        return held

    def settle(self, tag: bytes, outcome: Outcome) -> Held | None:
        """A delivery has its outcome, and is forgotten. None where it is not held (any more)."""
        held = self.unsettled.pop(tag, None)
        if held is not None:
            self._apply(held, outcome)
        return held

    def _apply(self, held: Held, outcome: Outcome) -> None:
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

    def _note_seen(self, seen: Seen, held: Held) -> None:
        """A delivery is settled that took nothing from its queue: no restart may send it again."""
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

    def stage(self, tag: bytes) -> Held | None:
        """From now on only `settle_staged` settles a delivery, or `unstage` has it back; a crash has, too.

        None where it is not held.
        """
        held = self.unsettled.pop(tag, None)
        if held is not None:
            self._staged[held] = None
        return held

    def unstage(self, held: Held) -> None:
        del self._staged[held]
        self.unsettled[held.tag] = held

    def settle_staged(self, held: Held, outcome: Outcome) -> None:
        del self._staged[held]
        self._apply(held, outcome)

    @property
    def tags(self) -> list[bytes]:
        """Those of its deliveries, which no other may have."""
        return [*self.unsettled, *[held.tag for held in self._staged]]

    def take(self, tag: bytes) -> Held | None:
        """Forget a delivery without settling its entry."""
        held = self.unsettled.pop(tag, None)
        if held is not None:
            self._drop(held)
        return held

    def let_go(self) -> None:
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
            queue.put_back(entries)

    def discard(self) -> None:
        super().discard()
        for queue in self._queues:
            queue.hold_no_more_for(self)
            queue.release(self)
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

    def _write(self, held: Held) -> None:
        # What a restart takes from its queue it takes from here.
        if held.entry.segment != 0 or held.queue.keeps_all:
            held.note = self._notes.write(b"%d %d " % (held.queue.id, int(held.entry.seq)) + held.tag)

    def _drop(self, held: Held) -> None:
        note = held.note
        if note is not None:
            held.note = None
            self._notes.drop(note)

    # -- start-up -----------------------------------------------------------------------------------------------

    def restore(self, entry: Entry) -> None:
        """A note, before the entries of any queue."""
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
            # Damage took the record that it was settled: since then the message was delivered again.
            self._drop(older)
            if self.unsettled.get(older.tag) is older:
                del self.unsettled[older.tag]
        held = Held(tag, queue, entry)
        held.note = entry
        found[number] = held
        self.unsettled[tag] = held
        if older is None and isinstance(queue, EntryQueue):
            queue.claim(number, 1, self)

    def _restore_seen(self, entry: Entry) -> None:
        """The latest counts; an older one is there where damage took the record that it was dropped."""
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
            # Damage again: the tag has been another delivery's since.
            self._strays.append(held)

    def start_at(self, seq: i64) -> None:
        super().start_at(seq)
        for queue, missing in self._found.items():
            for number, held in missing.items():
                entry = queue.recall(_stub(held.entry, number)) if queue.keeps_all else None
                if entry is None:
                    if self.unsettled.get(held.tag) is held:
                        del self.unsettled[held.tag]
                    self._drop(held)
                else:
                    if self.seen is None:
                        self.seen = Seen(queue.id)
                    self.seen.pass_over(entry.seq + 1)
                    # No reader of now had it.
                    entry.position = 0
                    held.entry = entry
            self._queues[queue] = None
            queue.hold_for(self)
        self._found = {}
        for held in self._strays:
            self._drop(held)
            held.queue.put_back([held.entry])
        self._strays = []


# How the note of what links were sent begins; others begin with the number of a queue.
_SEEN: Final = b"s"


def _stub(note: Entry, seq: int) -> Entry:
    """An entry that knows its place alone."""
    return Entry(note.message, seq)


@final
class Received:
    """A delivery that is coming in, or has come and its sender has not settled it.

    `size` is how many bytes came of its message. `outcome` is as the gateway encodes it. `notes` are those of the
    parts, and of the outcome as soon as there is one. While nobody is connected, parts may be in `page`, on the disk.
    """

    def __init__(self) -> None:
        # Parts of a terminus that keeps no notes, and those that were in a page. Others are in their notes, and need
        # not be in memory twice.
        self.unnoted: list[bytes] = []
        self.size: i64 = 0
        self.outcome: bytes | None = None
        # Whether a transaction has still to say that this is the outcome: a crash rolls it back, so there is no note.
        self.is_provisional = False
        self.notes: list[Entry] = []
        self.page: Page | None = None
        # The notes of parts that are in the page, or were: of these only the journal's places are at hand.
        self.noted: list[PlacesOfPage] = []

    @property
    def parts(self) -> list[bytes]:
        """What came of its message while there is no outcome."""
        if self.outcome is not None:
            return []
        return [*self.unnoted, *[_content(note.message.body) for note in self.notes]]

    @property
    def held(self) -> i64:
        """What is kept of it, in bytes, with what each part takes beside its payload."""
        return max(self.size, PART_BYTES * (len(self.notes) + len(self.unnoted)))


@final
class TargetTerminus(Terminus, PartialMessageHolder):
    """What the broker receives by. `unsettled` are deliveries by their tags, in the order they began."""

    def __init__(self, record: TerminusRecord, termini: "Termini") -> None:
        super().__init__(record, termini)
        self.unsettled: dict[bytes, Received] = {}

    @property
    def tags(self) -> list[bytes]:
        return list(self.unsettled)

    @property
    def partial_messages(self) -> list[Received]:
        """Messages of which a part came, and the rest has not."""
        return [received for received in self.unsettled.values() if received.outcome is None]

    @property
    def user_name(self) -> str:
        return self.record.user

    @property
    def half_bytes(self) -> int:
        return sum([int(half.held) for half in self.partial_messages])

    @property
    def paged_out_bytes(self) -> int:
        """What of that is out of memory."""
        return sum([int(half.size) for half in self.partial_messages if half.page is not None])

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
        self._bring_back()

    def _put_out(self) -> None:
        """Nobody is connected to go on with what is half here."""
        for half in self.partial_messages:
            if half.page is None and half.size >= _PUT_OUT_BYTES:
                half.page = self._termini.pages.put_out(b"".join(half.parts))
                half.unnoted = []
                if half.notes:
                    half.noted.append(places_of(half.notes))
                    half.notes = []

    def _bring_back(self) -> None:
        """Somebody goes on. What cannot be read is given up: its sender does not find it, and begins anew."""
        for tag, received in list(self.unsettled.items()):
            page, received.page = received.page, None
            if page is None:
                continue
            try:
                received.unnoted = [self._termini.pages.bring_back(page)]
            except StorageError:
                self._termini.partial_messages.given_up += 1
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
            self._put_out()

    def discard(self) -> None:
        super().discard()
        self._termini.partial_messages.resumed(self)

    def start_at(self, seq: i64) -> None:
        super().start_at(seq)
        self._suspend()

    def part(self, tag: bytes, data: bytes) -> Received:
        """A piece of a message has come. It may be confirmed to its sender once this batch is durable."""
        received = self._find(tag)
        received.size += len(data)
        if self.keeps_notes:
            received.notes.append(self._notes.write(_PART + _named(tag) + data))
        else:
            received.unnoted.append(data)
        return received

    def begin(self) -> None:
        """What happens until `end` is found whole after a crash, or not at all: a message is put on its queues, and
        `received` says so.
        """
        self._notes.begin_group()

    def end(self) -> None:
        self._notes.end_group()

    def received(self, tag: bytes, outcome: bytes) -> Received:
        """A message has been dealt with, and its sender has not heard of that yet: it must not be taken again."""
        received = self._find(tag)
        self._drop(received)
        received.unnoted = []
        received.size = 0
        received.outcome = outcome
        received.is_provisional = False
        if self.keeps_notes:
            received.notes.append(self._notes.write(_OUTCOME + _named(tag) + outcome))
        return received

    def posted(self, tag: bytes, outcome: bytes) -> Received:
        """A message belongs to a transaction. Its commit calls `received`, its rollback `forget`."""
        self.forget(tag)
        received = self._find(tag)
        received.outcome = outcome
        received.is_provisional = True
        return received

    def forget(self, tag: bytes) -> bool:
        """The sender has settled the delivery, or aborted it. False where it is not known."""
        received = self.unsettled.pop(tag, None)
        if received is None:
            return False
        self._drop(received)
        return True

    def let_go(self) -> None:
        for received in self.unsettled.values():
            self._drop(received)
        self.unsettled = {}

    def _find(self, tag: bytes) -> Received:
        received = self.unsettled.get(tag)
        if received is None:
            received = Received()
            self.unsettled[tag] = received
        return received

    def _drop(self, received: Received) -> None:
        for note in received.notes:
            self._notes.drop(note)
        received.notes = []
        for places in received.noted:
            self._notes.drop_runs(places)
        received.noted = []
        page, received.page = received.page, None
        if page is not None:
            self._termini.pages.drop(page)

    def _keep_or_drop_notes(self) -> None:
        self._bring_back()
        for tag, received in self.unsettled.items():
            if not self.keeps_notes:
                received.unnoted = received.parts
                self._drop(received)
            elif received.is_provisional:
                continue
            elif received.outcome is not None:
                received.notes.append(self._notes.write(_OUTCOME + _named(tag) + received.outcome))
            else:
                for part in received.unnoted:
                    received.notes.append(self._notes.write(_PART + _named(tag) + part))
                received.unnoted = []

    def restore(self, entry: Entry) -> None:
        body = entry.message.body
        content = _content(body)
        received = self._find(body[2 : len(body) - len(content)])
        received.notes.append(entry)
        if body[:1] == _OUTCOME:
            received.outcome = content
        else:
            received.size += len(content)


# How the notes of a target begin; the length of the tag and the tag follow.
_PART: Final = b"p"
_OUTCOME: Final = b"o"


def _named(tag: bytes) -> bytes:
    # A tag has 32 bytes at most (amqp-1.0 §2.8.7).
    return bytes([len(tag)]) + tag


def _content(note: bytes) -> bytes:
    """What a target's note says of its delivery."""
    return note[2 + note[1] :]
