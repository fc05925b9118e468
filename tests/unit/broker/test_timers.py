"""What is due later: called in order, once, and forgotten when nobody asks for it any more."""

from flintmq.broker.queue.classic import ClassicQueue
from flintmq.broker.queue.publish import put
from flintmq.broker.tick import Tick
from flintmq.broker.timers import Timed, Timers
from tests.unit.broker.memory import MemoryJournal, Taker, message


class Bell(Timed):
    def __init__(self) -> None:
        super().__init__()
        self.rung: list[int] = []

    def on_due(self, now_ms: int) -> None:
        self.rung.append(now_ms)


def test_the_earliest_time_counts() -> None:
    """A later one changes nothing, an earlier one replaces it, and each call comes once."""
    timers = Timers()
    bell = Bell()
    for due_ms in (50, 70, 30):
        timers.at(due_ms, bell)
    assert timers.next_ms == 30
    timers.run(29)
    assert bell.rung == []
    timers.run(100)
    assert bell.rung == [100]
    assert timers.next_ms == 0


def test_cancelled_ones_are_not_called() -> None:
    """Unless they ask again, be it for the same time."""
    timers = Timers()
    bell, other = Bell(), Bell()
    for each in (bell, other):
        timers.at(10, each)
        timers.cancel(each)
    timers.at(10, other)
    timers.run(10)
    assert (bell.rung, other.rung) == ([], [10])


def test_cancelled_ones_are_let_go() -> None:
    """A million that came and went hold no memory until they would have been due; those that stay are called."""
    timers = Timers()
    staying = [Bell() for _ in range(10)]
    for number, bell in enumerate(staying):
        timers.at(1000 + number, bell)
    for _ in range(5000):
        bell = Bell()
        timers.at(10**9, bell)
        timers.at(10**8, bell)
        timers.cancel(bell)
    assert len(timers) < 200
    timers.run(2000)
    assert all(bell.rung == [2000] for bell in staying)
    assert timers.next_ms == 0


def make(tick: Tick, **arguments: object) -> ClassicQueue:
    table = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    return ClassicQueue(1, "/", "q", "classic", False, False, None, table, tick, MemoryJournal())


def test_deleted_queues_are_let_go() -> None:
    """Queues that expire, hold back or wait to be unused leave nothing behind when they are deleted."""
    tick = Tick()
    for _ in range(500):
        queue = make(tick, message_ttl=10**9, expires=10**9)
        for headers in ("", "delay=100000000"):
            put([queue], message("m", headers=headers), MemoryJournal())
        queue.delete()
        assert queue._expiry is None
    assert not tick.steps
    assert len(tick.timers) < 200
    assert len(tick.expiries) < 200


def test_what_was_taken_is_let_go() -> None:
    """A message with a time to live is not held by the queue any more once a consumer has it."""
    queue = make(Tick(), message_ttl=10**9)
    taker = Taker()
    queue.subscribe(taker, {})
    for _ in range(5000):
        put([queue], message("m"), MemoryJournal())
        queue.dispatch()
        queue.settle(taker.taken.pop())
    assert queue._expiry is not None
    assert len(queue._expiry) == 0
    assert len(queue._expiry._heap) < 1100
