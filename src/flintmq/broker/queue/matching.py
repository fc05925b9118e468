"""Ready entries that not every consumer is to have: those of choosy consumers, and those of message groups.

What comes goes to the tail, unlooked at. When a consumer could take something and nothing is on offer for it, entries
from there are asked, once, which choosy consumers they suit, and get their place in the bucket of these. Consumers find
the first of each bucket, so an entry that nobody suits, or nobody has credit for, holds up none but those behind it
in its bucket; and no entry is asked again, but for a consumer that came later.

Of a group's entries in one bucket the first alone is on offer. While somebody has unsettled entries of the group it is
on offer to that consumer only, in a bucket of its own.
"""

from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final, final

from mypy_extensions import i64

from flintmq.base.limits import DISPATCH_BURST_MESSAGES, MESSAGE_WORK_UNITS
from flintmq.base.work import WORK
from flintmq.broker.message import ACQUIRED, READY, REMOVED, Entry, Message
from flintmq.broker.queue.consumer import Consumer
from flintmq.broker.queue.features import SETTLEMENT, Feature
from flintmq.broker.queue.groups import Group, Groups
from flintmq.broker.queue.lanes import Bucket, Place, Present
from flintmq.broker.queue.levels import Levels
from flintmq.broker.queue.ready import Fifo, Priorities, Ready, ranked
from flintmq.broker.queue.round_robin import RoundRobin

# Entries looked at before consumers are offered what was found.
_LOOK_AHEAD_ENTRIES: Final = 64
# Before all places.
_NOWHERE: Final = -1
# The version of buckets that are one consumer's own.
_LASTING: Final = -1
# Places that are gone are shown to newcomers no more when there are more of them than this, and than others.
_GONE_PLACES_MAX: Final = 1024
# Empty buckets are let go of when there are more of them than this, and than others.
_EMPTY_BUCKETS_MAX: Final = 64


@final
class _Newcomer:
    """A choosy consumer that is yet to see the places from `at` up to `end`, and gets nothing until it has."""

    def __init__(self, consumer: Consumer, end: i64) -> None:
        self.consumer = consumer
        self.at: i64 = 0
        self.end: i64 = end


@final
class Matching(Ready, Feature):
    """`tail` has what was not looked at; `levels` are priorities that count; `groups` is None where there are none.

    `touch` is called when consumers may be given more.
    """

    def __init__(self, tail: Ready, levels: Levels, groups: Groups | None, touch: Callable[[], None]) -> None:
        super().__init__()
        self.count = tail.count
        self._tail = tail
        self._levels = levels
        self._groups = groups
        self._touch = touch
        self._places: dict[int, Place] = {}
        self._buckets: list[Bucket] = []
        self._by_members: dict[tuple[Consumer, ...], Bucket] = {}
        self._buckets_max: i64 = _EMPTY_BUCKETS_MAX
        # What consumers are offered of the groups they hold; None stands for basic.get.
        self._own: dict[Consumer | None, Bucket] = {}
        # Made when the first entry has to be dropped: places by the order in which that is done.
        self._drops: Present | None = None
        # All that may be given something; those of them that are not choosy; and the version of this.
        self._consumers: list[Consumer] = []
        self._plain: list[Consumer] = []
        self._version: i64 = 0
        self._choosy: list[Consumer] = []
        self._newcomers: deque[_Newcomer] = deque()
        # What these are shown, while there are any: all places there were, and those made since.
        self._shown: list[Place] = []
        # While entries are given out: the buckets that have something, by the first of it.
        self._offers: list[tuple[int, int, int, Bucket]] = []
        self._is_offering = False
        self._offered = 0
        self._budget: i64 = 0
        self._chosen: Place | None = None
        # The last place of what came back and was not looked at again; it goes before what has been.
        self._returned_until: i64 = _NOWHERE

    # -- consumers ----------------------------------------------------------------------------------------------

    @property
    def is_needed(self) -> bool:
        """Whether an ordinary store would not do."""
        return bool(self._choosy) or self._groups is not None

    def join(self, consumer: Consumer, consumers: list[Consumer]) -> None:
        """A consumer came; `consumers` are all that may be given something."""
        if consumer.is_filtered:
            self._choosy.append(consumer)
            if not self._newcomers:
                self._shown = list(self._places.values())
            if self._shown:
                self._newcomers.append(_Newcomer(consumer, len(self._shown)))
        self.serve(consumers)

    def leave(self, consumer: Consumer, consumers: list[Consumer]) -> None:
        """A consumer went; what it holds of groups it holds until that is settled or comes back."""
        if consumer in self._choosy:
            self._choosy.remove(consumer)
            self._newcomers = deque([each for each in self._newcomers if each.consumer is not consumer])
            if not self._newcomers:
                self._shown = []
            self._by_members = {}
            for bucket in self._buckets:
                if consumer in bucket.members:
                    bucket.members = tuple([member for member in bucket.members if member is not consumer])
                # Two buckets may have the same members from now on; new places are at home in the first.
                self._by_members.setdefault(bucket.members, bucket)
        self._own.pop(consumer, None)
        self.serve(consumers)

    def serve(self, consumers: list[Consumer]) -> None:
        """These may be given something from now on."""
        self._consumers = consumers
        self._plain = [each for each in consumers if not each.is_filtered]
        self._version += 1
        self._let_go_of_empty()

    def _round_robin(self, bucket: Bucket) -> RoundRobin:
        """The consumers that may have what is in a bucket."""
        if bucket.version != self._version and bucket.version != _LASTING:
            bucket.version = self._version
            late = [newcomer.consumer for newcomer in self._newcomers]
            choosy = [each for each in bucket.members if each not in late and self._may_have(each)]
            bucket.turns = RoundRobin(sorted([*self._plain, *choosy], key=_precedence))
        return bucket.turns

    def _may_have(self, consumer: Consumer) -> bool:
        """False for one that waits while another is the single active one."""
        return len(self._consumers) > 1 or consumer in self._consumers

    def _let_go_of_empty(self) -> None:
        self._buckets = [bucket for bucket in self._buckets if bucket.size > 0]
        self._buckets_max = 2 * len(self._buckets) + _EMPTY_BUCKETS_MAX
        self._by_members = {}
        for bucket in self._buckets:
            self._by_members.setdefault(bucket.members, bucket)

    def _bucket(self, members: tuple[Consumer, ...]) -> Bucket:
        found = self._by_members.get(members)
        if found is None:
            if len(self._buckets) >= self._buckets_max:
                self._let_go_of_empty()
            found = Bucket(members)
            self._buckets.append(found)
            self._by_members[members] = found
        return found

    def _own_bucket(self, consumer: Consumer | None) -> Bucket | None:
        """What a consumer is offered of its groups; None for one that has gone."""
        found = self._own.get(consumer)
        if found is None and (consumer is None or consumer in self._consumers):
            found = Bucket(())
            found.version = _LASTING
            if consumer is not None:
                found.turns = RoundRobin([consumer])
            self._own[consumer] = found
        return found

    # -- places -------------------------------------------------------------------------------------------------

    def _settle_in(self, entry: Entry) -> None:
        """Find out whom an entry suits, and give it its place."""
        message = entry.message
        members = self._members(message)
        group = self._groups.find(entry) if self._groups is not None else None
        place = Place(entry, -self._levels.of(message.options), self._bucket(members), group)
        place.home.size += 1
        self._places[int(entry.seq)] = place
        if self._newcomers:
            self._show(place)
        if self._drops is not None:
            self._drops.push(place, -place.rank)
        if group is None:
            self._offer(place, place.home)
        else:
            group.waiting += 1
            group.push(place)
            self._offer_first(group)

    def _members(self, message: Message) -> tuple[Consumer, ...]:
        """The choosy consumers that it suits; what is asked beyond the limit of a message's work is unknown."""
        before = WORK.begin(MESSAGE_WORK_UNITS)
        try:
            return tuple([consumer for consumer in self._choosy if consumer.matches(message)])
        finally:
            WORK.end(before)

    def _is_suited(self, message: Message, consumer: Consumer) -> bool:
        before = WORK.begin(MESSAGE_WORK_UNITS)
        try:
            return consumer.matches(message)
        finally:
            WORK.end(before)

    def _show(self, place: Place) -> None:
        """Newcomers that come after this place have to see it."""
        shown = self._shown
        shown.append(place)
        if len(shown) > 2 * len(self._places) + _GONE_PLACES_MAX:
            kept: list[Place] = []
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

    def _offer(self, place: Place, bucket: Bucket) -> None:
        place.offer = bucket
        bucket.push(place, place.rank)
        if self._is_offering and bucket.first() is place:
            self._list(bucket, place)

    def _list(self, bucket: Bucket, first: Place) -> None:
        self._offered += 1
        heappush(self._offers, (int(first.rank), int(first.entry.position), self._offered, bucket))

    def _offer_first(self, group: Group) -> None:
        """Offer the first entry of each of a group's sequences to whoever may have it now, and no other."""
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
            bucket = self._bucket_for(group, sequence.home)
            if bucket is None:
                first.offer = None
            elif first.offer is not bucket:
                self._offer(first, bucket)
        if has_ended:
            group.sequences = [sequence for sequence in group.sequences if sequence.offered is not None]

    def _bucket_for(self, group: Group, home: Bucket) -> Bucket | None:
        """Where an entry with this home is offered, as far as its group is to be had."""
        if group.held == 0:
            return home
        holder = group.holder
        if holder is not None and holder.is_filtered and holder not in home.members:
            return None
        return self._own_bucket(holder)

    def _vacate(self, place: Place) -> None:
        """An entry leaves: what is behind it in its group comes to the front."""
        del self._places[int(place.entry.seq)]
        place.is_here = False
        place.offer = None
        place.home.size -= 1
        self.count -= 1
        group = place.group
        if group is not None:
            group.waiting -= 1
            self._offer_first(group)

    def _move(self, place: Place, bucket: Bucket) -> None:
        place.home.size -= 1
        place.home = bucket
        bucket.size += 1
        group = place.group
        if group is None:
            self._offer(place, bucket)
        else:
            place.offer = None
            group.push(place)
            self._offer_first(group)

    # -- what a store does --------------------------------------------------------------------------------------

    def append(self, entry: Entry) -> None:
        self._tail = ranked(self._tail, entry, self._levels)
        self._tail.append(entry)
        self.count += 1

    def peek(self) -> Entry | None:
        """What basic.get may have: nothing of a group that a consumer holds."""
        place = self._first_for_get()
        return None if place is None else place.entry

    def _first_for_get(self) -> Place | None:
        """None where as much as a dispatch may look at has nothing; the next one looks further."""
        self._budget = DISPATCH_BURST_MESSAGES
        self._look_at_returned()
        while True:
            best: Place | None = None
            own = self._own.get(None)
            for bucket in self._buckets if own is None else [*self._buckets, own]:
                place = bucket.first()
                if place is not None and (best is None or _order(place) < _order(best)):
                    best = place
            if best is not None and self._is_overtaking(best):
                # Whoever asks again looks further.
                return None
            if self._budget <= 0 or not self._tail_goes_before(best):
                return best
            self._look_at(_LOOK_AHEAD_ENTRIES)

    def _tail_goes_before(self, best: Place | None) -> bool:
        """Whether the tail may have something to be had before the best of all places."""
        if best is None:
            return self._tail.count > 0
        first = self._tail.peek() if self._is_ranked() else None
        return first is not None and -self._levels.of(first.message.options) < best.rank

    def _is_ranked(self) -> bool:
        """Whether the tail may have what goes before all that is not there."""
        return isinstance(self._tail, Priorities)

    def take(self) -> Entry:
        place = self._first_for_get()
        assert place is not None
        return self._take(place, None, False)

    def _take(self, place: Place, holder: Consumer | None, no_ack: bool) -> Entry:
        entry = place.entry
        group = place.group
        if group is not None and self._groups is not None and not no_ack:
            self._groups.hold(group, entry, holder)
        self._vacate(place)
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
        """An entry is in no consumer's hands any more: others may have its group now."""
        group = None if self._groups is None else self._groups.release(entry)
        if group is not None:
            self._offer_first(group)
            if group.waiting > 0:
                self._touch()

    def drop_candidate(self) -> Entry | None:
        if self._drops is None:
            self._drops = Present()
            for place in self._places.values():
                self._drops.push(place, -place.rank)
        first = self._drops.first()
        last = self._tail.drop_candidate()
        if first is None or last is None:
            return last if first is None else first.entry
        return last if self._levels.of(last.message.options) < -first.rank else first.entry

    def give_back(self, entries: list[Entry]) -> None:
        self.count += len(entries)
        tail = self._tail
        behind: list[Entry] = []
        spent: i64 = WORK.spent
        for entry in entries:
            first = tail.first_in_line(entry)
            if first is not None and first.position < entry.position:
                # What was not looked at yet must not be overtaken.
                behind.append(entry)
            elif WORK.spent - spent > DISPATCH_BURST_MESSAGES:
                # To ask about all of them takes too long here: dispatches go on with that.
                self._returned_until = max(self._returned_until, entry.position)
                behind.append(entry)
            else:
                self._settle_in(entry)
        if behind:
            tail.give_back(behind)

    def remove(self, entry: Entry) -> None:
        place = self._places.get(int(entry.seq))
        if place is None:
            self._tail.remove(entry)
            self.count -= 1
            return
        self._vacate(place)
        if place.group is not None and self._groups is not None:
            self._groups.forget_unused(place.group)
        entry.state = REMOVED

    def entries(self) -> list[Entry]:
        return [place.entry for place in sorted(self._places.values(), key=_order)] + self._tail.entries()

    def loose(self) -> list[Entry]:
        return [place.entry for place in self._places.values()]

    def parts(self) -> list[Fifo]:
        return self._tail.parts()

    def left_packed(self, part: Fifo, count: i64) -> None:
        self.count -= count
        self._tail.left_packed(part, count)

    def ordinary(self) -> Ready | None:
        """A store of all that is here, which anybody may have; None while making it would take too long."""
        if len(self._places) > DISPATCH_BURST_MESSAGES:
            return None
        self._tail.give_back([place.entry for place in self._places.values()])
        return self._tail

    # -- dispatch -----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """A dispatch begins: `choose` and `take_chosen` until there is nothing to choose."""
        self._budget = DISPATCH_BURST_MESSAGES
        self._offers = []
        self._is_offering = True
        self._introduce()
        if self._can_take():
            self._look_at_returned()
        for bucket in self._buckets:
            self._begin_with(bucket)
        for bucket in self._own.values():
            self._begin_with(bucket)
        heapify(self._offers)
        if self._is_ranked() and self.is_needed and self._can_take():
            self._look_at(self._budget)

    def _begin_with(self, bucket: Bucket) -> None:
        if self._round_robin(bucket).consumers:
            first = bucket.first()
            if first is not None:
                self._offered += 1
                self._offers.append((int(first.rank), int(first.entry.position), self._offered, bucket))

    def end(self) -> bool:
        """A dispatch ends; True when entries wait to be looked at that somebody may want."""
        self._is_offering = False
        self._offers = []
        return bool(self._newcomers) or (self._budget <= 0 and self._tail.count > 0 and self._can_take())

    def _can_take(self) -> bool:
        return any(consumer.can_take() for consumer in self._consumers)

    def _introduce(self) -> None:
        """Show newcomers what was here before them, in half of what this dispatch may do."""
        least = self._budget // 2
        while self._newcomers and self._budget > least:
            newcomer = self._newcomers[0]
            consumer = newcomer.consumer
            while newcomer.at < newcomer.end and self._budget > least:
                place = self._shown[newcomer.at]
                newcomer.at += 1
                spent: i64 = WORK.spent
                if place.is_here and self._is_suited(place.entry.message, consumer):
                    self._move(place, self._bucket((*place.home.members, consumer)))
                self._budget -= 1 + WORK.spent - spent
            if newcomer.at == newcomer.end:
                self._newcomers.popleft()
                self._version += 1
        if not self._newcomers:
            self._shown = []

    def _look_at(self, most: i64) -> None:
        """Give places to entries of the tail."""
        tail = self._tail
        left = most
        while left > 0 and tail.count > 0:
            spent: i64 = WORK.spent
            entry = tail.take()
            entry.state = READY
            self._settle_in(entry)
            left -= 1 + WORK.spent - spent
        self._budget -= most - left

    def _look_at_returned(self) -> None:
        """What came back goes before what has a place already."""
        while self._returned_until != _NOWHERE and self._budget > 0:
            first = self._tail.peek()
            if first is None or first.position > self._returned_until:
                self._returned_until = _NOWHERE
            else:
                self._look_at(min(_LOOK_AHEAD_ENTRIES, self._budget))

    def _is_overtaking(self, place: Place) -> bool:
        """Whether something came back that goes before this, and nobody was asked about again."""
        if self._returned_until == _NOWHERE:
            return False
        first = self._tail.peek()
        return first is not None and first.position < place.entry.position

    def choose(self) -> Consumer | None:
        """The consumer that gets something next."""
        while True:
            found = self._choose_offered()
            if found is not None:
                return found
            if self._budget <= 0 or self._tail.count == 0 or not self._can_take():
                return None
            self._look_at(min(_LOOK_AHEAD_ENTRIES, self._budget))

    def _choose_offered(self) -> Consumer | None:
        offers = self._offers
        while offers:
            rank, position, offered, bucket = offers[0]
            place = bucket.first()
            if place is None:
                heappop(offers)
                continue
            if place.rank != rank or place.entry.position != position:
                heapreplace(offers, (int(place.rank), int(place.entry.position), offered, bucket))
                continue
            if self._is_overtaking(place):
                return None
            entry = place.entry
            consumer = self._round_robin(bucket).next_consumer(entry.message, entry.avoid)
            if consumer is None:
                # Nor will there be one for what is behind it, before this dispatch ends.
                heappop(offers)
                continue
            self._chosen = place
            return consumer
        return None

    def take_chosen(self, consumer: Consumer) -> Entry:
        place = self._chosen
        assert place is not None
        self._chosen = None
        return self._take(place, consumer, consumer.no_ack)

    def would_take(self, message: Message) -> bool:
        """Whether a consumer would be given this message now, after a dispatch that left nothing to give."""
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


def _order(place: Place) -> tuple[int, int]:
    return int(place.rank), int(place.entry.position)
