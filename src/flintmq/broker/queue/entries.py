"""What a classic queue keeps: its entries come in, wait their turn or their time, go out, come back, or are given up.

What few queues use (expiry, limits, delays...) is one module each, and made when the first message or setting asks for
it: a queue without costs a message one branch on the way in, and one on the way out.
"""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Final

from mypy_extensions import i32, i64

from flintmq.base.errors import InternalError
from flintmq.base.limits import ASKED_CONSUMERS_PER_UNIT
from flintmq.base.work import WORK
from flintmq.broker.message import ACQUIRED, FOREVER, PAUSE, READY, Entry, Message, Table
from flintmq.broker.ports import Journal, Page
from flintmq.broker.queue.base import (
    ADMITTED,
    DISCARDED,
    DONE,
    REFUSED,
    Queue,
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
from flintmq.broker.queue.ready import Fifo, Ready, ranked
from flintmq.broker.queue.retry import pause_ms
from flintmq.broker.queue.sequence_owners import SequenceOwners
from flintmq.broker.queue.settings import DROP_HEAD, REJECT_PUBLISH_DLX
from flintmq.broker.queue.undelivered import Undelivered
from flintmq.broker.queue.withheld import Withheld
from flintmq.broker.tick import DELETED, DELIVERY_LIMIT, EXPIRED, MAXLEN, OVERSIZED, REJECTED, DeadLetter, Tick

# The seq of an entry that never was on the queue.
_NOWHERE: Final = -1
# What it takes to drop a page of messages: each of them is settled in the journal.
_PAGE_UNITS: Final = 64


class EntryQueue(Queue):
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
        self.journal = journal
        # An exclusive queue ends with its connection, durable or not.
        self._survives = durable and owner is None
        self._paging = None if tick.pages is None else Paging(tick.pages, self._left_page)
        self._levels = levels_of(kind, arguments, ranks_all)
        self.store: Ready = Fifo(self._paging)
        self.next_seq: i64 = 0
        self._expiry: Expiry | None = None
        self._delays: Delays | None = None
        self._withheld: Withheld | None = None
        # Made while there is an entry that not every consumer may have.
        self._exclusions: Exclusions | None = None
        self.groups: Groups | None = None
        self._values: LastValues | None = None
        # What was here, where nothing may be here twice.
        self.dedup: Dedup | None = None
        # What browsers consume from, while there are any.
        self._view: View | None = None
        # Whether groups, last values, what is barred or its lifetime have to hear of every settlement.
        self._is_keyed = False
        # At start-up: whose the numbers of entries are.
        self.sequence_owners = SequenceOwners()
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
        self.unpublished: i64 = 0
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
        if settings.group_field is not None and self.groups is None:
            self.groups = Groups(settings.group_field)
        if settings.last_value_field is not None and self._values is None:
            self._values = LastValues(settings.last_value_field)
            self._keep_in_memory()
        self._set_plain()
        self._make_way(0, 0)
        self.trim()
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
                dedup = Dedup(self.id, self.name, self._survives, self.tick, self.journal)
                for entry in self._each():
                    dedup.remember(entry.message, self.tick.now_ms)
            dedup.configure(self.settings)
            self.dedup = dedup

    def note_undelivered(self) -> None:
        """The broker stops, and nobody consumes any more: have the journal know what nobody has had."""
        if self._survives:
            runs = Undelivered(self.store).runs
            if runs:
                self.journal.undelivered(self.id, runs)

    def _each(self) -> Iterator[Entry]:
        """What is ready, in no order, and for a look only."""
        yield from self.store.loose()
        for part in self.store.parts():
            for block in part.blocks():
                yield from block

    def _keep_in_memory(self) -> list[Entry]:
        """From now on somebody knows what is ready by its objects; returns these in order."""
        if self._paging is not None:
            self._paging.is_on = False
        try:
            return self.store.entries()
        except InternalError:
            if self._paging is not None:
                self._paging.is_on = True
            raise

    def page_out(self) -> None:
        self.store.page_out()

    def trim(self) -> None:
        """There may be too much, by nobody's publishing: the oldest go, unless it is publishers who are to stop."""
        if self.settings.overflow != DROP_HEAD:
            return
        while self._is_over(0, 0):
            first = self.store.drop_candidate()
            if first is None:
                return
            self.remove(first)
            self._give_up(first, MAXLEN)

    def _set_plain(self) -> None:
        has_values = self._values is not None
        counts = self.lifetime is not None and self.lifetime.counts
        is_plain = not has_values and self._view is None
        self._is_plain_in = is_plain and self.settings.ttl_ms == FOREVER and self.dedup is None and not counts
        self._is_plain_out = is_plain and self._expiry is None and not self._is_awaited
        self._is_keyed = has_values or self.groups is not None or self._exclusions is not None or counts

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
            first = self.store.drop_candidate()
            if first is None or self._level(first.message) > self._level(message):
                # There will never be room for this one, or none that more important ones would not have to make.
                if settings.dead_letters_at_least_once:
                    # Its letter might have to wait, and nothing would keep it over a crash.
                    return REFUSED
                self._discard(message)
                return DISCARDED
            self.remove(first)
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
        if settings.max_length >= 0 and self.store.count + count > settings.max_length:
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
        entry = Entry(message, self.next_seq)
        self.next_seq += 1
        options = message.options
        if self._is_plain_in and options.is_plain and options.priority <= self._levels.plain:
            self.store.append(entry)
            self._bytes += len(message.body)
        else:
            self.admit_entry(entry, self.tick.now_ms)
        if not self._is_ready and self.consumers:
            self.touch()
        if self._survives:
            if options.persistent:
                return entry
            self._unkept += 1
            self._unkept_bytes += len(message.body)
        return None

    def append_plain(self, entry: Entry) -> bool:
        """Make an entry ready at once; False where the queue, or the message, asks for more than that."""
        options = entry.message.options
        if not self._is_plain_in or not options.is_plain or options.priority > self._levels.plain:
            return False
        self.store.append(entry)
        self._bytes += len(entry.message.body)
        return True

    def admit_entry(self, entry: Entry, since_ms: i64) -> None:
        """Take an entry of which more is asked than to stand in line."""
        if self.dedup is not None:
            self.dedup.remember(entry.message, since_ms)
        if self.lifetime is not None:
            self.lifetime.came()
        self.settle_replaced()
        self.place(entry, since_ms)

    def count_unkept(self, message: Message) -> None:
        """A message comes that has a number already."""
        if self._survives and not message.options.persistent:
            self._unkept += 1
            self._unkept_bytes += len(message.body)

    def discard_duplicate(self, entry: Entry) -> None:
        """An entry that has a number already is not taken: the queue has, or had, its message."""
        if self._survives:
            self._unkept_left(entry)
        if entry.segment != 0:
            self.journal.settle(self.id, entry)

    def place(self, entry: Entry, since_ms: i64) -> None:
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
            entry.position = self.next_seq
            self.next_seq += 1
            self.unpublished += 1
            self._make_ready(entry, self.tick.now_ms)
            self.settle_replaced()
            self.trim()
        self.touch()

    def _make_ready(self, entry: Entry, since_ms: i64) -> None:
        if self._values is not None and not self._replace(self._values, entry):
            return
        self.rank(entry)
        ttl_ms = self.ttl_of(entry.message)
        if ttl_ms != FOREVER:
            entry.expires_ms = since_ms + ttl_ms
            self._expire_later(entry)
        self.store.append(entry)
        self._bytes += len(entry.message.body)
        if self._view is not None:
            self._view.came(entry)

    @property
    def settles_unseen(self) -> bool:
        """Whether entries can leave the queue by the page, because nothing of it has to see each of them."""
        return self.dedup is None and not self._is_keyed

    def replace_older(self, entry: Entry) -> None:
        """An entry that is not ready is the newest with its key."""
        if self._values is not None:
            self._replace(self._values, entry)
            self._values.left(entry)

    def _replace(self, values: LastValues, entry: Entry) -> bool:
        """Let go of the ready entry with the same key; False where this one is the older."""
        if self._is_outdated(entry):
            return False
        older = values.put(entry)
        if older is not None:
            self.remove(older)
            values.gone(older)
            values.replaced.append(older)
        return True

    def settle_replaced(self) -> None:
        """What replaced them is in the journal by now."""
        if self._values is not None and self._values.replaced:
            replaced = self._values.replaced
            self._values.replaced = []
            for entry in replaced:
                self._write_off(entry)
                if self.lifetime is not None:
                    self.lifetime.left()

    def rank(self, entry: Entry) -> None:
        self.store = ranked(self.store, entry, self._levels)

    def ttl_of(self, message: Message) -> i64:
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
            self.remove(entry)
        else:
            # It was in a page, and is in the store no more.
            self._bytes -= len(entry.message.body)
            self._left(entry)
        self._give_up(entry, EXPIRED)

    def _left_page(self, part: Fifo, count: int) -> None:
        self.store.left_packed(part, count)

    def start_at(self, seq: i64) -> None:
        """All entries that were kept are back; the next one gets this number."""
        self.next_seq = seq
        self.sequence_owners = SequenceOwners()
        self.unpublished = seq
        self.settle_replaced()
        # What consumers had before the restart is ready again.
        self.trim()
        if self.lifetime is not None:
            self.lifetime.restart()

    # -- out ----------------------------------------------------------------------------------------------------

    @property
    def message_count(self) -> int:
        if self._withheld is not None:
            return self.store.count + len(self._withheld.entries)
        return self.store.count

    @property
    def published(self) -> int:
        return int(self.next_seq - self.unpublished)

    @property
    def ready_bytes(self) -> int:
        return int(self._bytes)

    def head(self) -> Message | None:
        first = self.store.head() if self.store.count > 0 else None
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
        self.serve_consumers()
        entry = self._next_for_get(context)
        if entry is None:
            self.got_empty += 1
        else:
            self.got += 1
            self.redelivered += entry.redelivered
            self.handed_out(entry)
        return entry

    def serve_consumers(self) -> None:
        """Somebody asks for messages now: what consumers can take that were there before goes to them first."""
        if self._is_ready:
            WORK.spent += len(self.consumers) // ASKED_CONSUMERS_PER_UNIT
            if not self._catch_up():
                self.dispatched()

    def _next_for_get(self, context: object | None) -> Entry | None:
        if self.settings.paused:
            return None
        self.expire_due()
        return self.take_next(context, -1)

    def expire_due(self) -> None:
        """Let expire what is due by now."""
        if self._expiry is not None:
            self._expiry.on_due(self.tick.now_ms)

    def take_next(self, context: object | None, max_bytes: i64) -> Entry | None:
        """Acquire the next entry that this context may have; with a limit of -1, whatever its size.

        What is withheld from others is not limited.
        """
        if self._withheld is not None:
            self._expire_withheld(self._withheld)
            withheld = self._withheld.take(context)
            if withheld is not None:
                return withheld
        first = self._first()
        if first is None or (0 <= max_bytes < len(first.message.body)):
            return None
        return self._take()

    def take_page(self, max_count: i64, max_bytes: i64) -> Page | None:
        """Acquire the next entries as a page; None where they are not packed, or are more than that."""
        page = None if self._withheld is not None else self.store.take_page(max_count, max_bytes)
        if page is not None:
            self.left_packed(page.body_bytes)
        return page

    def left_packed(self, body_bytes: i64) -> None:
        """Entries with so many bytes in their bodies are not ready any more, and were in a page."""
        self._bytes -= body_bytes
        if self._is_awaited:
            self._tell_room()

    def _expire_withheld(self, withheld: Withheld) -> None:
        """What waits for other consumers lives no longer for that."""
        for entry in withheld.expired(self.tick.now_ms):
            self._give_up(entry, EXPIRED)

    def sent(self, entry: Entry) -> None:
        self.got -= 1
        self._handed_back(entry)
        super().sent(entry)

    def handed_out(self, entry: Entry) -> None:
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

    def page_left(self, page: Page) -> None:
        """All entries of a page have left the queue for good, and the journal knows it."""
        if self._survives:
            self._unkept -= page.unkept
            self._unkept_bytes -= page.unkept_bytes

    def _first(self) -> Entry | None:
        """What is to be delivered next. What comes out of a page may have expired in there."""
        first = self.store.peek()
        while first is not None and first.expires_ms != 0 and first.expires_ms < self.tick.now_ms:
            self._expired(first)
            first = self.store.peek()
        return first

    def _take(self) -> Entry:
        entry = self.store.take()
        self._bytes -= len(entry.message.body)
        if not self._is_plain_out:
            self._left(entry)
        return entry

    def remove(self, entry: Entry) -> None:
        """Take an entry out from wherever it stands."""
        self.store.remove(entry)
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
            self.journal.settle(self.id, entry)
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
            self.settle_replaced()
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
        pauses = pauses and self.groups is None
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
                    self.journal.returned(self.id, entry)
            if pauses:
                self.pause_entry(entry)
            else:
                back.append(entry)
        return back

    def pause_entry(self, entry: Entry) -> None:
        until_ms = self.tick.now_ms + pause_ms(self.settings, max(i64(entry.returns), 1))
        # Its time to live goes on meanwhile, and ends the pause.
        self._hold(entry, until_ms if entry.expires_ms == 0 else min(until_ms, entry.expires_ms))

    def _make_way(self, count: i64, size: i64) -> None:
        """So many come, by nobody's publishing: what consumers would have by now, had the tick been shorter, goes."""
        if self.is_guarded and self._is_over(count, size) and self.store.count > 0:
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
        self.store.give_back(entries)
        if self.is_guarded:
            self.trim()

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
        if self.gone or self.groups is not None:
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
        if self.groups is not None:
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
            self.journal.replace(self.id, entry, message)
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
        count = len(entries) + self.store.count
        WORK.spent += count
        for entry in entries:
            self._give_up(entry, DELETED)
        while self.store.count > 0:
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
            self.store.drop_pages(self._drop_page)
        # Page by page it takes less, and the rest one by one.
        WORK.spent += self.store.count
        while True:
            first = self.store.drop_candidate()
            if first is None:
                break
            self.remove(first)
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
                    self.journal.settle_runs(self.id, places.seqs, places.slots)
                    self.page_left(page)
                except InternalError:
                    # Of a queue that is gone nothing comes back after a restart, whatever the journal has.
                    if not self.gone:
                        raise
            self._paging.drop(page)
        self._bytes -= page.body_bytes

    def discard(self) -> None:
        self.purge()
        self.settle_replaced()
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
