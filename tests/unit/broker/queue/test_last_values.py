"""Last-value queues: the newest message of a key waits alone, and the journal never has none of them."""

import pytest

from flintmq.broker.message import Entry
from flintmq.broker.queue.classic import ClassicQueue
from flintmq.broker.queue.ready import Fifo
from flintmq.broker.queue.recovery import Recovery
from flintmq.broker.tick import Tick
from tests.unit.broker.memory import MemoryJournal, Taker, message, purge, run_due


def make(**arguments: object) -> tuple[ClassicQueue, MemoryJournal]:
    journal = MemoryJournal()
    table = {"x-last-value-key": "k", **arguments}
    return ClassicQueue(1, "/", "q", "classic", True, False, None, table, Tick(), journal), journal


def put(queue: ClassicQueue, journal: MemoryJournal, *bodies: str) -> None:
    """The key of a message is the letter it begins with; "-" is none."""
    for body in bodies:
        each = message(body, persistent=True, headers="" if body[0] == "-" else f"k={body[0]}")
        if queue.admit(each):
            continue
        entry = queue.enqueue(each)
        assert entry is not None
        journal.append(each, [queue.id], [entry])


def ready(queue: ClassicQueue) -> list[str]:
    return [entry.message.body.decode() for entry in queue.store.entries()]


def test_newer_message_replaces_the_one_with_its_key() -> None:
    """At the tail; messages without a key replace nothing."""
    queue, journal = make()
    put(queue, journal, "a1", "b1", "-1", "a2", "-2", "a3")
    assert ready(queue) == ["b1", "-1", "-2", "a3"]
    assert queue.message_count == 4


def test_journal_has_the_newer_before_it_loses_the_older() -> None:
    """A crash between the two leaves both, and the older one is replaced when they are found."""
    queue, journal = make()
    put(queue, journal, "a1", "a2")
    assert sorted(journal.kept.values()) == [b"a1", b"a2"]
    put(queue, journal, "b1")
    assert sorted(journal.kept.values()) == [b"a2", b"b1"]


def test_consumed_value_does_not_bring_back_the_one_before() -> None:
    """The journal hears of the replaced entry before it hears that its replacement is settled."""
    queue, journal = make()
    put(queue, journal, "a1", "a2")
    entry = queue.get()
    assert entry is not None
    queue.settle(entry)
    assert journal.kept == {}


def test_restart_finds_the_newest() -> None:
    """Of what a crash left of one key the newest stays, and the rest is settled."""
    queue, journal = make()
    put(queue, journal, "a1", "b1")
    held = queue.get()
    put(queue, journal, "a2", "a3")
    assert held is not None
    again = ClassicQueue(1, "/", "q", "classic", True, False, None, queue.arguments, Tick(), journal)
    entries = [held, *queue.store.entries()]
    for entry in sorted(entries, key=lambda each: each.seq):
        entry.state = 0
        Recovery(again).restore(entry)
    Recovery(again).start_at(10)
    assert ready(again) == ["b1", "a3"]


def test_delayed_value_replaces_what_came_before_its_time() -> None:
    """In the journal, too, and at once: a restart would take what was published later for the newer one."""
    queue, journal = make()
    delayed = message("a1", persistent=True, headers="k=a;delay=100")
    entry = queue.enqueue(delayed)
    assert entry is not None
    journal.append(delayed, [queue.id], [entry])
    put(queue, journal, "a2")
    run_due(queue.tick, 100)
    assert ready(queue) == ["a1"]
    assert list(journal.kept.values()) == [b"a1"]


def found(queue: ClassicQueue, journal: MemoryJournal, body: str, seq: int, returns: int) -> None:
    """A restart finds an entry that has come back so many times."""
    entry = Entry(message(body, persistent=True, headers=f"k={body[0]}"), seq)
    entry.segment = 1
    entry.returns = returns
    journal.kept[queue.id, seq] = entry.message.body
    Recovery(queue).restore(entry)


@pytest.mark.parametrize("returns", [(1, 0), (1, 1), (0, 1)])
def test_restart_does_not_bring_back_an_older_value_that_pauses(returns: tuple[int, int]) -> None:
    """Of what is tried again later only the newest is, however long the pauses are."""
    queue, journal = make(**{"x-delayed-retry-type": "all", "x-delayed-retry-min": 100})
    for seq, count in enumerate(returns):
        found(queue, journal, f"a{seq}", seq, count)
    Recovery(queue).start_at(10)
    queue.tick.now_ms = 1000
    run_due(queue.tick, 1000)
    assert ready(queue) == ["a1"]
    assert list(journal.kept.values()) == [b"a1"]


def test_what_a_consumer_holds_is_not_touched() -> None:
    """A value in a consumer's hands is settled by it; one that comes back is dropped if there is a newer one."""
    queue, journal = make()
    taker = Taker(credit=1)
    queue.subscribe(taker, {})
    put(queue, journal, "a1")
    queue.dispatch()
    put(queue, journal, "a2")
    assert ready(queue) == ["a2"]
    queue.requeue([taker.taken[0]])
    assert ready(queue) == ["a2"]
    assert list(journal.kept.values()) == [b"a2"]


def test_old_value_does_not_come_back_behind_a_newer_one() -> None:
    """Not even when the newer one was consumed meanwhile."""
    queue, journal = make()
    taker = Taker(credit=2)
    queue.subscribe(taker, {})
    put(queue, journal, "a1")
    queue.dispatch()
    put(queue, journal, "a2")
    queue.dispatch()
    queue.settle(taker.taken[1])
    queue.requeue([taker.taken[0]])
    assert ready(queue) == []
    assert journal.kept == {}


def test_value_that_comes_back_can_be_replaced() -> None:
    """A returned entry is the ready one of its key again."""
    queue, journal = make()
    taker = Taker(credit=1)
    queue.subscribe(taker, {})
    put(queue, journal, "a1")
    queue.dispatch()
    queue.requeue([taker.taken[0]])
    put(queue, journal, "a2")
    assert ready(queue) == ["a2"]


def test_endless_updates_are_bounded() -> None:
    """Memory is that of the keys, however often their values change; and of nothing once they are consumed."""
    queue, journal = make()
    for number in range(20_000):
        put(queue, journal, f"{chr(97 + number % 10)}{number}")
    assert queue.message_count == 10
    assert len(journal.kept) <= 11
    store = queue.store
    assert isinstance(store, Fifo)
    assert len(store._front) + len(store._back) + sum(len(block) for block in store._middle) < 5_000
    assert purge(queue) == 10
    assert queue._values is not None
    assert len(queue._values) == 0
    assert journal.kept == {}


@pytest.mark.parametrize("overflow", ["drop-head", "reject-publish"])
def test_replacing_needs_no_room(overflow: str) -> None:
    """A full queue takes a new value of a key it has."""
    queue, journal = make(**{"x-max-length": 2, "x-overflow": overflow})
    put(queue, journal, "a1", "b1", "a2")
    assert ready(queue) == ["b1", "a2"]


def test_a_deleted_queue_leaves_nothing_replaced() -> None:
    """What was replaced and is not settled yet goes with the queue, even where nothing is ready any more."""
    queue, journal = make()
    put(queue, journal, "a1", "a2")
    held = queue.get()
    assert held is not None
    queue.delete()
    assert list(journal.kept.values()) == [b"a2"]
