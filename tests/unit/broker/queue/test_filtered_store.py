"""Consumers that choose: what they are given, what waits, and that the queue is an ordinary one again afterwards."""

import pytest

from flintmq.base.limits import DISPATCH_BURST_MESSAGES
from flintmq.base.work import WORK
from flintmq.broker.message import Message
from flintmq.broker.queue.classic import ClassicQueue
from flintmq.broker.tick import Tick
from tests.unit.broker.memory import MemoryJournal, Taker, message, run_due


class Choosy(Taker):
    """Takes messages with `wanted` in their body, and counts how often it is asked."""

    def __init__(self, wanted: str, credit: int = 1_000_000) -> None:
        super().__init__(credit)
        self.wanted = wanted
        self.is_filtered = True
        self.asked = 0

    def matches(self, message: Message) -> bool:
        self.asked += 1
        WORK.spent += self.matching_cost
        return self.wanted in message.body.decode()


def make(arguments: dict[str, object] | None = None) -> ClassicQueue:
    return ClassicQueue(1, "/", "q", "classic", True, False, None, arguments or {}, Tick(), MemoryJournal())


def fill(queue: ClassicQueue, *bodies: str, headers: str = "") -> None:
    for body in bodies:
        queue.enqueue(message(body, headers=headers))


def test_each_entry_goes_to_whom_it_suits() -> None:
    """Choosy consumers get theirs, in order, and what suits nobody stays without holding up anything."""
    queue = make()
    red, blue = Choosy("red"), Choosy("blue")
    queue.subscribe(red, {})
    queue.subscribe(blue, {})
    fill(queue, "green1", "red1", "blue1", "red2", "green2", "blue2")
    queue.dispatch()
    assert (red.bodies, blue.bodies) == (["red1", "red2"], ["blue1", "blue2"])
    assert queue.message_count == 2
    assert [entry.message.body for entry in queue.store.entries()] == [b"green1", b"green2"]


def test_no_entry_is_asked_about_twice() -> None:
    """An entry nobody wants costs one question per consumer, however often the queue is dispatched."""
    queue = make()
    choosy = Choosy("never")
    queue.subscribe(choosy, {})
    fill(queue, *[str(number) for number in range(100)])
    for _ in range(5):
        queue.dispatch()
    assert choosy.asked == 100


def test_consumer_without_credit_holds_up_no_other() -> None:
    """What only a consumer without credit wants is passed over."""
    queue = make()
    red, blue = Choosy("red", credit=1), Choosy("blue")
    queue.subscribe(red, {})
    queue.subscribe(blue, {})
    fill(queue, "red1", "red2", "red3", "blue1")
    queue.dispatch()
    assert (red.bodies, blue.bodies) == (["red1"], ["blue1"])
    red.credit = 2
    queue.dispatch()
    assert red.bodies == ["red1", "red2", "red3"]


def test_nothing_is_looked_at_while_nobody_can_take_anything() -> None:
    """A backlog costs nothing more than its memory as an ordinary one until somebody has credit."""
    queue = make()
    choosy = Choosy("m", credit=0)
    queue.subscribe(choosy, {})
    fill(queue, *["m"] * 1000)
    assert queue.dispatch() is False
    assert choosy.asked == 0
    choosy.credit = 10
    queue.dispatch()
    assert choosy.asked <= 64


def test_newcomer_sees_what_was_here_before_it() -> None:
    """What was looked at before a consumer came is shown to it, in order, a burst at a time."""
    queue = make()
    first, second = Choosy("a"), Choosy("b")
    queue.subscribe(first, {})
    count = DISPATCH_BURST_MESSAGES + 100
    fill(queue, *[f"b{number}" for number in range(count)])
    while queue.dispatch():
        pass
    assert first.asked == count
    queue.subscribe(second, {})
    assert queue.dispatch() is True
    assert second.bodies == []
    while queue.dispatch():
        pass
    assert second.bodies == [f"b{number}" for number in range(count)]
    assert first.asked == count


def test_queue_is_ordinary_again_when_choosy_consumers_have_gone() -> None:
    """The order is the old one, what comes back takes its place, and nothing is left of the matching."""
    queue = make()
    choosy = Choosy("7")
    queue.subscribe(choosy, {})
    fill(queue, *[str(number) for number in range(3000)])
    while queue.dispatch():
        pass
    held = choosy.taken[:]
    assert queue._filtered_store is not None
    queue.unsubscribe(choosy)
    assert queue._filtered_store is None
    assert queue.message_count == 3000 - len(held)
    queue.requeue(held)
    taker = Taker()
    queue.subscribe(taker, {})
    queue.dispatch()
    assert taker.bodies == [str(number) for number in range(3000)]


def test_long_matched_backlog_becomes_ordinary_in_time() -> None:
    """With more entries than one turn may move, the queue goes on as it is, and changes once there are fewer."""
    queue = make()
    choosy = Choosy("never")
    queue.subscribe(choosy, {})
    count = DISPATCH_BURST_MESSAGES * 2
    fill(queue, *[str(number) for number in range(count)])
    while queue.dispatch():
        pass
    queue.unsubscribe(choosy)
    assert queue._filtered_store is not None
    taker = Taker()
    queue.subscribe(taker, {})
    while queue.dispatch():
        pass
    assert taker.bodies == [str(number) for number in range(count)]
    assert queue._filtered_store is None


def test_priorities_of_messages_and_consumers_hold() -> None:
    """The highest message first, to the highest consumer it suits."""
    queue = make({"x-max-priority": 9})
    low, high = Choosy("m"), Choosy("m", credit=1)
    high.priority = 5
    queue.subscribe(low, {})
    queue.subscribe(high, {})
    fill(queue, "m1")
    fill(queue, "m2", headers="priority=4")
    fill(queue, "x", headers="priority=9")
    queue.dispatch()
    assert (high.bodies, low.bodies) == (["m2"], ["m1"])


def test_expiry_and_limits_find_entries_wherever_they_stand() -> None:
    """Entries expire, and are dropped to make room, whether or not they were looked at."""
    queue = make({"x-max-length": 3})
    choosy = Choosy("a", credit=0)
    queue.subscribe(choosy, {})
    fill(queue, "x1", "a1")
    choosy.credit = 1
    queue.dispatch()
    fill(queue, "x2", headers="ttl=10")
    fill(queue, "x3")
    choosy.credit = 0
    for body in ("x4", "x5"):
        each = message(body)
        queue.admit(each)
        queue.enqueue(each)
    assert [entry.message.body for entry in queue.store.entries()] == [b"x3", b"x4", b"x5"]
    queue.tick.now_ms = 11
    run_due(queue.tick, 11)
    assert queue.message_count == 3


@pytest.mark.parametrize(("credit", "taken"), [(1, True), (0, False)])
def test_immediate_asks_whom_the_message_suits(credit: int, taken: bool) -> None:
    """Other messages may wait: one is taken at once if a consumer it suits has credit."""
    queue = make()
    queue.subscribe(Choosy("red", credit), {})
    fill(queue, "green")
    assert queue.takes_at_once(message("red")) is taken
    assert queue.takes_at_once(message("blue")) is False


def test_get_takes_the_oldest() -> None:
    """basic.get is not choosy."""
    queue = make()
    queue.subscribe(Choosy("b"), {})
    fill(queue, "a1", "b1", "a2")
    queue.dispatch()
    found = [queue.get(), queue.get(), queue.get()]
    assert [entry.message.body for entry in found if entry is not None] == [b"a1", b"a2"]


def test_many_consumers_that_came_and_went_leave_nothing() -> None:
    """Indexes of consumers that are gone are let go of, whatever waits on the queue."""
    queue = make()
    fill(queue, "a", "b", "c")
    stays = Choosy("never")
    queue.subscribe(stays, {})
    for _ in range(500):
        choosy = Choosy("a", credit=0)
        queue.subscribe(choosy, {})
        stays.credit += 1
        queue.dispatch()
        queue.unsubscribe(choosy)
    assert queue._filtered_store is not None
    assert len(queue._filtered_store._indexes) <= 3
    assert all(set(bucket.members) <= {stays} for bucket in queue._filtered_store._indexes)


def test_what_comes_back_does_not_overtake_what_was_not_looked_at() -> None:
    """A choosy consumer leaves, what it held comes back under another one: the entry before it still goes first."""
    queue = make()
    blue = Choosy("blue")
    queue.subscribe(blue, {})
    fill(queue, "red1", "blue1", "red2")
    queue.dispatch()
    queue.unsubscribe(blue)
    # The next one needs all to be matched anew, and has not begun to look.
    idle = Choosy("never", credit=0)
    queue.subscribe(idle, {})
    queue.requeue(blue.taken)
    anyone = Taker(3)
    queue.subscribe(anyone, {})
    queue.dispatch()
    assert anyone.bodies == ["red1", "blue1", "red2"]


def test_asking_is_work() -> None:
    """A dispatch asks what it has time for, the dearer the fewer; all have been asked in the end, in order."""
    queue = make()
    dear = Choosy("1")
    dear.matching_cost = DISPATCH_BURST_MESSAGES // 4
    queue.subscribe(dear, {})
    fill(queue, *[f"{number}" for number in range(20)])
    assert queue.dispatch()
    assert dear.asked <= 4
    while queue.dispatch():
        pass
    assert dear.asked == 20
    assert dear.bodies == ["1", *[str(number) for number in range(10, 20)]]
    late = Choosy("2")
    late.matching_cost = dear.matching_cost
    queue.subscribe(late, {})
    assert queue.dispatch()
    assert late.asked <= 4
    while queue.dispatch():
        pass
    # Nobody asks about what is gone.
    assert late.asked == 9
    assert late.bodies == ["2"]


def test_what_comes_back_by_priority_does_not_overtake_either() -> None:
    """The same where the queue has priorities, and a dispatch had no time to look at all of one."""
    queue = make({"x-max-priority": 9})
    blue = Choosy("blue")
    queue.subscribe(blue, {})
    fill(queue, "urgent", headers="priority=5")
    fill(queue, "red1", "blue1", "red2")
    queue.dispatch()
    queue.unsubscribe(blue)
    idle = Choosy("never", credit=0)
    idle.matching_cost = DISPATCH_BURST_MESSAGES
    queue.subscribe(idle, {})
    queue.requeue(blue.taken)
    anyone = Taker(9)
    queue.subscribe(anyone, {})
    while queue.dispatch():
        pass
    assert anyone.bodies == ["urgent", "red1", "blue1", "red2"]


def test_newcomers_leave_others_their_share() -> None:
    """However much is to be shown to however many, what comes meanwhile is given to whom it suits."""
    queue = make()
    here = Choosy("mine")
    queue.subscribe(here, {})
    fill(queue, *["not yet"] * (DISPATCH_BURST_MESSAGES + 1))
    while queue.dispatch():
        pass
    for _ in range(3):
        queue.subscribe(Choosy("never"), {})
    fill(queue, "mine")
    assert queue.dispatch()
    assert here.bodies == ["mine"]


def test_newcomers_share_what_they_are_shown() -> None:
    """Each sees all that came before it and is there, once; what is gone is not kept for those who come later."""
    queue = make()
    fill(queue, *["old"] * DISPATCH_BURST_MESSAGES)
    first = Choosy("never")
    queue.subscribe(first, {})
    while queue.dispatch():
        pass
    anyone = Choosy("new")
    queue.subscribe(anyone, {})
    store = queue._filtered_store
    assert store is not None
    # Too much for one dispatch, so that there always is somebody who has not seen all.
    late = [Choosy("old", credit=0) for _ in range(12)]
    for number, newcomer in enumerate(late):
        queue.subscribe(newcomer, {})
        fill(queue, *["new"] * 4000)
        fill(queue, "old")
        assert queue.dispatch()
        assert len(store._newcomers) > number // 2
        assert len(store._shown) <= 2 * DISPATCH_BURST_MESSAGES + 2 * 4000
    while queue.dispatch():
        pass
    assert not store._shown
    assert len(anyone.taken) == 12 * 4000
    for newcomer in late:
        newcomer.credit = 1
    assert queue.dispatch() is False
    assert [newcomer.bodies for newcomer in late] == [["old"]] * 12
    assert queue.message_count == DISPATCH_BURST_MESSAGES
