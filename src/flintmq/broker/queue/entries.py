"""The life of an entry on a queue: a queue is a store, counters, these transitions, and features that react to them.

An entry is held until a time, ready, withheld (ready, but not for every consumer), acquired, or gone. A dead letter is
in none of these states: it is gone once the dead letter exchange of its queue has it, or at once without one.

| transition        | from             | to              | because                                                |
|-------------------|------------------|-----------------|--------------------------------------------------------|
| enqueue           |                  | held, ready     | it was published; also `reservation.py`, `recovery.py` |
| due               | held             | ready, withheld | its delay, or its pause after a failure, is over       |
| acquire           | ready, withheld  | acquired        | a consumer, basic.get or a lease takes it              |
| settle            | acquired         | gone            | it was accepted                                        |
| reject            | acquired         | dead letter     | it was rejected: a failure                             |
| dead_letter       | acquired         | dead letter     | it was discarded: no failure                           |
| requeue, fail     | acquired         | ready, held     | it was modified: a failure, which may lead to a pause  |
|                   |                  | dead letter     | ... or exceed the delivery limit                       |
| requeue_excluding | acquired         | withheld, held  | it was rejected by consumers that do not get it again  |
| release           | acquired         | ready, held     | it was released: no failure                            |
| expire            | any but acquired | dead letter     | its time to live is over                               |
| drop head         | ready            | dead letter     | the queue is longer than its limit                     |
| replace           | ready            | gone            | a newer one has its key (`last_values.py`)             |
| cancel            | held             | gone            | its publisher took it back (`admission.py`)            |
| purge             | any but acquired | gone            | the queue is purged (`purge.py`)                       |
| delete            | any but acquired | gone            | the queue is deleted (`contents.py`)                   |
| drop              | dead letter      | gone            | the dead letter exchange has it                        |
"""

from mypy_extensions import i32, i64

from flintmq.base.errors import InternalError, NotImplementedHere
from flintmq.base.limits import ASKED_CONSUMERS_PER_UNIT, EXPIRED_MESSAGE_UNITS, STEP_UNITS, TRIMMED_MESSAGE_UNITS
from flintmq.base.work import WORK
from flintmq.broker.message import ACQUIRED, FOREVER, READY, Entry, Message, Table
from flintmq.broker.ports import Journal, Page
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.browse import View
from flintmq.broker.queue.contents import Contents
from flintmq.broker.queue.dedup import Dedup
from flintmq.broker.queue.delays import Delays
from flintmq.broker.queue.excess import Excess
from flintmq.broker.queue.exclusions import Exclusions
from flintmq.broker.queue.expiry import Expiry
from flintmq.broker.queue.features import COMING, LEAVING, SETTLEMENT, AwaitedRoom, Feature
from flintmq.broker.queue.filtered_store import FilteredStore
from flintmq.broker.queue.groups import Groups
from flintmq.broker.queue.last_values import LastValues
from flintmq.broker.queue.levels import levels_of
from flintmq.broker.queue.pager import Pager
from flintmq.broker.queue.priorities import ranked
from flintmq.broker.queue.ready import Fifo, Ready
from flintmq.broker.queue.retry import pause_ms
from flintmq.broker.queue.sequence_owners import SequenceOwners
from flintmq.broker.queue.settings import DROP_HEAD
from flintmq.broker.tick import DELIVERY_LIMIT, EXPIRED, MAXLEN, OVERSIZED, REJECTED, DeadLetter, Tick


class EntryQueue(Queue):
    """A queue of entries, without its consumers: `classic.py` adds these, and what becomes entries at all."""

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
        self._pager = None if tick.pages is None else Pager(tick.pages, self._left_page)
        self.levels = levels_of(kind, arguments, ranks_all)
        self.store: Ready = Fifo(self._pager)
        self.next_seq: i64 = 0
        # The bytes in the bodies of ready entries.
        self._bytes: i64 = 0
        # On a queue that survives a restart: the number of messages, in any state, that do not, and of bytes in their
        # bodies.
        self._unkept: i64 = 0
        self._unkept_bytes: i64 = 0
        # How many sequence numbers belong to no message published since the start.
        self.unpublished: i64 = 0
        # Whether the single active consumer gets nothing more, and is replaced once it has settled its deliveries.
        self._is_handing_over = False
        # Whether ticks drop entries because there are too many: new ones need no room.
        self.is_trimming = False
        # Whether `get` or a lease found nothing because too many expired entries are before the next one: ask again.
        self.is_behind = False
        # At start-up: the owners of sequence numbers.
        self.sequence_owners = SequenceOwners()
        self.delays: Delays | None = None
        self.groups: Groups | None = None
        # Features, made when the first message or setting needs them: see `_arrange`.
        self.dedup: Dedup | None = None
        self._values: LastValues | None = None
        self._expiry: Expiry | None = None
        self.exclusions: Exclusions | None = None
        self._awaited_room: AwaitedRoom | None = None
        # The store, while not every consumer may have every entry.
        self._filtered_store: FilteredStore | None = None
        # The view that browsers consume from, while there are any.
        self._view: View | None = None
        # Features by the events that they want to hear of.
        self._on_coming: tuple[Feature, ...] = ()
        self._on_leaving: tuple[Feature, ...] = ()
        self._on_settlement: tuple[Feature, ...] = ()
        # Whether no feature hears of entries that come, and the queue has no time to live; no feature hears of entries
        # that leave; and none of entries that are settled, so that whole pages can be settled.
        self._is_plain_in = True
        self._is_plain_out = True
        self.settles_by_page = True

    # -- settings -----------------------------------------------------------------------------------------------

    def configure(self, effective: Table) -> None:
        was_paused = self.settings.paused
        super().configure(effective)
        settings = self.settings
        if was_paused and not settings.paused:
            self.touch()
        self.is_guarded = settings.is_guarding
        self._deduplicate()
        self.adds_headers = settings.delivery_limit >= 0 or settings.pauses_failed or settings.pauses_returned
        if settings.group_field is not None and self.groups is None:
            self.groups = Groups(settings.group_field)
        if settings.last_value_field is not None and self._values is None:
            self._values = LastValues(settings.last_value_field, self.remove, self.drop)
            self._keep_in_memory()
        self._arrange()
        self._make_way(0, 0)
        self.trim()
        if self._awaited_room is not None:
            self._tell_room()

    def _arrange(self) -> None:
        """Sort the features by the events that they hear of. Call it when a feature was added, removed or changed."""
        candidates: list[Feature | None] = [
            self._filtered_store,
            self.dedup,
            self.lifetime,
            self._values,
            self._expiry,
            self._awaited_room,
            self.exclusions,
            # The view comes after last values: browsers do not see entries that those keep out.
            self._view,
        ]
        features = [feature for feature in candidates if feature is not None]
        self._on_coming = tuple([feature for feature in features if feature.hears() & COMING])
        self._on_leaving = tuple([feature for feature in features if feature.hears() & LEAVING])
        self._on_settlement = tuple([feature for feature in features if feature.hears() & SETTLEMENT])
        self._is_plain_in = not self._on_coming and self.settings.ttl_ms == FOREVER
        self._is_plain_out = not self._on_leaving
        self.settles_by_page = not self._on_settlement

    def set_lifetime_policy(self, policy: str) -> None:
        super().set_lifetime_policy(policy)
        self._arrange()

    def _deduplicate(self) -> None:
        dedup = self.dedup
        if self.settings.deduplicates:
            if dedup is None:
                dedup = Dedup(self.id, self.name, self._survives, self.tick, self.journal)
                for entry in self.store.each():
                    dedup.remember(entry.message, self.tick.now_ms)
                self.dedup = dedup
            dedup.configure(self.settings)
        elif dedup is not None:
            dedup.clear()
            self.dedup = None

    def _keep_in_memory(self) -> list[Entry]:
        """Keep all ready entries in memory, for a feature that knows them as objects. Returns them in order."""
        if self._pager is not None:
            self._pager.is_on = False
        try:
            return self.store.entries()
        except InternalError:
            if self._pager is not None:
                self._pager.is_on = True
            raise

    def page_out(self) -> None:
        """Move as many entries as possible out of memory, because memory is low."""
        self.store.page_out()

    def pause(self, paused: bool) -> None:
        """Stop deliveries, or resume them."""
        self.arguments = {**self.arguments, "x-paused": paused}
        # It takes effect at once, so that the next basic.get obeys it; a policy may override it at the end of the tick.
        self.settings.paused = paused
        self.touch()
        self.tick.rearranged[self] = None

    # -- room ---------------------------------------------------------------------------------------------------

    def exceeds_limits(self, count: i64, size: i64) -> bool:
        """Whether the queue would exceed its limits with `count` more messages of `size` bytes in total."""
        return self.settings.is_exceeded_by(self.store.count + count, self._bytes + size)

    def replaced_by(self, message: Message) -> Entry | None:
        """Return the ready entry that this message would replace, because both have the same last-value key."""
        return None if self._values is None else self._values.waiting(message)

    def trim(self) -> None:
        """Drop the oldest entries while there are too many, unless publishers are refused instead.

        If there are very many too many, because the limit was lowered, the ticks drop the rest.
        """
        if not self.is_trimming and self._trim_some(STEP_UNITS // TRIMMED_MESSAGE_UNITS):
            self.is_trimming = True
            self.tick.steps.append(Excess(self._trim_on))

    def _trim_on(self, most: int) -> bool:
        # Reading an entry of a page may raise.
        self.is_trimming = False
        self.is_trimming = self._trim_some(most)
        return self.is_trimming

    def _trim_some(self, most: i64) -> bool:
        """Drop at most `most` entries that are too many. Returns whether there are more."""
        if self.settings.overflow != DROP_HEAD or self.gone:
            return False
        while self.exceeds_limits(0, 0):
            if most <= 0:
                return True
            first = self.store.drop_candidate()
            if first is None:
                return False
            most -= 1
            WORK.spent += TRIMMED_MESSAGE_UNITS
            self.remove(first)
            self.make_dead_letter(first, MAXLEN)
        return False

    def _make_way(self, count: i64, size: i64) -> None:
        """Let consumers take entries before `count` entries of `size` bytes come back, if the queue would be too long.

        With a shorter tick they would have taken them already.
        """
        if self.is_guarded and self.exceeds_limits(count, size) and self.store.count > 0:
            self.catch_up()

    def catch_up(self) -> bool:
        """Expire entries and dispatch, as a shorter tick would have done by now. Returns what `dispatch` returns."""
        if self._expiry is not None:
            self._expiry.expire_by(self.tick.now_ms - 1)
        return self.dispatch()

    def await_room(self) -> None:
        """Add the queue to the tick's list `with_room` once an entry has left it: it refused a dead letter."""
        if self._awaited_room is None:
            self._awaited_room = AwaitedRoom(self._tell_room)
            self._arrange()

    def _tell_room(self) -> None:
        self._awaited_room = None
        self._arrange()
        self.tick.with_room.append(self)

    # -- enqueue ------------------------------------------------------------------------------------------------

    def enqueue(self, message: Message) -> Entry | None:
        entry = Entry(message, self.next_seq)
        self.next_seq += 1
        options = message.options
        if self._is_plain_in and options.is_plain and options.priority <= self.levels.plain:
            self.store.append(entry)
            self._bytes += len(message.body)
        else:
            self.admit_entry(entry, self.tick.now_ms)
        if not self._is_ready and self.consumers:
            if self.store.count == 1:
                self.tick.dispatch.awaited += 1
            self.touch()
        if self._survives:
            if options.persistent:
                return entry
            self._unkept += 1
            self._unkept_bytes += len(message.body)
        return None

    def append_plain(self, entry: Entry) -> bool:
        """Make an entry ready at once. Returns False, and does nothing, if a feature or the message needs more."""
        options = entry.message.options
        if not self._is_plain_in or not options.is_plain or options.priority > self.levels.plain:
            return False
        self.store.append(entry)
        self._bytes += len(entry.message.body)
        return True

    def admit_entry(self, entry: Entry, now_ms: i64) -> None:
        """Take an entry that a feature has to hear of, or that may be held first."""
        for feature in self._on_coming:
            feature.taken(entry, now_ms)
        self.put(entry, now_ms)

    def put(self, entry: Entry, since_ms: i64) -> None:
        """Hold an entry, or make it ready. `since_ms` is when its delay or its time to live began (Unix time)."""
        ready_ms = entry.message.options.held_until_ms(since_ms)
        if ready_ms > self.tick.now_ms:
            self._hold(entry, ready_ms)
        else:
            self._make_ready(entry, max(since_ms, ready_ms))

    def _make_ready(self, entry: Entry, since_ms: i64) -> None:
        for feature in self._on_coming:
            if not feature.ready(entry):
                return
        self.rank(entry)
        ttl_ms = self.settings.ttl_of(entry.message.options)
        if ttl_ms != FOREVER:
            entry.expires_ms = since_ms + ttl_ms
            self._expire_later(entry)
        self.store.append(entry)
        self._bytes += len(entry.message.body)

    def rank(self, entry: Entry) -> None:
        """Change to a store with priorities if the priority of this entry needs one."""
        self.store = ranked(self.store, entry, self.levels)

    def settle_replaced(self) -> None:
        """Settle the entries that newer messages replaced: the newer ones are in the journal by now."""
        if self._values is not None:
            self._values.settle_replaced()

    def discard_duplicate(self, entry: Entry) -> None:
        """Drop an entry with a reserved number, because the queue has, or had, its message."""
        if self._survives:
            self._unkept_left(entry)
        if entry.segment != 0:
            self.journal.settle(self.id, entry)

    # -- start-up -----------------------------------------------------------------------------------------------

    def restored(self, entry: Entry, is_outside: bool) -> None:
        """Tell features of a restored entry. `is_outside`: it is acquired or paused, not in the store."""
        for feature in self._on_coming:
            feature.restored(entry, is_outside)

    # -- due, expire --------------------------------------------------------------------------------------------

    def _hold(self, entry: Entry, until_ms: i64) -> None:
        if self.delays is None:
            self.delays = Delays(self.tick.timers, self._due)
        self.delays.hold(entry, until_ms)

    def _due(self, entry: Entry) -> None:
        if self._expiry is not None:
            # Entries that have expired by then are removed first, so that no others have to make room.
            self._expiry.expire_by(self.tick.now_ms - 1)
        if entry.expires_ms != 0 and entry.expires_ms <= self.tick.now_ms:
            # The entry was paused, and its time to live is over before its pause.
            if self._may_return(entry):
                if self._expiry is not None:
                    self._expiry.on_due(entry.expires_ms)
                self.make_dead_letter(entry, EXPIRED)
        elif entry.returns > 0 or entry.state == ACQUIRED:
            # The entry was paused, now or before a restart.
            self._make_ready_again([entry])
        else:
            self._make_way(1, len(entry.message.body))
            # The entry goes behind all that came before it was due, even if they were published later.
            entry.position = self.next_seq
            self.next_seq += 1
            self.unpublished += 1
            self._make_ready(entry, self.tick.now_ms)
            self.settle_replaced()
            self.trim()
        self.touch()

    def _expire_later(self, entry: Entry) -> None:
        if self._expiry is None:
            pager = self._pager
            self._expiry = Expiry(self.tick.expiries, self._expired, None if pager is None else pager.expire)
            if pager is not None:
                pager.expiry = self._expiry
            self._arrange()
        self._expiry.add(entry)

    def expire_due(self) -> None:
        """Expire entries whose time is over by now, as many as in a tick, unless ticks have not kept up already.

        They then go on with it, and the caller passes over those in front, which takes a part of the time.
        """
        if self._expiry is not None and not self._expiry.is_behind:
            self._expiry.expire_by(self.tick.now_ms)

    def _expired(self, entry: Entry) -> None:
        WORK.spent += EXPIRED_MESSAGE_UNITS
        if entry.state == READY:
            self.remove(entry)
        else:
            # The entry was in a page, and is no longer in the store.
            self._bytes -= len(entry.message.body)
            self._left(entry)
        if self._expiry is not None and self.settings.dead_letter_exchange is not None:
            WORK.spent += EXPIRED_MESSAGE_UNITS
            self._expiry.spend(1)
        self.make_dead_letter(entry, EXPIRED)

    # -- counters -----------------------------------------------------------------------------------------------

    @property
    def survives(self) -> bool:
        """Whether the queue, and its persistent messages, survive a restart."""
        return self._survives

    @property
    def message_count(self) -> int:
        if self.exclusions is not None:
            return self.store.count + self.exclusions.withheld_count
        return self.store.count

    @property
    def held_count(self) -> int:
        return 0 if self.delays is None else len(self.delays)

    @property
    def published(self) -> int:
        return int(self.next_seq - self.unpublished)

    @property
    def ready_bytes(self) -> int:
        return int(self._bytes)

    @property
    def kept_count(self) -> int:
        held = self.message_count + self.held_count + int(self.unacked)
        return max(held - int(self._unkept), 0) if self._survives else 0

    @property
    def kept_bytes(self) -> int:
        return max(int(self._bytes + self.unacked_bytes - self._unkept_bytes), 0) if self._survives else 0

    def count_unkept(self, message: Message) -> None:
        """Count a message with a reserved number if it does not survive a restart."""
        if self._survives and not message.options.persistent:
            self._unkept += 1
            self._unkept_bytes += len(message.body)

    def _unkept_left(self, entry: Entry) -> None:
        """Stop counting an entry that has left the queue, if it is one that does not survive a restart."""
        message = entry.message
        if not message.options.persistent:
            self._unkept -= 1
            self._unkept_bytes -= len(message.body)

    def page_settled(self, page: Page) -> None:
        """Update the counters: all entries of a page have left the queue for good, and are settled in the journal."""
        if self._survives:
            self._unkept -= page.unkept
            self._unkept_bytes -= page.unkept_bytes

    # -- acquire ------------------------------------------------------------------------------------------------

    def head(self) -> Message | None:
        first = self.store.head() if self.store.count > 0 else None
        return None if first is None else first.message

    def get(self, context: object | None = None) -> Entry | None:
        """Acquire the next entry for basic.get; None if there is none, or with `is_behind`, if it is not reached yet.

        `context` is that of the client's channel.
        """
        self.used()
        entry: Entry | None = None
        if self.serve_consumers() and not self.settings.paused:
            self.expire_due()
            entry = self.take_next(context, -1, WORK.spent + STEP_UNITS)
        if entry is None:
            if not self.is_behind:
                self.got_empty += 1
        else:
            self.got += 1
            self.redelivered += entry.redelivered
            self.add_unacked(entry)
        return entry

    def serve_consumers(self) -> bool:
        """Let consumers take what they can first: a client is about to ask for a message.

        Returns False, and sets `is_behind`, if they cannot have all of it yet: the client has to ask again.
        """
        self.is_behind = False
        if self._is_ready:
            WORK.spent += len(self.consumers) // ASKED_CONSUMERS_PER_UNIT
            if not self.catch_up():
                self.dispatched()
        return not self.is_behind

    def take_next(self, context: object | None, max_bytes: i64, enough: i64) -> Entry | None:
        """Acquire the next entry that consumers of this context may have; None if there is none.

        `max_bytes` limits the body of an entry that is not withheld from others; -1: no limit. Expired entries before
        it are removed until the work meter reads `enough`. If there are more, it is None, and `is_behind` is set.
        """
        exclusions = self.exclusions
        if exclusions is not None:
            self._expire_withheld(exclusions)
            withheld = exclusions.take(context)
            if withheld is not None:
                return withheld
        first = self._first(enough)
        if first is None or (0 <= max_bytes < len(first.message.body)):
            return None
        return self.take()

    def _expire_withheld(self, exclusions: Exclusions) -> None:
        """Dead-letter withheld entries whose time to live is over."""
        for entry in exclusions.take_expired(self.tick.now_ms):
            self.make_dead_letter(entry, EXPIRED)

    def _first(self, enough: i64) -> Entry | None:
        """The next entry to deliver; None if there is none.

        Entries before it that have expired are removed until the work meter reads `enough`. It is None if there are
        more, too, and `is_behind` is set.
        """
        first = self.store.peek()
        while first is not None and first.expires_ms != 0 and first.expires_ms < self.tick.now_ms:
            if WORK.spent >= enough:
                self.is_behind = True
                return None
            self._expired(first)
            first = self.store.peek()
        return first

    def take(self) -> Entry:
        """Acquire the next entry. The store must not be empty."""
        entry = self.store.take()
        self._bytes -= len(entry.message.body)
        if not self._is_plain_out:
            self._left(entry)
        return entry

    def remove(self, entry: Entry) -> None:
        """Take an entry out of the store, at any position."""
        self.store.remove(entry)
        self._bytes -= len(entry.message.body)
        if not self._is_plain_out:
            self._left(entry)

    def _left(self, entry: Entry) -> None:
        for feature in self._on_leaving:
            feature.left(entry)

    def _left_page(self, part: Fifo, count: int) -> None:
        self.store.left_packed(part, count)

    def left_packed(self, body_bytes: i64) -> None:
        """Update counters and features: packed entries with `body_bytes` in their bodies are no longer ready."""
        self._bytes -= body_bytes
        for feature in self._on_leaving:
            feature.page_left()

    def add_unacked(self, entry: Entry) -> None:
        """Count an entry that a client has now."""
        self.unacked += 1
        self.unacked_bytes += len(entry.message.body)

    def _remove_unacked(self, entry: Entry) -> None:
        if self._is_handing_over:
            self.touch()
        self.unacked -= 1
        self.unacked_bytes -= len(entry.message.body)

    # -- settle, reject, drop -----------------------------------------------------------------------------------

    def sent(self, entry: Entry) -> None:
        """Drop an entry of `get` that was sent to a client without acknowledgement."""
        self.got -= 1
        self.got_no_ack += 1
        self._remove_unacked(entry)
        self.drop(entry)

    def settle(self, entry: Entry) -> None:
        self.acked += 1
        self._remove_unacked(entry)
        self.drop(entry)

    def drop(self, entry: Entry) -> None:
        if not self.settles_by_page:
            self._retire(entry)
            for feature in self._on_settlement:
                feature.settled(entry)
        if entry.segment != 0:
            self.journal.settle(self.id, entry)
        elif self._survives and entry.seq >= 0:
            self._unkept_left(entry)

    def _retire(self, entry: Entry) -> None:
        for feature in self._on_settlement:
            feature.retired(entry)

    def reject(self, entry: Entry) -> None:
        entry.returns += 1
        self.dead_letter(entry)

    def dead_letter(self, entry: Entry) -> None:
        self._remove_unacked(entry)
        self.make_dead_letter(entry, REJECTED)

    def discard_unsendable(self, entry: Entry) -> None:
        self.tick.churn.unsendable += 1
        self._remove_unacked(entry)
        self.make_dead_letter(entry, OVERSIZED)

    def make_dead_letter(self, entry: Entry, reason: str) -> None:
        """Dead-letter an entry that is out of the store; without a dead letter exchange, drop it."""
        if self.settings.dead_letter_exchange is None or self.gone:
            self.drop(entry)
        else:
            self._retire(entry)
            self.tick.dead_letters.append(DeadLetter(self, entry, reason))

    # -- requeue ------------------------------------------------------------------------------------------------

    def requeue(self, entries: list[Entry]) -> None:
        self._requeue(entries, self.settings.pauses_returned, 1)

    def fail(self, entries: list[Entry]) -> None:
        self._requeue(entries, self.settings.pauses_failed, 1)

    def release(self, entries: list[Entry]) -> None:
        self._requeue(entries, self.settings.pauses_returned, 0)

    def _requeue(self, entries: list[Entry], pauses: bool, failures: i32) -> None:
        if self.gone:
            for entry in entries:
                self._remove_unacked(entry)
                self.drop(entry)
            return
        self._make_ready_again(self._after_return(entries, pauses, failures))
        self.touch()

    def _after_return(self, entries: list[Entry], pauses: bool, failures: i32) -> list[Entry]:
        """Take back entries with `failures` more failures each. Returns those that are ready again at once."""
        limit = self.settings.delivery_limit
        # Without groups only: entries behind a paused one would overtake it in its group.
        pauses = pauses and self.groups is None
        back: list[Entry] = []
        for entry in entries:
            self._remove_unacked(entry)
            if not self.settles_by_page and not self._may_return(entry):
                continue
            entry.redelivered = True
            if failures > 0:
                entry.returns += failures
                if limit >= 0 and i64(entry.returns) > limit:
                    self.make_dead_letter(entry, DELIVERY_LIMIT)
                    continue
                if limit >= 0 or pauses:
                    self.journal.returned(self.id, entry)
            if pauses:
                self.pause_entry(entry)
            else:
                back.append(entry)
        return back

    def _may_return(self, entry: Entry) -> bool:
        """Whether an acquired entry comes back. If a feature says no, the entry has left the queue."""
        return all(feature.returned(entry) for feature in self._on_settlement)

    def pause_entry(self, entry: Entry) -> None:
        """Hold an entry that came back for the pause before its retry."""
        until_ms = self.tick.now_ms + pause_ms(self.settings, max(i64(entry.returns), 1))
        # The time to live goes on during the pause, and may end it.
        self._hold(entry, until_ms if entry.expires_ms == 0 else min(until_ms, entry.expires_ms))

    def _make_ready_again(self, entries: list[Entry]) -> None:
        """Make entries ready again. Expired ones, and the oldest of a queue that is too long, are dead-lettered."""
        entries = self._unexpired(entries)
        if self.exclusions is not None:
            entries = self.exclusions.keep_back(entries)
        if self.is_guarded:
            self._make_way(len(entries), sum([len(entry.message.body) for entry in entries]))
        for feature in self._on_coming:
            entries = [entry for entry in entries if feature.ready_again(entry)]
        for entry in entries:
            entry.state = READY
            self._bytes += len(entry.message.body)
            if entry.expires_ms != 0:
                self._expire_later(entry)
        self.store.put_back(entries)
        if self.is_guarded:
            self.trim()

    def _unexpired(self, entries: list[Entry]) -> list[Entry]:
        """Return the acquired entries that have not expired, and dead-letter the others."""
        now_ms = self.tick.now_ms
        unexpired: list[Entry] = []
        for entry in entries:
            if entry.expires_ms == 0 or entry.expires_ms > now_ms:
                unexpired.append(entry)
            elif self._may_return(entry):
                self.make_dead_letter(entry, EXPIRED)
        return unexpired

    # -- exclusions ---------------------------------------------------------------------------------------------

    def requeue_excluding(self, entries: list[Entry], context: object) -> None:
        # With groups, entries behind the withheld ones would overtake them.
        if self.gone or self.groups is not None:
            self.requeue(entries)
            return
        back = self._after_return(entries, self.settings.pauses_failed, 1)
        self._excluded().withhold(back, (context,))
        self.touch()

    def exclude(self, entry: Entry, context: object) -> None:
        """Withhold an acquired entry, which is about to come back, from consumers of a context until it is gone."""
        # With groups, entries behind the withheld one would overtake it.
        if self.groups is None:
            self._excluded().exclude(entry, context)

    def _excluded(self) -> Exclusions:
        if self.exclusions is None:
            self.exclusions = Exclusions(self._exclusions_changed)
        return self.exclusions

    def _exclusions_changed(self) -> None:
        if self.exclusions is not None and self.exclusions.is_empty:
            self.exclusions = None
        self._arrange()

    def context_ended(self, context: object) -> None:
        exclusions = self.exclusions
        if exclusions is not None:
            free = exclusions.context_ended(context)
            if not self.gone and (free or exclusions.withheld_count > 0):
                self._make_ready_again(free)
                self.touch()

    # -- the end ------------------------------------------------------------------------------------------------

    def discard(self) -> None:
        """Give away all messages, and what is kept about them; ticks drop them if there are many. End browsing."""
        self.settle_replaced()
        withheld = [] if self.exclusions is None else self.exclusions.take_all()
        contents = Contents(self, self.journal, self.store, self.delays, withheld, self.dedup, self._expiry)
        if self.delays is not None:
            self.tick.timers.cancel(self.delays)
        if self.dedup is not None:
            self.tick.timers.cancel(self.dedup)
        if self._expiry is not None:
            self.tick.expiries.cancel(self._expiry)
        if self._pager is not None:
            self._pager.forget()
        view, self._view = self._view, None
        if view is not None:
            view.delete()
        if self._awaited_room is not None:
            self._tell_room()
        self.store = Fifo()
        self._bytes = 0
        self._filtered_store = self.delays = self.dedup = self._expiry = self.exclusions = None
        self._arrange()
        self.tick.begin(contents)


def entry_queue(queue: Queue, method: str) -> EntryQueue:
    """Return a queue to which a method of AMQP 0-9-1 is applied. Raises NotImplementedHere for a stream."""
    if not isinstance(queue, EntryQueue):
        raise NotImplementedHere(
            f"{method} not supported by {queue.kind} queues queue '{queue.name}' in vhost '{queue.vhost}'"
        )
    return queue
