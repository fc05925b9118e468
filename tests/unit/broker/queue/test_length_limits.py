"""Queues with a greatest length: who has to go, whatever brought the queue beyond it, and what needs no room at all."""

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from flintmq.base.errors import AccessRefused
from flintmq.base.limits import STEP_UNITS, TRIMMED_MESSAGE_UNITS
from flintmq.broker.broker import Broker
from flintmq.broker.message import Entry, Message
from flintmq.broker.ports import PolicyRecord
from flintmq.broker.queue.classic import ClassicQueue
from flintmq.broker.queue.publish import ROUTED, STORED, TURNED_AWAY, UNDELIVERED, put, put_at_once
from flintmq.broker.queue.recovery import Recovery
from flintmq.broker.tick import Tick
from tests.unit.broker.memory import MemoryJournal, MemoryStorage, Taker, message, purge, run_due

if TYPE_CHECKING:
    from flintmq.broker.queue.base import Queue

# Messages that a tick drops because a limit was lowered.
PER_TICK = STEP_UNITS // TRIMMED_MESSAGE_UNITS


class Measured(Taker):
    """Takes bodies up to a size."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.has_byte_window = True
        self.size = size

    def is_within_window(self, message: Message) -> bool:
        return len(message.body) <= self.size


def make(**arguments: object) -> ClassicQueue:
    table = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    return ClassicQueue(1, "/", "q", "classic", False, False, None, table, Tick(), MemoryJournal())


def publish(queue: "Queue", body: str, headers: str = "") -> int:
    return put([queue], message(body, headers=headers), MemoryJournal())


def at_once(queue: "Queue", body: str, headers: str = "") -> int:
    return put_at_once([queue], message(body, headers=headers), MemoryJournal())


def ready(queue: ClassicQueue) -> list[str]:
    return [entry.message.body.decode() for entry in queue.store.entries()]


def take(queue: ClassicQueue) -> Entry:
    entry = queue.get()
    assert entry is not None
    return entry


def pass_time(queue: ClassicQueue, now_ms: int) -> None:
    queue.tick.now_ms = now_ms
    run_due(queue.tick, now_ms)


@pytest.mark.parametrize("limit", [{"max_length": 2}, {"max_length_bytes": 2}])
def test_what_comes_back_is_the_oldest(limit: dict[str, int]) -> None:
    """A full queue gives up its head when entries come back: that is what came back itself."""
    queue = make(**limit)
    publish(queue, "a")
    publish(queue, "b")
    held = [take(queue), take(queue)]
    publish(queue, "c")
    queue.requeue(held)
    assert ready(queue) == ["b", "c"]


def test_what_consumers_are_about_to_get_makes_room() -> None:
    """Had the tick been shorter, they would have it by now; so nothing has to go for what comes back."""
    queue = make(max_length=2)
    publish(queue, "a")
    held = take(queue)
    taker = Taker(credit=2)
    queue.subscribe(taker, {})
    publish(queue, "b")
    publish(queue, "c")
    queue.requeue([held])
    assert taker.bodies == ["b", "c"]
    assert ready(queue) == ["a"]


def test_a_new_limit_spares_what_consumers_are_about_to_get() -> None:
    """A policy that comes in the same tick takes nothing from them."""
    queue = make(max_length=0)
    taker = Taker(credit=1)
    queue.subscribe(taker, {})
    publish(queue, "a")
    queue.configure({"x-max-length": 0})
    assert taker.bodies == ["a"]


def test_the_end_of_a_delay_makes_the_oldest_go() -> None:
    """A delayed message needs no room while it waits, and drops the head once it is ready."""
    queue = make(max_length=1)
    publish(queue, "a")
    assert publish(queue, "later", "delay=10") == ROUTED
    assert ready(queue) == ["a"]
    pass_time(queue, 10)
    assert ready(queue) == ["later"]


def test_the_end_of_a_pause_makes_the_oldest_go() -> None:
    """So does a retry whose pause is over: it goes back to its place, which is the head."""
    queue = make(max_length=1, delayed_retry_type="all", delayed_retry_min=10)
    publish(queue, "a")
    queue.fail([take(queue)])
    publish(queue, "b")
    pass_time(queue, 10)
    assert ready(queue) == ["b"]


def test_what_expires_while_it_pauses_needs_no_room() -> None:
    """It dies of its time to live, whatever is on the queue by then."""
    queue = make(max_length=1, delayed_retry_type="all", delayed_retry_min=10, dead_letter_exchange="")
    publish(queue, "a", "ttl=5")
    queue.fail([take(queue)])
    publish(queue, "b")
    pass_time(queue, 5)
    assert [(letter.entry.message.body, letter.reason) for letter in queue.tick.dead_letters] == [(b"a", "expired")]
    assert ready(queue) == ["b"]


def test_what_is_withheld_no_more_makes_the_oldest_go() -> None:
    """So does what a channel rejected, once that channel is gone."""
    queue = make(max_length=1)
    channel = object()
    publish(queue, "a")
    queue.requeue_excluding([take(queue)], channel)
    publish(queue, "b")
    queue.context_ended(channel)
    assert ready(queue) == ["b"]


def test_a_restart_makes_the_oldest_go() -> None:
    """What consumers had is ready again, so there may be more than the limit."""
    queue = make(max_length=2)
    for seq, body in enumerate("abc"):
        Recovery(queue).restore(Entry(message(body), seq))
    Recovery(queue).start_at(3)
    assert ready(queue) == ["b", "c"]


def test_publishers_that_are_to_stop_make_nothing_go() -> None:
    """With reject-publish the queue is over its limit for a while; publishers wait until it is not."""
    queue = make(max_length=1, overflow="reject-publish")
    publish(queue, "a")
    held = take(queue)
    publish(queue, "b")
    queue.requeue([held])
    assert ready(queue) == ["a", "b"]
    take(queue)
    assert publish(queue, "c") == TURNED_AWAY
    take(queue)
    assert publish(queue, "c") == ROUTED


def test_no_message_makes_a_more_important_one_go() -> None:
    """The oldest of the lowest priority goes first, and that may be the newcomer."""
    queue = make(max_length=2, max_priority=9)
    publish(queue, "high", "priority=5")
    publish(queue, "low", "priority=1")
    publish(queue, "middle", "priority=2")
    assert ready(queue) == ["high", "middle"]
    assert publish(queue, "least") == STORED
    assert ready(queue) == ["high", "middle"]
    publish(queue, "second", "priority=2")
    assert ready(queue) == ["high", "second"]


def test_priorities_beyond_the_highest_are_equal() -> None:
    """What the queue does not tell apart goes by age."""
    queue = make(max_length=1, max_priority=3)
    publish(queue, "nine", "priority=9")
    publish(queue, "three", "priority=3")
    assert ready(queue) == ["three"]


def test_a_last_value_takes_the_room_of_the_one_it_replaces() -> None:
    """Of bytes it may need more than that, and then others go."""
    queue = make(max_length_bytes=4, last_value_key="key")
    publish(queue, "aa", "key=1")
    publish(queue, "bb", "key=2")
    publish(queue, "cc", "key=2")
    assert ready(queue) == ["aa", "cc"]
    publish(queue, "ddd", "key=2")
    assert ready(queue) == ["ddd"]


def test_no_expired_message_is_given_out_to_make_room() -> None:
    """What is over by now goes to nobody, even where the tick that would tell has not ended."""
    queue = make(max_length=1)
    taker = Taker()
    publish(queue, "a", "ttl=5")
    queue.subscribe(taker, {})
    queue.tick.now_ms = 10
    publish(queue, "b")
    assert taker.bodies == []
    assert ready(queue) == ["b"]


# -- amqp-0-9-1 basic.publish.immediate ---------------------------------------------------------------------------


def test_at_once_is_to_the_active_consumer() -> None:
    """Who waits for its turn does not take what the single active one cannot."""
    queue = make(single_active_consumer=True)
    queue.subscribe(Taker(credit=0), {})
    queue.subscribe(Taker(), {})
    assert at_once(queue, "m") == UNDELIVERED


def test_at_once_is_within_the_window() -> None:
    """A consumer whose window of bytes is too small for a message does not take it at once."""
    queue = make()
    queue.subscribe(Measured(2), {})
    assert at_once(queue, "mmm") == UNDELIVERED
    assert at_once(queue, "mm") == ROUTED


def test_a_delayed_message_does_not_go_at_once() -> None:
    """However many consumers wait."""
    queue = make()
    queue.subscribe(Taker(), {})
    assert at_once(queue, "m", "delay=10") == UNDELIVERED


def test_what_is_withheld_does_not_stand_in_the_way() -> None:
    """The queue goes on with what is behind it."""
    queue = make()
    taker = Taker(credit=2)
    queue.subscribe(taker, {})
    taker.context = taker
    publish(queue, "a")
    queue.dispatch()
    queue.requeue_excluding(taker.taken, taker)
    assert at_once(queue, "b") == ROUTED


def test_a_full_queue_asks_the_active_consumer_only() -> None:
    """What it cannot take has no room, whoever else waits."""
    queue = make(single_active_consumer=True, max_length=0, overflow="reject-publish")
    queue.subscribe(Taker(credit=1), {})
    queue.subscribe(Taker(), {})
    assert publish(queue, "a") == ROUTED
    queue.dispatch()
    assert publish(queue, "b") == TURNED_AWAY


def test_single_active_and_exclusive_exclude_each_other() -> None:
    """An exclusive consumer leaves no second one to wait for its turn: RabbitMQ refuses it, too."""
    queue = make(single_active_consumer=True)
    with pytest.raises(AccessRefused, match="^queue 'q' in vhost '/' in exclusive use$"):
        queue.subscribe(Taker(exclusive=True), {})
    queue.subscribe(Taker(), {})


# -- limits that are lowered ----------------------------------------------------------------------------------------


class Lowered:
    """A queue of many messages whose greatest length a policy has lowered to 10."""

    def __init__(self, count: int = 4 * PER_TICK, **arguments: object) -> None:
        self.broker = Broker(MemoryStorage())
        self.vhost = self.broker.add_vhost("/")
        table = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
        queue = self.vhost.declare_queue("q", True, False, False, table, None)
        assert isinstance(queue, ClassicQueue)
        self.queue = queue
        for number in range(count):
            publish(queue, str(number))
        self.broker.put_rule(PolicyRecord("/", "p", "q", {"max-length": 10}, "queues", 0, False))

    def finish(self) -> list[int]:
        """The lengths after each tick."""
        lengths = [self.queue.message_count]
        while self.broker.dispatch():
            lengths.append(self.queue.message_count)
        lengths.append(self.queue.message_count)
        return lengths


def test_a_lowered_limit_takes_several_ticks() -> None:
    """Each tick drops a part of the messages, the oldest first, until the queue has its length."""
    lowered = Lowered()
    lengths = lowered.finish()
    assert max(before - after for before, after in pairwise(lengths)) <= PER_TICK
    assert len(lengths) > 3
    first = 4 * PER_TICK - 10
    assert ready(lowered.queue) == [str(first + number) for number in range(10)]
    assert not lowered.broker.tick.steps


def test_a_few_are_dropped_at_once() -> None:
    """If few messages are too many, none of them is there when the policy is set."""
    lowered = Lowered(PER_TICK)
    assert lowered.queue.message_count == 10
    assert not lowered.queue.is_trimming


def test_many_queues_share_a_tick() -> None:
    """A policy that makes many queues shorter is not applied to all of them in one tick."""
    broker = Broker(MemoryStorage())
    vhost = broker.add_vhost("/")
    queues = [vhost.declare_queue(f"q{number}", True, False, False, {}, None) for number in range(20)]
    for queue in queues:
        for number in range(PER_TICK // 2):
            publish(queue, str(number))
    counts = [sum(queue.message_count for queue in queues)]
    broker.put_rule(PolicyRecord("/", "p", "q", {"max-length": 0}, "queues", 0, False))
    counts.append(sum(queue.message_count for queue in queues))
    while broker.dispatch():
        counts.append(sum(queue.message_count for queue in queues))
    counts.append(sum(queue.message_count for queue in queues))
    assert max(before - after for before, after in pairwise(counts)) <= 2 * PER_TICK
    assert counts[-1] == 0


def test_messages_that_come_meanwhile() -> None:
    """New messages are taken, and each makes the queue shorter; the newest are there in the end."""
    lowered = Lowered()
    length = lowered.queue.message_count
    for number in range(50):
        assert publish(lowered.queue, f"new {number}") == ROUTED
    assert lowered.queue.message_count == length - 50
    lowered.finish()
    assert ready(lowered.queue) == [f"new {number}" for number in range(40, 50)]


def test_a_limit_that_is_lifted_meanwhile() -> None:
    """Once the policy is gone, or refuses publishers instead, nothing more is dropped."""
    lowered = Lowered()
    lowered.broker.put_rule(
        PolicyRecord("/", "p", "q", {"max-length": 10, "overflow": "reject-publish"}, "queues", 0, False)
    )
    length = lowered.queue.message_count
    lowered.finish()
    assert lowered.queue.message_count == length
    assert publish(lowered.queue, "new") == TURNED_AWAY
    lowered.broker.put_rule(PolicyRecord("/", "p", "q", {"max-length": 10}, "queues", 0, False))
    lowered.finish()
    assert lowered.queue.message_count == 10


def test_a_queue_that_goes_meanwhile() -> None:
    """There is nothing left to do for a queue that was purged or deleted."""
    for act in (lambda made: purge(made.queue), lambda made: made.vhost.remove_queue(made.queue)):
        lowered = Lowered(dead_letter_exchange="")
        act(lowered)
        lowered.finish()
        assert not lowered.broker.tick.steps
        assert not lowered.queue.is_trimming


def test_dead_letters_of_a_lowered_limit() -> None:
    """All messages that the ticks drop are dead-lettered."""
    lowered = Lowered(dead_letter_exchange="", dead_letter_routing_key="dead")
    dead = lowered.vhost.declare_queue("dead", True, False, False, {}, None)
    lowered.finish()
    assert (lowered.queue.message_count, dead.message_count) == (10, 4 * PER_TICK - 10)
