"""The classic queue: order, credit, requeueing, and what it asks the journal to keep."""

import pytest

from flintmq.base.errors import AccessRefused, ResourceLocked
from flintmq.broker.queue.classic import ClassicQueue
from flintmq.broker.tick import Tick
from tests.unit.broker.memory import MemoryJournal, Taker, message, purge


def make(durable: bool = True, owner: object | None = None) -> tuple[ClassicQueue, MemoryJournal]:
    journal = MemoryJournal()
    return ClassicQueue(1, "/", "q", "classic", durable, False, owner, {}, Tick(), journal), journal


def fill(queue: ClassicQueue, count: int, persistent: bool = False) -> None:
    for number in range(count):
        each = message(str(number), persistent)
        entry = queue.enqueue(each)
        if entry is not None:
            queue.journal.append(each, [queue.id], [entry])


def numbers(upto: int, start: int = 0) -> list[str]:
    return [str(number) for number in range(start, upto)]


@pytest.mark.parametrize("count", [1, 1023, 1024, 1025, 5000])
def test_entries_come_in_the_order_they_went(count: int) -> None:
    """First in, first out, over any number of blocks."""
    queue, _ = make()
    fill(queue, count)
    assert queue.message_count == count
    taker = Taker()
    queue.subscribe(taker, {})
    queue.dispatch()
    assert taker.bodies == numbers(count)
    assert queue.message_count == 0


def test_requeued_entries_take_their_old_places() -> None:
    """What comes back, in any order, stands before everything younger, in its old order, flagged as redelivered."""
    queue, _ = make()
    fill(queue, 3000)
    taker = Taker(credit=2000)
    queue.subscribe(taker, {})
    queue.dispatch()
    back = [taker.taken[at] for at in (1500, 3, 1999, 0)]
    queue.requeue(back)
    assert queue.message_count == 1004
    taker.taken.clear()
    taker.credit = 5000
    queue.dispatch()
    assert taker.bodies == ["0", "3", "1500", "1999", *numbers(3000, 2000)]
    assert [entry.redelivered for entry in taker.taken[:5]] == [True, True, True, True, False]


def test_credit_is_kept() -> None:
    """A consumer without credit gets nothing, and what it did not get stays."""
    queue, _ = make()
    fill(queue, 10)
    taker = Taker(credit=4)
    queue.subscribe(taker, {})
    assert queue.dispatch() is False
    assert taker.bodies == numbers(4)
    assert queue.message_count == 6


def test_consumers_take_turns() -> None:
    """Entries go round among the consumers that can take them, skipping those that cannot."""
    queue, _ = make()
    first, second, third = Taker(), Taker(credit=1), Taker()
    for taker in (first, second, third):
        queue.subscribe(taker, {})
    fill(queue, 7)
    queue.dispatch()
    assert (first.bodies, second.bodies, third.bodies) == (["0", "3", "5"], ["1"], ["2", "4", "6"])


def test_long_queue_is_dispatched_in_bursts() -> None:
    """One dispatch delivers a bounded number and says that there is more."""
    queue, _ = make()
    fill(queue, 20_000)
    taker = Taker()
    queue.subscribe(taker, {})
    assert queue.dispatch() is True
    assert 0 < len(taker.taken) < 20_000
    assert queue.dispatch() is False
    assert len(taker.taken) == 20_000


def test_only_persistent_messages_of_durable_queues_are_kept() -> None:
    """The journal is asked for what has to survive, and told when that is settled."""
    queue, journal = make(durable=True)
    fill(queue, 2, persistent=True)
    fill(queue, 2, persistent=False)
    assert len(journal.kept) == 2
    for _ in range(4):
        entry = queue.get()
        assert entry is not None
        queue.settle(entry)
    assert queue.get() is None
    assert journal.kept == {}
    transient, journal = make(durable=False)
    fill(transient, 1, persistent=True)
    assert journal.kept == {}


def test_no_ack_delivery_settles() -> None:
    """What a no-ack consumer got is gone from the journal at once."""
    queue, journal = make()
    fill(queue, 3, persistent=True)
    queue.subscribe(Taker(credit=2, no_ack=True), {})
    queue.dispatch()
    assert list(journal.kept.values()) == [b"2"]


def test_purge_keeps_what_is_in_consumers_hands() -> None:
    """Purging drops what is ready, not what was delivered and may come back."""
    queue, journal = make()
    fill(queue, 5, persistent=True)
    taker = Taker(credit=2)
    queue.subscribe(taker, {})
    queue.dispatch()
    assert purge(queue) == 3
    assert sorted(journal.kept.values()) == [b"0", b"1"]
    queue.requeue(taker.taken)
    assert queue.message_count == 2


def test_delete_forgets_everything_and_tells_consumers() -> None:
    """Nothing of a deleted queue stays in the journal, not even what comes back later."""
    queue, journal = make()
    fill(queue, 5, persistent=True)
    taker = Taker(credit=2)
    queue.subscribe(taker, {})
    queue.dispatch()
    assert queue.delete() == 3
    assert taker.is_cancelled
    queue.requeue(taker.taken)
    assert journal.kept == {}
    assert queue.message_count == 0


def test_exclusive_consumer_is_alone() -> None:
    """An exclusive subscription is refused where there is another, and refuses others."""
    queue, _ = make()
    exclusive = Taker(exclusive=True)
    queue.subscribe(exclusive, {})
    with pytest.raises(AccessRefused, match="exclusive use"):
        queue.subscribe(Taker(), {})
    queue.unsubscribe(exclusive)
    queue.subscribe(Taker(), {})
    with pytest.raises(AccessRefused, match="exclusive use"):
        queue.subscribe(exclusive, {})


def test_exclusive_queue_belongs_to_its_connection() -> None:
    """Any other connection is refused with 405."""
    mine, other = object(), object()
    queue, _ = make(owner=mine)
    queue.check_access(mine)
    with pytest.raises(ResourceLocked, match="cannot obtain exclusive access"):
        queue.check_access(other)
