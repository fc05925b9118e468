"""A store of ready entries that not every consumer may have, because consumers have filters, or entries have groups.

A new entry is appended to the tail without matching. When a consumer can take entries and none is offered to it, some
entries of the tail are matched, once, with the filters of all consumers. Each gets a slot in the index for the set of
consumers that it matches. Consumers are offered the first slot of each index. So an entry that matches no consumer, or
none with credit, delays only entries behind it in its index. No entry is matched again, except with consumers that
subscribe later.

Only the first entry of a group in an index is offered. While a consumer has unsettled entries of the group, the first
one is offered to that consumer alone, in an index of its own.
"""

from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final, final

from mypy_extensions import i64

from flintmq.base.limits import DISPATCH_BURST_MESSAGES, MESSAGE_WORK_UNITS
from flintmq.base.work import WORK
from flintmq.broker.message import ACQUIRED, READY, REMOVED, Entry, Message
from flintmq.broker.queue.base import Consumer
from flintmq.broker.queue.features import SETTLEMENT, Feature
from flintmq.broker.queue.groups import Group, Groups
from flintmq.broker.queue.levels import Levels
from flintmq.broker.queue.priorities import Priorities, ranked
from flintmq.broker.queue.ready import BLOCK_ENTRIES, Fifo, Ready
from flintmq.broker.queue.ready_index import DropIndex, OfferIndex, Slot
from flintmq.broker.queue.round_robin import RoundRobin

# How many entries are matched before consumers are offered the result.
_LOOK_AHEAD_ENTRIES: Final = 64
# A position before all slots.
_NOWHERE: Final = -1
# The version of an index for the groups that one consumer holds: it is never rebuilt.
_LASTING: Final = -1
# Vacated slots are removed from those to show newcomers when there are this many of them, and more than others.
_GONE_SLOTS_MAX: Final = 1024
# Empty indexes are removed when there are more of them than this, and than others.
_EMPTY_INDEXES_MAX: Final = 64

# The items of indexes that are forgotten with a block of entries of a deleted queue.
_SHED_ITEMS: Final = 4 * BLOCK_ENTRIES


@final
class _Newcomer:
    """A new filtered consumer: it must be matched with the slots from `at` to `end` before it gets anything."""

    def __init__(self, consumer: Consumer, end: i64) -> None:
        self.consumer = consumer
        self.at: i64 = 0
        self.end: i64 = end


@final
class FilteredStore(Ready, Feature):
    """A store that knows which consumers may have which entry.

    `tail` holds the entries that are not matched yet; `groups` is None without groups. `levels` are the priority levels
    of the queue. `touch` is called when consumers may get more.
    """

    def __init__(self, tail: Ready, levels: Levels, groups: Groups | None, touch: Callable[[], None]) -> None:
        super().__init__()
        self.count = tail.count
        self._tail = tail
        self._levels = levels
        self._groups = groups
        self._touch = touch
        self._slots: dict[int, Slot] = {}
        self._indexes: list[OfferIndex] = []
        self._by_members: dict[tuple[Consumer, ...], OfferIndex] = {}
        self._indexes_max: i64 = _EMPTY_INDEXES_MAX
        # The index of the groups that a consumer holds; None: clients of basic.get.
        self._own: dict[Consumer | None, OfferIndex] = {}
        # Slots in the order in which a full queue drops them; made when the first entry has to be dropped.
        self._drops: DropIndex | None = None
        # The consumers that may get entries, those of them without a filter, and the version of these lists.
        self._consumers: list[Consumer] = []
        self._plain: list[Consumer] = []
        self._version: i64 = 0
        self._filtered: list[Consumer] = []
        self._newcomers: deque[_Newcomer] = deque()
        # While there are newcomers: the slots to match them with, which are the earlier ones and those made since.
        self._shown: list[Slot] = []
        # During a dispatch: a heap of the indexes with offers, ordered by their first slots.
        self._offers: list[tuple[int, int, int, OfferIndex]] = []
        self._is_offering = False
        self._offered = 0
        self._budget: i64 = 0
        self._chosen: Slot | None = None
        # The last position among returned entries that are not matched again yet; they go before matched ones.
        self._returned_until: i64 = _NOWHERE

    # -- consumers ----------------------------------------------------------------------------------------------

    @property
    def is_needed(self) -> bool:
        """Whether consumers have filters, or the queue has groups."""
        return bool(self._filtered) or self._groups is not None

    def join(self, consumer: Consumer, consumers: list[Consumer]) -> None:
        """Add a consumer. `consumers` are all that may get entries."""
        if consumer.is_filtered:
            self._filtered.append(consumer)
            if not self._newcomers:
                self._shown = list(self._slots.values())
            if self._shown:
                self._newcomers.append(_Newcomer(consumer, len(self._shown)))
        self.serve(consumers)

    def leave(self, consumer: Consumer, consumers: list[Consumer]) -> None:
        """Remove a consumer. It keeps its groups until their entries are settled or returned."""
        if consumer in self._filtered:
            self._filtered.remove(consumer)
            self._newcomers = deque([each for each in self._newcomers if each.consumer is not consumer])
            if not self._newcomers:
                self._shown = []
            self._by_members = {}
            for index in self._indexes:
                if consumer in index.members:
                    index.members = tuple([member for member in index.members if member is not consumer])
                # Two indexes may have the same members now; the first is the home of new slots.
                self._by_members.setdefault(index.members, index)
        self._own.pop(consumer, None)
        self.serve(consumers)

    def serve(self, consumers: list[Consumer]) -> None:
        """Set the consumers that may get entries from now on."""
        self._consumers = consumers
        self._plain = [each for each in consumers if not each.is_filtered]
        self._version += 1
        self._remove_empty_indexes()

    def _round_robin(self, index: OfferIndex) -> RoundRobin:
        """The round robin of the consumers that may get the entries of an index."""
        if index.version != self._version and index.version != _LASTING:
            index.version = self._version
            late = [newcomer.consumer for newcomer in self._newcomers]
            filtered = [each for each in index.members if each not in late and self._may_have(each)]
            index.round_robin = RoundRobin(sorted([*self._plain, *filtered], key=_precedence))
        return index.round_robin

    def _may_have(self, consumer: Consumer) -> bool:
        """Whether a consumer may get entries; False while another one is the single active consumer."""
        return len(self._consumers) > 1 or consumer in self._consumers

    def _remove_empty_indexes(self) -> None:
        self._indexes = [index for index in self._indexes if index.size > 0]
        self._indexes_max = 2 * len(self._indexes) + _EMPTY_INDEXES_MAX
        self._by_members = {}
        for index in self._indexes:
            self._by_members.setdefault(index.members, index)

    def _index(self, members: tuple[Consumer, ...]) -> OfferIndex:
        found = self._by_members.get(members)
        if found is None:
            if len(self._indexes) >= self._indexes_max:
                self._remove_empty_indexes()
            found = OfferIndex(members)
            self._indexes.append(found)
            self._by_members[members] = found
        return found

    def _own_index(self, consumer: Consumer | None) -> OfferIndex | None:
        """The index of the groups that a consumer holds, made if need be; None if the consumer has unsubscribed."""
        found = self._own.get(consumer)
        if found is None and (consumer is None or consumer in self._consumers):
            found = OfferIndex(())
            found.version = _LASTING
            if consumer is not None:
                found.round_robin = RoundRobin([consumer])
            self._own[consumer] = found
        return found

    # -- slots --------------------------------------------------------------------------------------------------

    def _add_slot(self, entry: Entry) -> None:
        """Match an entry with the filters of all consumers, and give it a slot."""
        message = entry.message
        members = self._members(message)
        group = self._groups.find(entry) if self._groups is not None else None
        slot = Slot(entry, -self._levels.of(message.options), self._index(members), group)
        slot.home.size += 1
        self._slots[int(entry.seq)] = slot
        if self._newcomers:
            self._show(slot)
        if self._drops is not None:
            self._drops.push(slot, -slot.rank)
        if group is None:
            self._offer(slot, slot.home)
        else:
            group.waiting += 1
            group.push(slot)
            self._offer_first(group)

    def _members(self, message: Message) -> tuple[Consumer, ...]:
        """The filtered consumers that a message matches. A condition that exceeds the limit of work is unknown."""
        before = WORK.begin(MESSAGE_WORK_UNITS)
        try:
            return tuple([consumer for consumer in self._filtered if consumer.matches(message)])
        finally:
            WORK.end(before)

    def _matches(self, message: Message, consumer: Consumer) -> bool:
        before = WORK.begin(MESSAGE_WORK_UNITS)
        try:
            return consumer.matches(message)
        finally:
            WORK.end(before)

    def _show(self, slot: Slot) -> None:
        """Add a slot to those that later newcomers are matched with."""
        shown = self._shown
        shown.append(slot)
        if len(shown) > 2 * len(self._slots) + _GONE_SLOTS_MAX:
            kept: list[Slot] = []
            moved: list[int] = []
            for each in shown:
                moved.append(len(kept))
                if each.is_here:
                    kept.append(each)
            moved.append(len(kept))
            for newcomer in self._newcomers:
                newcomer.at = moved[newcomer.at]
                newcomer.end = moved[newcomer.end]
            self._shown = kept

    def _offer(self, slot: Slot, index: OfferIndex) -> None:
        slot.offer = index
        index.push(slot, slot.rank)
        if self._is_offering and index.first() is slot:
            self._list(index, slot)

    def _list(self, index: OfferIndex, first: Slot) -> None:
        self._offered += 1
        heappush(self._offers, (int(first.rank), int(first.entry.position), self._offered, index))

    def _offer_first(self, group: Group) -> None:
        """Offer the first entry of each sequence of a group, and no other, to the consumers that may have it now."""
        has_ended = False
        for sequence in group.sequences:
            first = sequence.first()
            before = sequence.offered
            if before is not None and before is not first:
                if before.home is sequence.home:
                    before.offer = None
                sequence.offered = None
            if first is None:
                has_ended = True
                continue
            sequence.offered = first
            index = self._index_for(group, sequence.home)
            if index is None:
                first.offer = None
            elif first.offer is not index:
                self._offer(first, index)
        if has_ended:
            group.sequences = [sequence for sequence in group.sequences if sequence.offered is not None]

    def _index_for(self, group: Group, home: OfferIndex) -> OfferIndex | None:
        """The index to offer an entry of a group in; None if the holder of the group may not have the entry."""
        if group.held == 0:
            return home
        holder = group.holder
        if holder is not None and holder.is_filtered and holder not in home.members:
            return None
        return self._own_index(holder)

    def _remove_slot(self, slot: Slot) -> None:
        """Remove the slot of an entry that leaves, and offer the next entry of its group."""
        del self._slots[int(slot.entry.seq)]
        slot.is_here = False
        slot.offer = None
        slot.home.size -= 1
        self.count -= 1
        group = slot.group
        if group is not None:
            group.waiting -= 1
            self._offer_first(group)

    def _move(self, slot: Slot, index: OfferIndex) -> None:
        slot.home.size -= 1
        slot.home = index
        index.size += 1
        group = slot.group
        if group is None:
            self._offer(slot, index)
        else:
            slot.offer = None
            group.push(slot)
            self._offer_first(group)

    # -- what a store does --------------------------------------------------------------------------------------

    def append(self, entry: Entry) -> None:
        self._tail = ranked(self._tail, entry, self._levels)
        self._tail.append(entry)
        self.count += 1

    def peek(self) -> Entry | None:
        """The next entry for basic.get, which gets nothing of groups that consumers hold."""
        slot = self._first_for_get()
        return None if slot is None else slot.entry

    def _first_for_get(self) -> Slot | None:
        """The first slot for basic.get. None if there is none among as many entries as one dispatch may match.

        The next call matches further ones.
        """
        self._budget = DISPATCH_BURST_MESSAGES
        self._match_returned()
        while True:
            best: Slot | None = None
            own = self._own.get(None)
            for index in self._indexes if own is None else [*self._indexes, own]:
                slot = index.first()
                if slot is not None and (best is None or _order(slot) < _order(best)):
                    best = slot
            if best is not None and self._is_overtaking(best):
                # The next call matches further entries.
                return None
            if self._budget <= 0 or not self._tail_goes_before(best):
                return best
            self._match_tail(_LOOK_AHEAD_ENTRIES)

    def _tail_goes_before(self, best: Slot | None) -> bool:
        """Whether the tail may have an entry that goes before the best of all slots."""
        if best is None:
            return self._tail.count > 0
        first = self._tail.peek() if self._is_ranked() else None
        return first is not None and -self._levels.of(first.message.options) < best.rank

    def _is_ranked(self) -> bool:
        """Whether the tail has priorities, so that some of its entries may go before all slots."""
        return isinstance(self._tail, Priorities)

    def take(self) -> Entry:
        slot = self._first_for_get()
        assert slot is not None
        return self._take(slot, None, False)

    def _take(self, slot: Slot, holder: Consumer | None, no_ack: bool) -> Entry:
        entry = slot.entry
        group = slot.group
        if group is not None and self._groups is not None and not no_ack:
            self._groups.hold(group, entry, holder)
        self._remove_slot(slot)
        if group is not None and self._groups is not None:
            self._groups.forget_unused(group)
        entry.state = ACQUIRED
        return entry

    def hears(self) -> int:
        return 0 if self._groups is None else SETTLEMENT

    def returned(self, entry: Entry) -> bool:
        self._release_group(entry)
        return True

    def retired(self, entry: Entry) -> None:
        self._release_group(entry)

    def _release_group(self, entry: Entry) -> None:
        """Note that an entry is no longer acquired: other consumers may get its group now."""
        group = None if self._groups is None else self._groups.release(entry)
        if group is not None:
            self._offer_first(group)
            if group.waiting > 0:
                self._touch()

    def drop_candidate(self) -> Entry | None:
        if self._drops is None:
            self._drops = DropIndex()
            for slot in self._slots.values():
                self._drops.push(slot, -slot.rank)
        first = self._drops.first()
        last = self._tail.drop_candidate()
        if first is None or last is None:
            return last if first is None else first.entry
        return last if self._levels.of(last.message.options) < -first.rank else first.entry

    def put_back(self, entries: list[Entry]) -> None:
        self.count += len(entries)
        tail = self._tail
        behind: list[Entry] = []
        spent: i64 = WORK.spent
        for entry in entries:
            first = tail.first_in_line(entry)
            if first is not None and first.position < entry.position:
                # The entry must not overtake older ones in the tail.
                behind.append(entry)
            elif WORK.spent - spent > DISPATCH_BURST_MESSAGES:
                # Matching all of them here takes too long: later dispatches go on.
                self._returned_until = max(self._returned_until, entry.position)
                behind.append(entry)
            else:
                self._add_slot(entry)
        if behind:
            tail.put_back(behind)

    def remove(self, entry: Entry) -> None:
        slot = self._slots.get(int(entry.seq))
        if slot is None:
            self._tail.remove(entry)
            self.count -= 1
            return
        self._remove_slot(slot)
        if slot.group is not None and self._groups is not None:
            self._groups.forget_unused(slot.group)
        entry.state = REMOVED

    def shed(self) -> list[Entry]:
        slots = self._slots
        found = [slots.popitem()[1].entry for _ in range(min(BLOCK_ENTRIES, len(slots)))]
        # The indexes have a few times as many items, because slots that have left stay in them for a while.
        left = _SHED_ITEMS
        while self._indexes and left > 0:
            left -= self._indexes[-1].shed(left)
            if left > 0:
                self._indexes.pop()
        if not found:
            found = self._tail.shed()
        self.count -= len(found)
        return found

    def entries(self) -> list[Entry]:
        return [slot.entry for slot in sorted(self._slots.values(), key=_order)] + self._tail.entries()

    def loose(self) -> list[Entry]:
        return [slot.entry for slot in self._slots.values()]

    @property
    def loose_count(self) -> int:
        return len(self._slots)

    def parts(self) -> list[Fifo]:
        return self._tail.parts()

    def left_packed(self, part: Fifo, count: i64) -> None:
        self.count -= count
        self._tail.left_packed(part, count)

    def ordinary(self) -> Ready | None:
        """Make an ordinary store of all entries. None while that would take too long."""
        if len(self._slots) > DISPATCH_BURST_MESSAGES:
            return None
        self._tail.put_back([slot.entry for slot in self._slots.values()])
        return self._tail

    # -- dispatch -----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin a dispatch. Call `choose` and `take_chosen` until there is nothing to choose, then `end`."""
        self._budget = DISPATCH_BURST_MESSAGES
        self._offers = []
        self._is_offering = True
        self._introduce()
        if self._can_take():
            self._match_returned()
        for index in self._indexes:
            self._begin_with(index)
        for index in self._own.values():
            self._begin_with(index)
        heapify(self._offers)
        if self._is_ranked() and self.is_needed and self._can_take():
            self._match_tail(self._budget)

    def _begin_with(self, index: OfferIndex) -> None:
        if self._round_robin(index).consumers:
            first = index.first()
            if first is not None:
                self._offered += 1
                self._offers.append((int(first.rank), int(first.entry.position), self._offered, index))

    def end(self) -> bool:
        """End a dispatch. Returns True if entries wait to be matched that some consumer may want."""
        self._is_offering = False
        self._offers = []
        return bool(self._newcomers) or (self._budget <= 0 and self._tail.count > 0 and self._can_take())

    def _can_take(self) -> bool:
        return any(consumer.can_take() for consumer in self._consumers)

    def _introduce(self) -> None:
        """Match newcomers with the earlier slots, with half of the budget of this dispatch."""
        least = self._budget // 2
        while self._newcomers and self._budget > least:
            newcomer = self._newcomers[0]
            consumer = newcomer.consumer
            while newcomer.at < newcomer.end and self._budget > least:
                slot = self._shown[newcomer.at]
                newcomer.at += 1
                spent: i64 = WORK.spent
                if slot.is_here and self._matches(slot.entry.message, consumer):
                    self._move(slot, self._index((*slot.home.members, consumer)))
                self._budget -= 1 + WORK.spent - spent
            if newcomer.at == newcomer.end:
                self._newcomers.popleft()
                self._version += 1
        if not self._newcomers:
            self._shown = []

    def _match_tail(self, most: i64) -> None:
        """Match entries of the tail and give them slots, with at most `most` units of the budget."""
        tail = self._tail
        left = most
        while left > 0 and tail.count > 0:
            spent: i64 = WORK.spent
            entry = tail.take()
            entry.state = READY
            self._add_slot(entry)
            left -= 1 + WORK.spent - spent
        self._budget -= most - left

    def _match_returned(self) -> None:
        """Match returned entries first, because they go before those that have slots already."""
        while self._returned_until != _NOWHERE and self._budget > 0:
            first = self._tail.peek()
            if first is None or first.position > self._returned_until:
                self._returned_until = _NOWHERE
            else:
                self._match_tail(min(_LOOK_AHEAD_ENTRIES, self._budget))

    def _is_overtaking(self, slot: Slot) -> bool:
        """Whether a returned entry goes before this slot, and has not been matched again yet."""
        if self._returned_until == _NOWHERE:
            return False
        first = self._tail.peek()
        return first is not None and first.position < slot.entry.position

    def choose(self) -> Consumer | None:
        """The consumer that gets an entry next; None if there is none."""
        while True:
            found = self._choose_offered()
            if found is not None:
                return found
            if self._budget <= 0 or self._tail.count == 0 or not self._can_take():
                return None
            self._match_tail(min(_LOOK_AHEAD_ENTRIES, self._budget))

    def _choose_offered(self) -> Consumer | None:
        offers = self._offers
        while offers:
            rank, position, offered, index = offers[0]
            slot = index.first()
            if slot is None:
                heappop(offers)
                continue
            if slot.rank != rank or slot.entry.position != position:
                heapreplace(offers, (int(slot.rank), int(slot.entry.position), offered, index))
                continue
            if self._is_overtaking(slot):
                return None
            entry = slot.entry
            consumer = self._round_robin(index).next_consumer(entry.message, entry.avoid)
            if consumer is None:
                # No consumer can take the entries behind it either, as long as this dispatch lasts.
                heappop(offers)
                continue
            self._chosen = slot
            return consumer
        return None

    def take_chosen(self, consumer: Consumer) -> Entry:
        slot = self._chosen
        assert slot is not None
        self._chosen = None
        return self._take(slot, consumer, consumer.no_ack)

    def would_take(self, message: Message) -> bool:
        """Whether a consumer would get this message now. Call it after a dispatch that left nothing to deliver."""
        entry = Entry(message, 0)
        group = self._groups.known(entry) if self._groups is not None else None
        if group is not None and group.waiting > 0:
            return False
        for consumer in self._consumers:
            if group is not None and group.held > 0 and group.holder is not consumer:
                continue
            if consumer.would_take(message):
                return True
        return False


def _precedence(consumer: Consumer) -> int:
    return -int(consumer.priority)


def _order(slot: Slot) -> tuple[int, int]:
    return int(slot.rank), int(slot.entry.position)
