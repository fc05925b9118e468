"""Queues deliver in turns while clients wait for each other, and publishers do not outrun consumers without end."""

import pytest
from mypy_extensions import i64

from flintmq.base.limits import BEHIND_MESSAGES, CREDIT_MS, DISPATCH_BURST_MESSAGES, DISPATCH_TURN_MESSAGES
from flintmq.broker.broker import Broker
from flintmq.broker.message import Message
from flintmq.broker.queue.base import ADMITTED
from flintmq.broker.queue.classic import ClassicQueue
from flintmq.broker.tick import Tick
from flintmq.broker.timers import Timed
from tests.unit.broker.memory import MemoryJournal, MemoryStorage, Taker, message


def world(*names: str) -> tuple[Broker, list[ClassicQueue]]:
    broker = Broker(MemoryStorage())
    vhost = broker.add_vhost("/")
    queues = [vhost.declare_queue(name, False, False, False, {}, None) for name in names]
    return broker, [queue for queue in queues if isinstance(queue, ClassicQueue)]


def fill(queue: ClassicQueue, count: int) -> None:
    for _ in range(count):
        queue.enqueue(message())


class Watch:
    """A clock on which each look takes a millisecond."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        self.seconds += 0.001
        return self.seconds


class SlowTimer(Timed):
    """A timer whose work takes a second."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def on_due(self, now_ms: i64) -> None:
        self._watch.seconds += 1.0


def test_a_queue_delivers_a_large_batch_while_nobody_waits() -> None:
    broker, (queue,) = world("q")
    taker = Taker()
    queue.subscribe(taker, {})
    fill(queue, DISPATCH_BURST_MESSAGES + 10)
    assert broker.dispatch()
    assert len(taker.taken) == DISPATCH_BURST_MESSAGES
    assert not broker.dispatch()
    assert queue.message_count == 0


def test_queues_have_short_turns_while_clients_wait() -> None:
    """A queue with few messages does not wait for one with many; what is left comes in later ticks."""
    broker, queues = world("deep", "deeper", "small")
    takers = [Taker() for _ in queues]
    for queue, taker, count in zip(queues, takers, (100_000, 100_000, 3), strict=True):
        queue.subscribe(taker, {})
        fill(queue, count)
    broker.tick.dispatch.clock = Watch()
    broker.tick.dispatch.limit(0.01)
    assert broker.dispatch()
    assert len(takers[2].taken) == 3
    for taker in takers[:2]:
        assert DISPATCH_TURN_MESSAGES < len(taker.taken) < 10 * DISPATCH_TURN_MESSAGES
    assert abs(len(takers[0].taken) - len(takers[1].taken)) <= DISPATCH_TURN_MESSAGES


def test_other_work_of_a_tick_takes_no_time_of_deliveries() -> None:
    """Queues deliver in each tick, however long expiring messages, or dropping others, takes before."""
    broker, (queue,) = world("q")
    taker = Taker()
    queue.subscribe(taker, {})
    fill(queue, 10)
    watch = Watch()
    broker.tick.dispatch.clock = watch
    broker.tick.dispatch.limit(0.01)
    broker.tick.timers.at(1, SlowTimer(watch))
    broker.now_ms = 1
    broker.dispatch()
    assert len(taker.taken) == 10


def test_no_queue_is_forgotten_when_the_time_is_over() -> None:
    """Queues whose turn did not come are before all others in the next tick."""
    broker, queues = world(*[f"q{number}" for number in range(20)])
    takers = [Taker() for _ in queues]
    for queue, taker in zip(queues, takers, strict=True):
        queue.subscribe(taker, {})
        fill(queue, 10 * DISPATCH_TURN_MESSAGES)
    broker.tick.dispatch.clock = Watch()
    broker.tick.dispatch.limit(0.005)
    for _ in range(10):
        assert broker.dispatch()
    assert min(len(taker.taken) for taker in takers) >= DISPATCH_TURN_MESSAGES
    for _ in range(200):
        broker.dispatch()
    assert [queue.message_count for queue in queues] == [0] * 20


@pytest.mark.parametrize(("credit", "is_behind"), [(0, False), (10, True), (1_000_000, True)])
def test_a_queue_is_behind_if_its_consumers_take_less_than_it_has(credit: int, is_behind: bool) -> None:
    """With a full window, or with a turn that is over. A queue whose consumers take nothing is not behind."""
    broker, (queue,) = world("q")
    queue.subscribe(Taker(credit), {})
    fill(queue, BEHIND_MESSAGES + DISPATCH_BURST_MESSAGES + 1)
    broker.dispatch()
    assert broker.tick.dispatch.is_behind is is_behind
    broker.tick.ready.clear()
    broker.dispatch()
    assert not broker.tick.dispatch.is_behind


class Narrow(Taker):
    """Takes entries as long as a window of bytes allows."""

    def __init__(self, credit: int) -> None:
        super().__init__()
        self.has_byte_window = True
        self._left = credit

    def is_within_window(self, message: Message) -> bool:
        self._left -= 1
        return self._left >= 0


def test_a_queue_is_behind_whatever_limits_its_consumers() -> None:
    """A window of bytes, or a filter, limits them like a window of messages."""
    broker, (narrow, filtered) = world("narrow", "filtered")
    narrow.subscribe(Narrow(10), {})
    chooser = Taker(10)
    chooser.is_filtered = True
    filtered.subscribe(chooser, {})
    for queue in (narrow, filtered):
        fill(queue, BEHIND_MESSAGES + 20)
        broker.tick.dispatch.is_behind = False
        queue.dispatch()
        assert broker.tick.dispatch.is_behind


def test_a_message_that_consumers_wait_for() -> None:
    """It is the first one for an empty queue that has consumers."""
    broker, _ = world()
    queue = broker.vhosts["/"].declare_queue("q", True, False, False, {}, None)
    queue.enqueue(message())
    assert broker.tick.dispatch.awaited == 0
    queue.subscribe(Taker(), {})
    broker.dispatch()
    for _ in range(2):
        queue.enqueue(message())
    assert broker.tick.dispatch.awaited == 1
    broker.dispatch()
    queue.enqueue(message())
    assert broker.tick.dispatch.awaited == 2


def test_a_message_that_consumers_do_not_wait_for() -> None:
    """Consumers that hold as many messages as they may do not wait for another one."""
    broker, _ = world()
    queue = broker.vhosts["/"].declare_queue("q", True, False, False, {}, None)
    queue.subscribe(Taker(1), {})
    for _ in range(2):
        queue.enqueue(message())
        broker.dispatch()
    assert queue.message_count == 1
    before = broker.tick.dispatch.awaited
    for _ in range(3):
        queue.enqueue(message())
        broker.dispatch()
    assert broker.tick.dispatch.awaited == before


def overrun(queue: ClassicQueue, count: int = 1) -> int:
    """Publish, and return how many of the messages exceed the credit of the publisher."""
    before = queue.tick.dispatch.overrun
    for _ in range(count):
        if queue.is_guarded:
            assert queue.admit(message()) == ADMITTED
        queue.enqueue(message())
    return int(queue.tick.dispatch.overrun - before)


def backlogged(taker: Taker, others: list[Taker] | None = None) -> ClassicQueue:
    """A queue with more messages than publishers may outrun its consumers by, which have taken what they could."""
    queue = ClassicQueue(1, "/", "q", "classic", False, False, None, {}, Tick(), MemoryJournal())
    queue.tick.dispatch.bound_backlog(BEHIND_MESSAGES)
    for each in [taker, *(others or [])]:
        queue.subscribe(each, {})
    fill(queue, 2 * BEHIND_MESSAGES)
    queue.dispatch()
    return queue


@pytest.mark.parametrize("others", [0, 1])
def test_publishers_outrun_consumers(others: int) -> None:
    """Messages beyond the backlog need credit, which grows with what consumers take."""
    queue = backlogged(Taker(10), [Taker(0)] * others)
    assert queue.tick.dispatch.taken == 10
    assert overrun(queue, 3) == 3


def test_publishers_do_not_wait_for_slow_work() -> None:
    """Consumers that have taken nothing for a while are not outrun, and neither are none."""
    queue = backlogged(Taker(10))
    assert overrun(queue) == 1
    queue.tick.now_ms += CREDIT_MS
    assert overrun(queue) == 0
    assert not queue.is_guarded
    assert overrun(backlogged(Taker(0))) == 0


def test_publishers_have_credit_again_when_the_backlog_is_short() -> None:
    taker = Taker(10)
    queue = backlogged(taker)
    taker.credit = BEHIND_MESSAGES
    queue.dispatch()
    assert overrun(queue) == 0


def test_a_limited_queue_stays_limited() -> None:
    """The end of the credit does not end the limits of the queue."""
    queue = backlogged(Taker(10))
    queue.configure({"x-max-length": 100_000})
    assert overrun(queue) == 1
    queue.tick.now_ms += CREDIT_MS
    assert overrun(queue) == 0
    assert queue.is_guarded


def test_without_a_limit_publishers_are_never_slowed() -> None:
    queue = backlogged(Taker(10))
    queue.tick.dispatch.bound_backlog(0)
    assert overrun(queue) == 0
