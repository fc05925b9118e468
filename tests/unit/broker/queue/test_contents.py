"""A long queue that is deleted: it is gone at once, and ticks drop its messages, however it kept them."""

import pytest

from flintmq.base.limits import STEP_UNITS
from flintmq.broker.broker import Broker
from flintmq.broker.exchange.delayed import DelayedExchange
from flintmq.broker.message import Message, Table
from flintmq.broker.queue.classic import ClassicQueue
from flintmq.broker.queue.ready import BLOCK_ENTRIES
from tests.unit.broker.memory import MemoryPages, Taker, message
from tests.unit.broker.steps import SteppingNode, longest_step

# A step ends with a block that it has begun.
PER_TICK = STEP_UNITS + BLOCK_ENTRIES
COUNT = 6 * PER_TICK
# The arguments of the queue, and headers of its messages, in which {} is the number of the message.
KINDS: dict[str, tuple[Table, str]] = {
    "ready": ({}, ""),
    "of priorities": ({"x-max-priority": 5}, "priority=2"),
    "with times to live": ({"x-message-ttl": 60_000}, ""),
    "held until a time": ({}, "delay=60000"),
    "of last values": ({"x-last-value-key": "key"}, "key={}"),
    "deduplicated": ({"x-dedup-window": 60_000}, "message_id={}"),
    "in groups": ({"x-group-header": "group"}, "group={}"),
}


class Odd(Taker):
    """A consumer that wants none of the messages."""

    def __init__(self) -> None:
        super().__init__()
        self.is_filtered = True

    def matches(self, message: Message) -> bool:
        return False


class Node(SteppingNode):
    def __init__(self, pages: MemoryPages | None = None) -> None:
        super().__init__()
        self.broker.tick.pages = pages

    def queue(self, arguments: Table) -> ClassicQueue:
        made = self.vhost.declare_queue("q", True, False, False, arguments, None)
        assert isinstance(made, ClassicQueue)
        return made

    def fill(self, queue: ClassicQueue, headers: str = "") -> None:
        for number in range(COUNT):
            self.vhost.deliver(message(str(number), True, headers.format(number)), [queue])

    def packed_queue(self) -> ClassicQueue:
        """A queue with enough messages for pages."""
        queue = self.queue({})
        for _ in range(4):
            self.fill(queue)
        return queue

    def queue_with_notes(self) -> ClassicQueue:
        """A deduplicating queue whose messages were all settled: the journal has notes of them."""
        queue = self.queue({"x-dedup-window": 60_000})
        self.fill(queue, "message_id={}")
        for _ in range(COUNT):
            entry = queue.get()
            assert entry is not None
            queue.settle(entry)
        return queue

    def queue_that_no_consumer_wants(self) -> tuple[ClassicQueue, Odd]:
        """A queue whose messages were all matched with the selector of its consumer."""
        queue = self.queue({})
        odd = Odd()
        queue.subscribe(odd, {})
        self.fill(queue)
        self.broker.dispatch()
        while queue.store.loose_count < COUNT:
            queue.touch()
            self.broker.dispatch()
        return queue, odd


@pytest.mark.parametrize("kind", KINDS)
def test_messages_in_memory_are_dropped_in_several_ticks(kind: str) -> None:
    """The client has its answer at once, each tick drops a part, and nothing is left in the end."""
    node = Node()
    arguments, headers = KINDS[kind]
    queue = node.queue(arguments)
    node.fill(queue, headers)
    assert node.kept == COUNT
    assert node.vhost.delete_queue("q", False, False, None) == COUNT
    assert (queue.message_count, queue.held_count, queue.ready_bytes) == (0, 0, 0)
    counts = node.finish()
    assert longest_step(COUNT, counts) <= PER_TICK
    assert counts[0] > 0
    assert counts[-1] == 0
    assert not node.broker.tick.steps
    assert node.broker.next_due_ms == 0


def test_messages_that_no_consumer_wants() -> None:
    """Messages that were matched with selectors go in the same way, and the consumer is told."""
    node = Node()
    _, odd = node.queue_that_no_consumer_wants()
    assert node.vhost.delete_queue("q", False, False, None) == COUNT
    assert odd.is_cancelled
    counts = node.finish()
    assert longest_step(COUNT, counts) <= PER_TICK
    assert counts[-1] == 0


def test_notes_of_messages_that_are_gone() -> None:
    """What a deduplicating queue has noted of messages that were settled is forgotten in steps, too."""
    node = Node()
    node.queue_with_notes()
    assert node.kept == COUNT
    assert node.vhost.delete_queue("q", False, False, None) == 0
    counts = node.finish()
    assert longest_step(COUNT, counts) <= PER_TICK
    assert counts[-1] == 0


def test_pages_are_dropped_in_several_ticks() -> None:
    """Packed messages of one queue go page by page, more of them in a tick than of others."""
    pages = MemoryPages()
    node = Node(pages)
    node.packed_queue()
    kept = node.kept
    assert node.vhost.delete_queue("q", False, False, None) == kept
    counts = node.finish()
    assert counts[0] > 0
    assert len(counts) > 2
    assert counts[-1] == 0
    assert not pages.kept


def test_a_queue_of_the_same_name() -> None:
    """A client may declare it again at once, and what it publishes there stays."""
    node = Node()
    queue = node.queue({})
    node.fill(queue)
    node.vhost.delete_queue("q", False, False, None)
    again = node.queue({})
    node.vhost.deliver(message("new", True), [again])
    assert node.finish()[-1] == 1
    assert [entry.message.body for entry in again.store.entries()] == [b"new"]


def test_deliveries_that_come_back() -> None:
    """What clients hold of it is dropped when they settle or return it, also before the rest is."""
    node = Node()
    queue = node.queue({"x-dedup-window": 60_000})
    node.fill(queue, "message_id={}")
    entries = [queue.get() for _ in range(3)]
    node.vhost.delete_queue("q", False, False, None)
    assert entries[0] is not None
    assert entries[1] is not None
    assert entries[2] is not None
    queue.settle(entries[0])
    queue.requeue([entries[1]])
    queue.reject(entries[2])
    assert queue.message_count == queue.unacked == 0
    assert node.finish()[-1] == 0


def test_a_crash_meanwhile() -> None:
    """A restart finds neither the queue nor those of its messages that were not dropped yet."""
    node = Node()
    node.fill(node.queue({}))
    node.vhost.delete_queue("q", False, False, None)
    assert node.kept > 0
    restarted = Broker(node.storage)
    assert restarted.recover(node.storage.memory_definitions.load()) == 0
    assert not restarted.vhosts["/"].queues


@pytest.mark.parametrize("deletes_vhost", [False, True])
def test_messages_of_a_delayed_exchange(deletes_vhost: bool) -> None:
    """They are dropped in steps when their exchange or their virtual host is deleted, and none becomes due."""
    node = Node()
    node.vhost.exchanges.declare("x", "x-delayed-message", True, False, False, {"x-delayed-type": "fanout"})
    target = node.queue({})
    node.vhost.exchanges.bind_queue(target, "x", "", {})
    exchange = node.vhost.exchanges.by_name["x"]
    assert isinstance(exchange, DelayedExchange)
    delayed = exchange.delayed_queue
    assert delayed is not None
    for number in range(COUNT):
        node.vhost.deliver(message(str(number), True, "delay=1000"), [delayed])
    assert (delayed.message_count, node.kept) == (COUNT, COUNT)
    if deletes_vhost:
        node.broker.delete_vhost("/")
    else:
        node.vhost.exchanges.delete("x", False)
    assert delayed.message_count == 0
    node.broker.now_ms += 2_000
    counts = node.finish()
    assert longest_step(COUNT, counts) <= PER_TICK
    assert counts[0] > 0
    assert counts[-1] == target.message_count == 0
    assert node.broker.next_due_ms == 0
