"""The classic queue: it delivers each entry, in order, to one consumer. Quorum queues are the same here.

This module has its consumers and its dispatch. `admission.py` decides which messages it takes, and `entries.py` has the
life of its entries.
"""

from typing import final

from mypy_extensions import i64

from flintmq.base.errors import InternalError, PreconditionFailed, StorageError
from flintmq.base.limits import ASKED_CONSUMERS_PER_UNIT, ASKING_WORK_UNITS, BEHIND_MESSAGES, CREDIT_MS, STEP_UNITS
from flintmq.base.work import WORK
from flintmq.broker.message import UNSENDABLE, Entry, Message, Table
from flintmq.broker.ports import Journal
from flintmq.broker.queue.admission import admit
from flintmq.broker.queue.base import Consumer, Queue
from flintmq.broker.queue.browse import View
from flintmq.broker.queue.entries import EntryQueue
from flintmq.broker.queue.exclusions import Exclusions
from flintmq.broker.queue.filtered_store import FilteredStore
from flintmq.broker.queue.round_robin import RoundRobin
from flintmq.broker.tick import EXPIRED, Tick


@final
class ClassicQueue(EntryQueue):
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
        ranks_all: bool = False,
    ) -> None:
        super().__init__(queue_id, vhost, name, kind, durable, auto_delete, owner, arguments, tick, journal, ranks_all)
        self._round_robin = RoundRobin(self.consumers)
        # Until then, publishers outrun the consumers, unless the backlog becomes shorter (Unix time in ms).
        self._outrun_until_ms: i64 = 0
        self.configure(arguments)

    def configure(self, effective: Table) -> None:
        super().configure(effective)
        if self.groups is not None:
            self._filter()

    def admit(self, message: Message) -> int:
        if self._outrun_until_ms != 0:
            if self.tick.now_ms < self._outrun_until_ms and self.store.count > self.tick.dispatch.backlog_max:
                self.tick.dispatch.overrun += 1
            else:
                self._outrun_until_ms = 0
                self.is_guarded = self.settings.is_guarding
        return admit(self, message)

    # -- consumers ----------------------------------------------------------------------------------------------

    def subscribe(self, consumer: Consumer, arguments: Table) -> None:
        if consumer.is_filtered:
            self._check_asking(consumer)
        super().subscribe(consumer, arguments)
        self._round_robin.rank()
        if self.settings.single_active and self.consumers[0].is_late:
            # The active consumer became late when no other waited: it makes room for this one now.
            self.lateness_changed(consumer)
        self._check_handover()
        if self._filtered_store is not None or consumer.is_filtered:
            self._filter().join(consumer, self._served())

    def unsubscribe(self, consumer: Consumer) -> None:
        is_known = consumer in self.consumers
        super().unsubscribe(consumer)
        self._round_robin.rank()
        self._check_handover()
        if self._filtered_store is not None and is_known:
            self._filtered_store.leave(consumer, self._served())
            self._unfilter(self._filtered_store)

    def _check_asking(self, coming: Consumer) -> None:
        """Check the cost of filters. Raises PreconditionFailed if matching one message with all takes too much work."""
        cost = coming.matching_cost
        for consumer in self.consumers:
            cost += consumer.matching_cost
        if cost > ASKING_WORK_UNITS:
            raise PreconditionFailed(
                f"queue '{self.name}' in vhost '{self.vhost}' would compare each message with more selectors of "
                f"consumers, or longer ones, than {ASKING_WORK_UNITS} units of work allow: bind several queues with "
                "selectors instead"
            )

    def _served(self) -> list[Consumer]:
        """The consumers that entries may be delivered to."""
        if self._is_handing_over:
            return []
        return self.consumers[:1] if self.settings.single_active else self.consumers

    def _check_handover(self) -> None:
        """Decide whether to hand over: a quorum queue activates a waiting consumer of higher priority (RabbitMQ)."""
        consumers = self.consumers
        self._is_handing_over = (
            self.kind == "quorum"
            and self.settings.single_active
            and len(consumers) > 1
            and consumers[0].priority < consumers[1].priority
            and not consumers[1].is_late
        )

    def lateness_changed(self, consumer: Consumer) -> None:
        """Replace a single active consumer that is late by a waiting one that is not, whatever their priorities.

        Otherwise no consumer would get the entries that it gave back before it settles (RabbitMQ, for quorum queues).
        """
        consumers = self.consumers
        if self.settings.single_active and len(consumers) > 1 and consumer in consumers:
            active = consumers[0]
            consumers.remove(consumer)
            if consumer is not active:
                self._insert_consumer(consumer, 0 if active.is_late and not consumer.is_late else 1)
            elif consumer.is_late and not consumers[0].is_late:
                self._insert_consumer(consumer, 1)
            else:
                consumers.insert(0, consumer)
            self._check_handover()
            if consumers[0] is not active:
                self._active_changed(active)
        super().lateness_changed(consumer)

    def _hand_over_to_next(self) -> None:
        """Hand over once the active consumer has settled all its deliveries, so that no message overtakes another."""
        consumers = self.consumers
        before = consumers[0]
        if before.holds_any():
            return
        del consumers[0]
        self._insert_consumer(before, 1)
        self._is_handing_over = False
        self._active_changed(before)

    def _active_changed(self, before: Consumer) -> None:
        """Tell consumers that the single active consumer has changed; `before` was it until now."""
        before.stood_down()
        self.consumers[0].took_over()
        if self._filtered_store is not None:
            self._filtered_store.serve(self._served())

    def _filter(self) -> FilteredStore:
        """Change to a filtered store: from now on, not every consumer may have every entry."""
        store = self._filtered_store
        if store is None:
            store = FilteredStore(self.store, self.levels, self.groups, self.touch)
            # The present consumers have no filters.
            store.serve(self._served())
            self._filtered_store = store
            self.store = store
            self._arrange()
        return store

    def _unfilter(self, store: FilteredStore) -> None:
        """Change back to an ordinary store if no consumer has a filter, as soon as little has to be moved."""
        if not store.is_needed:
            ordinary = store.ordinary()
            if ordinary is not None:
                self._filtered_store = None
                self.store = ordinary
                self._arrange()

    # -- browsers -----------------------------------------------------------------------------------------------

    def view(self) -> Queue:
        """Return the view that browsers consume from, and make it if there is none."""
        if self._view is None:
            self._view = View(self, self._keep_in_memory, self._browsed)
            self._arrange()
        return self._view

    def _browsed(self) -> None:
        self._view = None
        if self._pager is not None and self._values is None:
            self._pager.is_on = True
        self._arrange()

    # -- dispatch -----------------------------------------------------------------------------------------------

    def dispatch(self) -> bool:
        before: i64 = self.delivered + self.delivered_no_ack
        try:
            more = self._dispatch()
        except InternalError as error:
            # The next entry cannot be read back into memory.
            for consumer in list(self.consumers):
                consumer.failed(StorageError(str(error)))
            return False
        taken: i64 = self.delivered + self.delivered_no_ack - before
        if taken > 0 and self.store.count > BEHIND_MESSAGES:
            self._fell_behind(taken)
        return more

    def _dispatch(self) -> bool:
        consumers = self.consumers
        if self._is_handing_over:
            self._hand_over_to_next()
            if self._is_handing_over:
                return False
        if not consumers or self.settings.paused:
            return False
        exclusions = self.exclusions
        if exclusions is not None and exclusions.withheld_count > 0:
            self._expire_withheld(exclusions)
            if self._offer_withheld(exclusions):
                # Entries behind the withheld ones must not overtake them.
                return True
        if self._filtered_store is not None:
            return self._dispatch_filtered(self._filtered_store)
        if len(consumers) == 1 or self.settings.single_active:
            return self._dispatch_to(consumers[0])
        burst: i64 = self.tick.dispatch.burst
        enough: i64 = WORK.spent + STEP_UNITS
        while burst > 0:
            first = self._first(enough)
            if first is None:
                # Either nothing is left, or entries that have expired: the next dispatch continues with them.
                return self.store.count > 0
            consumer = self._round_robin.next_consumer(first.message, first.avoid)
            if consumer is None:
                return False
            self._deliver_next(consumer)
            burst -= 1
        return True

    def _dispatch_to(self, consumer: Consumer) -> bool:
        burst: i64 = self.tick.dispatch.burst
        enough: i64 = WORK.spent + STEP_UNITS
        while burst > 0:
            if self.store.count == 0 or not consumer.can_take():
                return False
            if consumer.has_byte_window or self._expiry is not None:
                first = self._first(enough)
                if first is None:
                    return self.store.count > 0
                if consumer.has_byte_window and not consumer.is_within_window(first.message):
                    return False
            self._deliver_next(consumer)
            burst -= 1
        return True

    def _fell_behind(self, taken: i64) -> None:
        """Note that the queue has many messages although consumers took `taken` of them in this dispatch."""
        dispatch = self.tick.dispatch
        dispatch.is_behind = True
        if self.store.count > dispatch.backlog_max:
            dispatch.taken += taken
            self._outrun_until_ms = self.tick.now_ms + CREDIT_MS
            self.is_guarded = True

    def _offer_withheld(self, exclusions: Exclusions) -> bool:
        """Offer withheld entries to consumers that may have them. Returns True if the next dispatch must go on."""
        takers = [consumer for consumer in self._served() if consumer.can_take()]
        if exclusions.offer(takers, self._hand_over):
            return True
        if takers and exclusions.is_missed:
            # The rest is offered in the next tick, so that entries behind them do not wait while consumers come and go.
            self.touch()
        return False

    def _dispatch_filtered(self, store: FilteredStore) -> bool:
        burst: i64 = self.tick.dispatch.burst
        store.begin()
        try:
            while burst > 0:
                consumer = store.choose()
                if consumer is None:
                    break
                entry = store.take_chosen(consumer)
                burst -= 1
                self._bytes -= len(entry.message.body)
                if not self._is_plain_out:
                    self._left(entry)
                if entry.expires_ms != 0 and entry.expires_ms < self.tick.now_ms:
                    # The entry expired while it was in a page.
                    self.make_dead_letter(entry, EXPIRED)
                    continue
                self._hand_over(entry, consumer)
        finally:
            more = store.end()
        self._unfilter(store)
        return more or burst == 0

    def takes_at_once(self, message: Message) -> bool:
        WORK.spent += len(self.consumers) // ASKED_CONSUMERS_PER_UNIT
        if self.catch_up() or self.settings.paused:
            return False
        if message.options.held_until_ms(self.tick.now_ms) > self.tick.now_ms:
            return False
        if self._filtered_store is not None:
            return self._filtered_store.would_take(message)
        return self.store.count == 0 and any(consumer.would_take(message) for consumer in self._served())

    def _deliver_next(self, consumer: Consumer) -> None:
        self._hand_over(self.take(), consumer)

    def _hand_over(self, entry: Entry, consumer: Consumer) -> None:
        entry.avoid = None
        if entry.redelivered:
            self.redelivered += 1
        consumer.deliver(self, entry)
        if entry.state == UNSENDABLE:
            self.add_unacked(entry)
            self.discard_unsendable(entry)
            return
        if not consumer.no_ack:
            self.delivered += 1
            self.add_unacked(entry)
            return
        self.delivered_no_ack += 1
        if entry.segment != 0 or not self.settles_by_page:
            self.drop(entry)
        elif self._survives:
            self._unkept_left(entry)


def view_of(queue: Queue) -> Queue:
    """Return the view that browsers of a queue consume from. Raises PreconditionFailed for a stream."""
    if not isinstance(queue, ClassicQueue):
        raise PreconditionFailed(
            f"invalid arg 'x-browse' for queue '{queue.name}' in vhost '{queue.vhost}' of queue type {queue.kind}"
        )
    return queue.view()
