"""What a classic queue keeps: its entries come in, wait their turn or their time, go out, come back, or are given up.

What few queues use (expiry, limits, delays...) is one module each, and made when the first message or setting asks for
it: a queue without costs a message one branch on the way in, and one on the way out.
"""

from abc import abstractmethod
from collections.abc import Iterator
from heapq import nsmallest
from typing import Final

from mypy_extensions import i32, i64

from flintmq.base.errors import AccessRefused, InternalError, PreconditionFailed, StorageError
from flintmq.base.limits import ASKED_CONSUMERS_PER_UNIT
from flintmq.base.work import WORK
from flintmq.broker.message import ACQUIRED, FOREVER, PAUSE, READY, Entry, Message, Table
from flintmq.broker.ports import Journal, Page, Pages, PlacesOfPage
from flintmq.broker.queue.acquired import Acquired
from flintmq.broker.queue.base import (
    ADMITTED,
    DISCARDED,
    DONE,
    REFUSED,
    EntryHolder,
    Queue,
    Recoverable,
    SequenceReservation,
)
from flintmq.broker.queue.browse import View
from flintmq.broker.queue.dedup import Dedup
from flintmq.broker.queue.delays import Delays
from flintmq.broker.queue.exclusions import Exclusions
from flintmq.broker.queue.expiry import Expiry
from flintmq.broker.queue.groups import Groups
from flintmq.broker.queue.last_values import LastValues
from flintmq.broker.queue.levels import levels_of
from flintmq.broker.queue.paging import Paging
from flintmq.broker.queue.peek import Look
from flintmq.broker.queue.ready import BLOCK_ENTRIES, Fifo, Ready, ranked
from flintmq.broker.queue.retry import pause_ms
from flintmq.broker.queue.runs import Runs
from flintmq.broker.queue.settings import DROP_HEAD, REJECT_PUBLISH_DLX
from flintmq.broker.queue.undelivered import Undelivered
from flintmq.broker.queue.withheld import Withheld
from flintmq.broker.tick import DELETED, DELIVERY_LIMIT, EXPIRED, MAXLEN, OVERSIZED, REJECTED, DeadLetter, Tick

# The seq of an entry that never was on the queue.
_NOWHERE: Final = -1
# What it takes to drop a page of messages: each of them is settled in the journal.
_PAGE_UNITS: Final = 64


class EntryQueue(Queue, Recoverable):
    """All of a queue but its consumers."""

    def __init__(
        self,
        queue_id: int,
        vhost: str,
        name: str,
        kind: str,
        durable: bool,
        auto_delete: bool,
        owner: object | None,
        arguments: Table,
        tick: Tick,
        journal: Journal,
        ranks_all: bool,
    ) -> None:
        super().__init__(queue_id, vhost, name, kind, durable, auto_delete, owner, arguments, tick)
        self._journal = journal
        # An exclusive queue ends with its connection, durable or not.
        self._survives = durable and owner is None
        self._paging = None if tick.pages is None else Paging(tick.pages, self._left_page)
        self._levels = levels_of(kind, arguments, ranks_all)
        self._store: Ready = Fifo(self._paging)
        self._seq: i64 = 0
        self._expiry: Expiry | None = None
        self._delays: Delays | None = None
        self._withheld: Withheld | None = None
        # Made while there is an entry that not every consumer may have.
        self._exclusions: Exclusions | None = None
        self._groups: Groups | None = None
        self._values: LastValues | None = None
        # What was here, where nothing may be here twice.
        self.dedup: Dedup | None = None
        # What browsers consume from, while there are any.
        self._view: View | None = None
        # Whether groups, last values, what is barred or its lifetime have to hear of every settlement.
        self._is_keyed = False
        # At start-up, who is to have the entries of which numbers.
        self._claims: Runs[EntryHolder] = Runs()
        # The same for numbers whose entries had not come to the queue yet.
        self._reserved: Runs[SequenceReservation] = Runs()
        # Whether the single active consumer gets nothing more, and is relieved once it has settled what it has.
        self._is_handing_over = False
        # Whether dead letters wait for room here.
        self._is_awaited = False
        # Bytes of the bodies that are ready.
        self._bytes: i64 = 0
        # Of a queue that survives: messages that do not, wherever in it they are.
        self._unkept: i64 = 0
        self._unkept_bytes: i64 = 0
        # Numbers that were given to no message that came, or to one that came before the start.
        self._unpublished: i64 = 0
        # Nothing is asked of a message that comes, if the message asks for nothing either; nothing of one that goes.
        self._is_plain_in = True
        self._is_plain_out = True

    def configure(self, effective: Table) -> None:
        was_paused = self.settings.paused
        super().configure(effective)
        settings = self.settings
        if was_paused and not settings.paused:
            self.touch()
        self.is_guarded = settings.max_length >= 0 or settings.max_bytes >= 0 or settings.deduplicates
        self._deduplicate()
        self.adds_headers = settings.delivery_limit >= 0 or settings.pauses_failed or settings.pauses_returned
        if settings.group_field is not None and self._groups is None:
            self._groups = Groups(settings.group_field)
        if settings.last_value_field is not None and self._values is None:
            self._values = LastValues(settings.last_value_field)
            self._keep_in_memory()
        self._set_plain()
        self._make_way(0, 0)
        self._trim()
        if self._is_awaited:
            self._tell_room()

    def live_by(self, policy: str) -> None:
        super().live_by(policy)
        self._set_plain()

    def _deduplicate(self) -> None:
        if self.dedup is not None and not self.settings.deduplicates:
            self.dedup.clear()
            self.dedup = None
        elif self.settings.deduplicates:
            dedup = self.dedup
            if dedup is None:
                dedup = Dedup(self.id, self.name, self._survives, self.tick, self._journal)
                for entry in self._each():
                    dedup.remember(entry.message, self.tick.now_ms)
            dedup.configure(self.settings)
            self.dedup = dedup

    def note_undelivered(self) -> None:
        """The broker stops, and nobody consumes any more: have the journal know what nobody has had."""
        if self._survives:
            runs = Undelivered(self._store).runs
            if runs:
                self._journal.undelivered(self.id, runs)

    def _each(self) -> Iterator[Entry]:
        """What is ready, in no order, and for a look only."""
        yield from self._store.loose()
        for part in self._store.parts():
            for block in part.blocks():
                yield from block

    def _keep_in_memory(self) -> list[Entry]:
        """From now on somebody knows what is ready by its objects; returns these in order."""
        if self._paging is not None:
            self._paging.is_on = False
        try:
            return self._store.entries()
        except InternalError:
            if self._paging is not None:
                self._paging.is_on = True
            raise

    def page_out(self) -> None:
        self._store.page_out()

    def _trim(self) -> None:
        """There may be too much, by nobody's publishing: the oldest go, unless it is publishers who are to stop."""
        if self.settings.overflow != DROP_HEAD:
            return
        while self._is_over(0, 0):
            first = self._store.drop_candidate()
            if first is None:
                return
            self._remove(first)
            self._give_up(first, MAXLEN)

    def _set_plain(self) -> None:
        has_values = self._values is not None
        counts = self.lifetime is not None and self.lifetime.counts
        is_plain = not has_values and self._view is None
        self._is_plain_in = is_plain and self.settings.ttl_ms == FOREVER and self.dedup is None and not counts
        self._is_plain_out = is_plain and self._expiry is None and not self._is_awaited
        self._is_keyed = has_values or self._groups is not None or self._exclusions is not None or counts

    # -- in -----------------------------------------------------------------------------------------------------

    def admit(self, message: Message) -> int:
        if message.options.is_command:
            return self._obey(message)
        if self.dedup is not None and self.dedup.is_duplicate(message):
            return DONE
        settings = self.settings
        if not self._is_too_much(message):
            return ADMITTED
        # What consumers would have taken by now, had the tick been shorter, does not count.
        if self.takes_at_once(message) or not self._is_too_much(message):
            return ADMITTED
        if settings.overflow != DROP_HEAD:
            if settings.overflow == REJECT_PUBLISH_DLX:
                self._discard(message)
            return REFUSED
        if self._starts_ms(message, self.tick.now_ms) > self.tick.now_ms:
            # It needs no room before its time has come.
            return ADMITTED
        while self._is_too_much(message):
            first = self._store.drop_candidate()
            if first is None or self._level(first.message) > self._level(message):
                # There will never be room for this one, or none that more important ones would not have to make.
                if settings.dead_letters_at_least_once:
                    # Its letter might have to wait, and nothing would keep it over a crash.
                    return REFUSED
                self._discard(message)
                return DISCARDED
            self._remove(first)
            self._give_up(first, MAXLEN)
        return ADMITTED

    def _discard(self, message: Message) -> None:
        """Dead-letter a message that was not taken."""
        if self.settings.dead_letter_exchange is not None:
            self.tick.discarded.append(DeadLetter(self, Entry(message, _NOWHERE), MAXLEN))

    def has_room(self, messages: list[Message]) -> bool:
        if self.settings.overflow == DROP_HEAD or self._have_room(messages):
            return True
        self._catch_up()
        return self._have_room(messages)

    def has_free_room(self, message: Message) -> bool:
        if not self.is_guarded or self._have_room([message]):
            return True
        self._catch_up()
        return self._have_room([message])

    def _have_room(self, messages: list[Message]) -> bool:
        """Whether there is room for all of these beside those that are ready."""
        count: i64 = 0
        size: i64 = 0
        for message in messages:
            replaced = None if self._values is None else self._values.waiting(message)
            if replaced is None:
                count += 1
                size += len(message.body)
            else:
                size += max(0, len(message.body) - len(replaced.message.body))
        return not self._is_over(count, size)

    def has_room_for(self, count: i64, size: i64) -> bool:
        if self.settings.overflow == DROP_HEAD or not self._is_over(count, size):
            return True
        self._catch_up()
        return not self._is_over(count, size)

    def await_room(self) -> None:
        self._is_awaited = True
        self._set_plain()

    def _tell_room(self) -> None:
        self._is_awaited = False
        self._set_plain()
        self.tick.roomy.append(self)

    def _is_over(self, count: i64, size: i64) -> bool:
        """Whether so many messages, with so many bytes together, are too many beside those that are ready."""
        settings = self.settings
        if settings.max_length >= 0 and self._store.count + count > settings.max_length:
            return True
        return settings.max_bytes >= 0 and self._bytes + size > settings.max_bytes

    def _is_too_much(self, message: Message) -> bool:
        """Whether there is no room for a message that is published."""
        replaced = None if self._values is None else self._values.waiting(message)
        if replaced is None:
            return self._is_over(1, len(message.body))
        return self._is_over(0, len(message.body) - len(replaced.message.body))

    def _level(self, message: Message) -> i64:
        """Its priority, as far as this queue tells priorities apart."""
        return self._levels.of(message.options)

    def enqueue(self, message: Message) -> Entry | None:
        entry = Entry(message, self._seq)
        self._seq += 1
        options = message.options
        if self._is_plain_in and options.is_plain and options.priority <= self._levels.plain:
            self._store.append(entry)
            self._bytes += len(message.body)
        else:
            if self.dedup is not None:
                self.dedup.remember(message, self.tick.now_ms)
            if self.lifetime is not None:
                self.lifetime.came()
            self._settle_replaced()
            self._place(entry, self.tick.now_ms)
        if not self._is_ready and self.consumers:
            self.touch()
        if self._survives:
            if options.persistent:
                return entry
            self._unkept += 1
            self._unkept_bytes += len(message.body)
        return None

    def _place(self, entry: Entry, since_ms: i64) -> None:
        """Put an entry where it belongs; `since_ms` is when its time to live and its delay began."""
        starts_ms = self._starts_ms(entry.message, since_ms)
        if starts_ms > self.tick.now_ms:
            self._hold(entry, starts_ms)
        else:
            self._make_ready(entry, max(since_ms, starts_ms))

    def _starts_ms(self, message: Message, since_ms: i64) -> i64:
        """Until when a message that came at a time is held back; in the past where it is not."""
        options = message.options
        return since_ms + options.delay_ms if options.delay_ms > 0 else options.until_ms

    def _hold(self, entry: Entry, until_ms: i64) -> None:
        if self._delays is None:
            self._delays = Delays(self.tick.timers, self._delay_ended)
        self._delays.hold(entry, until_ms)

    def _obey(self, command: Message) -> int:
        if command.options.cancels:
            return self._cancel(command)
        self.pause(command.options.command == PAUSE)
        return DONE

    def pause(self, paused: bool) -> None:
        """Give out nothing, or go on."""
        self.arguments = {**self.arguments, "x-paused": paused}
        # At once, so that whoever asks next finds it so; policies may see it otherwise when the tick ends.
        self.settings.paused = paused
        self.touch()
        self.tick.rearranged[self] = None

    def _cancel(self, command: Message) -> int:
        found = [] if self._delays is None else self._delays.cancel(command)
        for entry in found:
            if self.dedup is not None:
                self.dedup.forget(entry.message)
            self.drop(entry)
        return DONE if found else REFUSED

    def _delay_ended(self, entry: Entry) -> None:
        if self._expiry is not None:
            # What is over by then goes before, so that it needs no other to go.
            self._expiry.on_due(self.tick.now_ms - 1)
        if entry.expires_ms != 0 and entry.expires_ms <= self.tick.now_ms:
            # It came back, and its time to live has ended its pause.
            if not self._is_outdated(entry):
                if self._expiry is not None:
                    self._expiry.on_due(entry.expires_ms)
                self._give_up(entry, EXPIRED)
        elif entry.returns > 0 or entry.state == ACQUIRED:
            # It came back, now or before a restart.
            self._give_back([entry])
        else:
            self._make_way(1, len(entry.message.body))
            # It stands behind all that came before its time, however much later than itself.
            entry.position = self._seq
            self._seq += 1
            self._unpublished += 1
            self._make_ready(entry, self.tick.now_ms)
            self._settle_replaced()
            self._trim()
        self.touch()

    def _make_ready(self, entry: Entry, since_ms: i64) -> None:
        if self._values is not None and not self._replace(self._values, entry):
            return
        self._rank(entry)
        ttl_ms = self._ttl_of(entry.message)
        if ttl_ms != FOREVER:
            entry.expires_ms = since_ms + ttl_ms
            self._expire_later(entry)
        self._store.append(entry)
        self._bytes += len(entry.message.body)
        if self._view is not None:
            self._view.came(entry)

    def _replace(self, values: LastValues, entry: Entry) -> bool:
        """Let go of the ready entry with the same key; False where this one is the older."""
        if self._is_outdated(entry):
            return False
        older = values.put(entry)
        if older is not None:
            self._remove(older)
            values.gone(older)
            values.replaced.append(older)
        return True

    def _settle_replaced(self) -> None:
        """What replaced them is in the journal by now."""
        if self._values is not None and self._values.replaced:
            replaced = self._values.replaced
            self._values.replaced = []
            for entry in replaced:
                self._write_off(entry)
                if self.lifetime is not None:
                    self.lifetime.left()

    def _rank(self, entry: Entry) -> None:
        self._store = ranked(self._store, entry, self._levels)

    def _ttl_of(self, message: Message) -> i64:
        """How long a message lives here once it is ready."""
        ttl_ms = self.settings.ttl_ms
        own_ms = message.options.ttl_ms
        if own_ms != FOREVER and (ttl_ms == FOREVER or own_ms < ttl_ms):
            ttl_ms = own_ms
        return ttl_ms

    def _expire_later(self, entry: Entry) -> None:
        if self._expiry is None:
            self._expiry = Expiry(self.tick.expiries, self._expired, self._paging)
            if self._paging is not None:
                self._paging.expiry = self._expiry
            self._set_plain()
        self._expiry.add(entry)

    def _expired(self, entry: Entry) -> None:
        if entry.state == READY:
            self._remove(entry)
        else:
            # It was in a page, and is in the store no more.
            self._bytes -= len(entry.message.body)
            self._left(entry)
        self._give_up(entry, EXPIRED)

    def _left_page(self, part: Fifo, count: int) -> None:
        self._store.left_packed(part, count)

    def restore(self, entry: Entry) -> None:
        # Who has it comes first: what a commit has brought here by now may be in somebody's hands.
        claim = self._claims.find(entry.seq) if self._claims else None
        if claim is None and self._reserved:
            run = self._reserved.find(entry.seq)
            if run is not None:
                run.value.found(entry)
                return
        settings = self.settings
        if self.dedup is not None:
            self.dedup.recall(entry.message, entry.message.timestamp_ms)
        if self.lifetime is not None:
            self.lifetime.came()
        if claim is not None:
            self._restore_outside(entry)
            entry.state = ACQUIRED
            self._handed_out(entry)
            claim.value.claimed(self, entry)
            return
        if entry.returns > 0 and self._groups is None and (settings.pauses_failed or settings.pauses_returned):
            # When it came back nobody has written down: its pause begins anew.
            self._restore_outside(entry)
            self._pause(entry)
            return
        self._place(entry, entry.message.timestamp_ms)

    def _restore_outside(self, entry: Entry) -> None:
        """It was ready before, and is to come back."""
        ttl_ms = self._ttl_of(entry.message)
        if ttl_ms != FOREVER:
            entry.expires_ms = entry.message.timestamp_ms + ttl_ms
        if self._values is not None:
            self._replace(self._values, entry)
            self._values.left(entry)
        self._rank(entry)

    def claim(self, first: i64, count: i64, holder: EntryHolder) -> None:
        """Before `restore`: the entries of so many numbers are in somebody's hands."""
        self._claims.add(first, count, holder)

    def start_at(self, seq: i64) -> None:
        # A number that somebody's notes speak of is given to nothing else, whether its message was kept or not.
        self._seq = max(seq, self._reserved.end, self._claims.end)
        self._claims = Runs()
        self._reserved = Runs()
        self._unpublished = self._seq
        self._settle_replaced()
        # What consumers had before the restart is ready again.
        self._trim()
        if self.lifetime is not None:
            self.lifetime.restart()

    # -- messages that have a number before they come -----------------------------------------------------------

    def reserve(self, count: i64) -> i64:
        """So many numbers in a row, for entries that come later, or never; returns the first."""
        first = self._seq
        self._seq += count
        self._unpublished += count
        return first

    def reserved(self, first: i64, count: i64, reservation: SequenceReservation) -> None:
        """Before `restore`: these numbers were reserved, and none of them is given to anybody else."""
        self._reserved.add(first, count, reservation)

    def put_reserved(self, entries: list[Entry]) -> None:
        """Entries with such numbers, which the journal has, come to the queue behind all that is there."""
        now_ms = self.tick.now_ms
        for entry in entries:
            message = entry.message
            entry.position = self._seq
            self._seq += 1
            options = message.options
            if self._survives and not options.persistent:
                self._unkept += 1
                self._unkept_bytes += len(message.body)
            if self._is_plain_in and options.is_plain and options.priority <= self._levels.plain:
                self._store.append(entry)
                self._bytes += len(message.body)
                continue
            if self.dedup is not None:
                if self.dedup.is_duplicate(message):
                    self._unkept_left(entry)
                    if entry.segment != 0:
                        self._journal.settle(self.id, entry)
                    continue
                self.dedup.remember(message, now_ms)
            if self.lifetime is not None:
                self.lifetime.came()
            self._settle_replaced()
            self._place(entry, now_ms)
        self._settle_replaced()
        self._trim()
        self.touch()

    # -- out ----------------------------------------------------------------------------------------------------

    @property
    def message_count(self) -> int:
        if self._withheld is not None:
            return self._store.count + len(self._withheld.entries)
        return self._store.count

    @property
    def published(self) -> int:
        return int(self._seq - self._unpublished)

    @property
    def ready_bytes(self) -> int:
        return int(self._bytes)

    def head(self) -> Message | None:
        first = self._store.head() if self._store.count > 0 else None
        return None if first is None else first.message

    @property
    def kept_count(self) -> int:
        held = self.message_count + self.held_count + int(self.unacked)
        return max(held - int(self._unkept), 0) if self._survives else 0

    @property
    def kept_bytes(self) -> int:
        return max(int(self._bytes + self.unacked_bytes - self._unkept_bytes), 0) if self._survives else 0

    @property
    def held_count(self) -> int:
        return 0 if self._delays is None else len(self._delays)

    def get(self, context: object | None = None) -> Entry | None:
        self.used()
        self._serve_consumers()
        entry = self._next_for_get(context)
        if entry is None:
            self.got_empty += 1
        else:
            self.got += 1
            self.redelivered += entry.redelivered
            self._handed_out(entry)
        return entry

    def _serve_consumers(self) -> None:
        """Somebody asks for messages now: what consumers can take that were there before goes to them first."""
        if self._is_ready:
            WORK.spent += len(self.consumers) // ASKED_CONSUMERS_PER_UNIT
            if not self._catch_up():
                self.dispatched()

    def _next_for_get(self, context: object | None) -> Entry | None:
        if self.settings.paused:
            return None
        if self._expiry is not None:
            self._expiry.on_due(self.tick.now_ms)
        if self._withheld is not None:
            self._expire_withheld(self._withheld)
            withheld = self._withheld.take(context)
            if withheld is not None:
                return withheld
        return None if self._first() is None else self._take()

    def _expire_withheld(self, withheld: Withheld) -> None:
        """What waits for other consumers lives no longer for that."""
        for entry in withheld.expired(self.tick.now_ms):
            self._give_up(entry, EXPIRED)

    def sent(self, entry: Entry) -> None:
        self.got -= 1
        self._handed_back(entry)
        super().sent(entry)

    def _handed_out(self, entry: Entry) -> None:
        """An entry is in a client's hands."""
        self.unacked += 1
        self.unacked_bytes += len(entry.message.body)

    def _handed_back(self, entry: Entry) -> None:
        if self._is_handing_over:
            self.touch()
        self.unacked -= 1
        self.unacked_bytes -= len(entry.message.body)

    @property
    def survives(self) -> bool:
        """Whether the journal keeps what is persistent here."""
        return self._survives

    def check_leasable(self) -> None:
        """Raises PreconditionFailed for a queue that gives no batches, AccessRefused where it is somebody else's."""
        where = f"queue '{self.name}' in vhost '{self.vhost}'"
        if not self._survives:
            raise PreconditionFailed(
                f"{where} does not survive a restart, and a batch of it could not be read again: lease from a durable "
                "queue"
            )
        if self._groups is not None:
            raise PreconditionFailed(
                f"{where} gives out one message of a group at a time (x-group-header): it cannot be leased"
            )
        if self.settings.single_active:
            raise PreconditionFailed(
                f"{where} is for one active consumer (x-single-active-consumer): it cannot be leased"
            )
        if self.consumers and self.consumers[0].exclusive:
            raise AccessRefused(f"{where} in exclusive use")

    def acquire(self, pages: Pages, max_messages: i64, max_bytes: i64) -> Acquired:
        """Take from the head what is ready, packed: so many messages and bytes of bodies at most, but one at least.

        Raises InternalError where nothing could be read.
        """
        self.used()
        acquired = Acquired(pages)
        if self.settings.paused:
            return acquired
        self._serve_consumers()
        if self._expiry is not None:
            self._expiry.on_due(self.tick.now_ms)
        try:
            while acquired.count < max_messages and acquired.body_bytes < max_bytes:
                room = max_bytes - acquired.body_bytes
                page = (
                    None if self._withheld is not None else self._store.take_page(max_messages - acquired.count, room)
                )
                if page is not None:
                    self._left_packed(page)
                    acquired.add_page(page)
                    continue
                entry = self._take_within(room, acquired.count == 0)
                if entry is None:
                    break
                acquired.add(entry)
        except InternalError:
            if acquired.count == 0:
                raise
        acquired.end()
        self.delivered += acquired.count
        self.unacked += acquired.count
        self.unacked_bytes += acquired.body_bytes
        return acquired

    def _take_within(self, room: i64, is_first: bool) -> Entry | None:
        """The next entry, if its body is not larger; the first one in any case."""
        if self._withheld is not None:
            self._expire_withheld(self._withheld)
            withheld = self._withheld.take(None)
            if withheld is not None:
                return withheld
        first = self._first()
        if first is None or (not is_first and len(first.message.body) > room):
            return None
        return self._take()

    def _left_packed(self, page: Page) -> None:
        """What `_left` does, for all of a page."""
        self._bytes -= page.body_bytes
        if self._is_awaited:
            self._tell_room()

    def places_of(self, pages: Pages, page: Page) -> PlacesOfPage | None:
        """Where the journal has a page that is to be settled. Raises StorageError where that is unreadable.

        None where the journal does not have it, or the queue has to look at each message.
        """
        is_plain = self.dedup is None and not self._is_keyed
        return pages.places(page) if is_plain and self._survives else None

    def settle_page(self, pages: Pages, page: Page, places: PlacesOfPage | None) -> None:
        """All of a page that was acquired has left the queue for good; `places` by `places_of`. Raises StorageError."""
        if places is not None:
            self._journal.settle_runs(self.id, places.seqs, places.slots)
            self._unkept_left_with(page)
        elif self.dedup is not None or self._is_keyed:
            for entry in pages.read(page):
                self.drop(entry)
        self.acked += page.count
        self.unacked -= page.count
        self.unacked_bytes -= page.body_bytes
        pages.drop(page)

    def _unkept_left_with(self, page: Page) -> None:
        if self._survives:
            self._unkept -= page.unkept
            self._unkept_bytes -= page.unkept_bytes

    def abandon_page(self, pages: Pages, page: Page) -> None:
        """The same where the queue itself is gone."""
        try:
            self.settle_page(pages, page, self.places_of(pages, page))
        except StorageError:
            # Of a queue that is gone nothing comes back after a restart, whatever the journal has.
            pages.drop(page)

    # -- looking ------------------------------------------------------------------------------------------------

    @property
    def next_position(self) -> i64:
        """Behind all that is here."""
        return self._seq

    def look(self, part: i64, after: i64) -> Look | None:
        """What is ready behind a position of a part, a block of it at most; from part 0, position -1 on.

        None where that is all. Raises InternalError where what comes next cannot be read.
        """
        parts = self._store.parts()
        if part == 0:
            loose = [entry for entry in self._store.loose() if entry.position > after]
            if loose:
                return Look(0, nsmallest(BLOCK_ENTRIES, loose, key=_position), None, None, [])
            part = 1
            after = -1
        while part <= len(parts):
            # The highest priority first, as they are delivered.
            fifo = parts[len(parts) - part]
            entries, page, paged = fifo.look(after)
            if entries:
                return Look(part, entries, fifo, page, paged)
            part += 1
            after = -1
        return None

    def disconnect(self, look: Look, leaving: list[Entry]) -> None:
        """These of what was just looked at leave the queue for good: they are somewhere else, or nobody's."""
        page, fifo = look.page, look.fifo
        if page is None or fifo is None:
            for entry in leaving:
                self._remove(entry)
                self.drop(entry)
            return
        if not leaving:
            return
        gone = {int(entry.seq) for entry in leaving}
        kept = [entry for entry in look.paged if int(entry.seq) not in gone]
        fifo.left_of(page, kept)
        self._left_page(fifo, len(leaving))
        for entry in leaving:
            self._bytes -= len(entry.message.body)
            self.drop(entry)
        if self._is_awaited:
            self._tell_room()

    def _first(self) -> Entry | None:
        """What is to be delivered next. What comes out of a page may have expired in there."""
        first = self._store.peek()
        while first is not None and first.expires_ms != 0 and first.expires_ms < self.tick.now_ms:
            self._expired(first)
            first = self._store.peek()
        return first

    def _take(self) -> Entry:
        entry = self._store.take()
        self._bytes -= len(entry.message.body)
        if not self._is_plain_out:
            self._left(entry)
        return entry

    def _remove(self, entry: Entry) -> None:
        """Take an entry out from wherever it stands."""
        self._store.remove(entry)
        self._bytes -= len(entry.message.body)
        if not self._is_plain_out:
            self._left(entry)

    def _left(self, entry: Entry) -> None:
        if entry.expires_ms != 0 and self._expiry is not None:
            self._expiry.left(entry)
        if self._values is not None:
            self._values.left(entry)
        if self._view is not None:
            self._view.left()
        if self._is_awaited:
            self._tell_room()

    def settle(self, entry: Entry) -> None:
        self.acked += 1
        self._handed_back(entry)
        self.drop(entry)

    def drop(self, entry: Entry) -> None:
        if self._is_keyed:
            self._released(entry)
            if self.lifetime is not None:
                self.lifetime.left()
        self._write_off(entry)

    def _write_off(self, entry: Entry) -> None:
        if entry.segment != 0:
            if self.dedup is not None:
                self.dedup.keep(entry.message)
            self._journal.settle(self.id, entry)
        elif self._survives and entry.seq >= 0:
            self._unkept_left(entry)

    def _unkept_left(self, entry: Entry) -> None:
        """A message that may have been one of those that the journal does not keep has left the queue."""
        message = entry.message
        if not message.options.persistent:
            self._unkept -= 1
            self._unkept_bytes -= len(message.body)

    def _released(self, entry: Entry) -> None:
        """An entry is in no consumer's hands any more, and will not come back."""
        self._let_go_of_group(entry)
        if self._values is not None:
            self._settle_replaced()
            self._values.gone(entry)
        if self._exclusions is not None:
            self._exclusions.left(entry)
            self._bar_no_more(self._exclusions)

    @abstractmethod
    def _let_go_of_group(self, entry: Entry) -> None:
        """A consumer does not hold the group of this entry for its sake any more."""

    def reject(self, entry: Entry) -> None:
        entry.returns += 1
        self.give_up(entry)

    def give_up(self, entry: Entry) -> None:
        self._handed_back(entry)
        self._give_up(entry, REJECTED)

    def discard_unsendable(self, entry: Entry) -> None:
        self.tick.churn.unsendable += 1
        self._handed_back(entry)
        self._give_up(entry, OVERSIZED)

    def _give_up(self, entry: Entry, reason: str) -> None:
        """Dead-letter an entry that is out of the store, or drop it where there is nowhere to."""
        if self.settings.dead_letter_exchange is None or self.gone:
            self.drop(entry)
        else:
            if self._is_keyed:
                self._released(entry)
            self.tick.dead_letters.append(DeadLetter(self, entry, reason))

    def requeue(self, entries: list[Entry]) -> None:
        self._take_back(entries, self.settings.pauses_returned, 1)

    def fail(self, entries: list[Entry]) -> None:
        self._take_back(entries, self.settings.pauses_failed, 1)

    def put_back(self, entries: list[Entry]) -> None:
        self._take_back(entries, self.settings.pauses_returned, 0)

    def _take_back(self, entries: list[Entry], pauses: bool, failures: i32) -> None:
        if self.gone:
            for entry in entries:
                self._handed_back(entry)
                self.drop(entry)
            return
        self._give_back(self._returned(entries, pauses, failures))
        self.touch()

    def _returned(self, entries: list[Entry], pauses: bool, failures: i32) -> list[Entry]:
        """These came back after so many failures each; returns those that are to be tried again at once."""
        limit = self.settings.delivery_limit
        # What is behind a paused one in its group would overtake it.
        pauses = pauses and self._groups is None
        back: list[Entry] = []
        for entry in entries:
            self._handed_back(entry)
            if self._is_keyed:
                self._let_go_of_group(entry)
                if self._is_outdated(entry):
                    continue
            entry.redelivered = True
            if failures > 0:
                entry.returns += failures
                if limit >= 0 and i64(entry.returns) > limit:
                    self._give_up(entry, DELIVERY_LIMIT)
                    continue
                if limit >= 0 or pauses:
                    self._journal.returned(self.id, entry)
            if pauses:
                self._pause(entry)
            else:
                back.append(entry)
        return back

    def _pause(self, entry: Entry) -> None:
        until_ms = self.tick.now_ms + pause_ms(self.settings, max(i64(entry.returns), 1))
        # Its time to live goes on meanwhile, and ends the pause.
        self._hold(entry, until_ms if entry.expires_ms == 0 else min(until_ms, entry.expires_ms))

    def _make_way(self, count: i64, size: i64) -> None:
        """So many come, by nobody's publishing: what consumers would have by now, had the tick been shorter, goes."""
        if self.is_guarded and self._is_over(count, size) and self._store.count > 0:
            self._catch_up()

    def _catch_up(self) -> bool:
        """Do what would be done by now, had the tick been shorter; returns as `dispatch` does."""
        if self._expiry is not None:
            self._expiry.on_due(self.tick.now_ms - 1)
        return self.dispatch()

    def _give_back(self, entries: list[Entry]) -> None:
        """They are ready again, as far as there is room for them, and they have not expired meanwhile."""
        entries = self._living(entries)
        if self._exclusions is not None:
            entries = self._keep_back(self._exclusions, entries)
        if self.is_guarded:
            self._make_way(len(entries), sum([len(entry.message.body) for entry in entries]))
        if self._values is not None:
            entries = [entry for entry in entries if not self._is_outdated(entry)]
            for entry in entries:
                self._values.returned(entry)
        for entry in entries:
            entry.state = READY
            self._bytes += len(entry.message.body)
            if entry.expires_ms != 0:
                self._expire_later(entry)
        self._store.give_back(entries)
        if self.is_guarded:
            self._trim()

    def _living(self, entries: list[Entry]) -> list[Entry]:
        """Those of acquired entries that have time to live left; the others are dead letters."""
        now_ms = self.tick.now_ms
        living: list[Entry] = []
        for entry in entries:
            if entry.expires_ms == 0 or entry.expires_ms > now_ms:
                living.append(entry)
            elif not self._is_outdated(entry):
                self._give_up(entry, EXPIRED)
        return living

    def _is_outdated(self, entry: Entry) -> bool:
        """Whether a newer entry has this one's key, so that it is settled instead of coming back."""
        if self._values is None or not self._values.is_outdated(entry):
            return False
        self.drop(entry)
        return True

    def withhold(self, entries: list[Entry], context: object) -> None:
        # What is behind them in their groups would overtake them.
        if self.gone or self._groups is not None:
            self.requeue(entries)
            return
        self._withhold(self._returned(entries, self.settings.pauses_failed, 1), (context,))
        self.touch()

    def _withhold(self, entries: list[Entry], contexts: tuple[object, ...]) -> None:
        if self._withheld is None:
            self._withheld = Withheld()
        self._withheld.keep(entries, contexts)

    def bar(self, entry: Entry, context: object) -> None:
        # In a group, what is behind it would overtake it.
        if self._groups is not None:
            return
        if self._exclusions is None:
            self._exclusions = Exclusions()
            self._set_plain()
        self._exclusions.bar(entry, context)

    def _keep_back(self, barred: Exclusions, entries: list[Entry]) -> list[Entry]:
        """Those that not everybody may have wait for who may; returns the others."""
        free: list[Entry] = []
        for entry in entries:
            contexts = barred.contexts(entry)
            if contexts:
                self._withhold([entry], contexts)
            else:
                free.append(entry)
        return free

    def _bar_no_more(self, barred: Exclusions) -> None:
        if len(barred) == 0 and self._exclusions is not None:
            self._exclusions = None
            self._set_plain()

    def rewrite(self, entry: Entry, message: Message) -> None:
        if entry.segment != 0:
            self._journal.replace(self.id, entry, message)
        entry.message = message

    def release(self, context: object) -> None:
        if self._exclusions is not None:
            self._exclusions.release(context)
            self._bar_no_more(self._exclusions)
        withheld = self._withheld
        if withheld is not None and not self.gone:
            self._give_back(withheld.release(context))
            self.touch()

    def dead_letter_all(self) -> int:
        if self._expiry is not None:
            self._expiry.on_due(self.tick.now_ms)
        entries = self._take_withheld()
        count = len(entries) + self._store.count
        WORK.spent += count
        for entry in entries:
            self._give_up(entry, DELETED)
        while self._store.count > 0:
            self._give_up(self._take(), DELETED)
        return count

    def _take_withheld(self) -> list[Entry]:
        withheld, self._withheld = self._withheld, None
        return [] if withheld is None else [entry for entry, _ in withheld.entries]

    def purge(self) -> int:
        if self.dedup is not None:
            self.dedup.clear()
        count = self.message_count + self.held_count
        for entry in self._take_withheld():
            self.drop(entry)
        if self.dedup is None and not self._is_keyed:
            # Nobody has to be told of each.
            self._store.drop_pages(self._drop_page)
        # Page by page it takes less, and the rest one by one.
        WORK.spent += self._store.count
        while True:
            first = self._store.drop_candidate()
            if first is None:
                break
            self._remove(first)
            self.drop(first)
        if self._delays is not None:
            for entry in self._delays.take_all():
                self.drop(entry)
        return count

    def _drop_page(self, page: Page) -> None:
        WORK.spent += _PAGE_UNITS
        if self._paging is not None:
            if self._survives:
                try:
                    places = self._paging.places(page)
                    self._journal.settle_runs(self.id, places.seqs, places.slots)
                    self._unkept_left_with(page)
                except InternalError:
                    # Of a queue that is gone nothing comes back after a restart, whatever the journal has.
                    if not self.gone:
                        raise
            self._paging.drop(page)
        self._bytes -= page.body_bytes

    def discard(self) -> None:
        self.purge()
        self._settle_replaced()
        if self._expiry is not None:
            self._expiry.forget()
        if self._paging is not None:
            self._paging.forget()
        view, self._view = self._view, None
        if view is not None:
            view.delete()
        if self._is_awaited:
            self._tell_room()

    def view(self) -> Queue:
        if self._view is None:
            self._view = View(self, self._contents, self._browsed)
            self._set_plain()
        return self._view

    def _contents(self) -> list[Entry]:
        return self._keep_in_memory()

    def _browsed(self) -> None:
        self._view = None
        if self._paging is not None and self._values is None:
            self._paging.is_on = True
        self._set_plain()


def _position(entry: Entry) -> int:
    return int(entry.position)
