"""A long queue that is purged: ticks drop its messages, however it keeps them, and nobody waits for all of them."""

import pytest

from flintmq.base.errors import AmqpError, InternalError
from flintmq.broker.queue.classic import ClassicQueue
from flintmq.broker.queue.purge import Purge
from tests.unit.broker.memory import MemoryPages, Taker, got, message
from tests.unit.broker.queue.test_contents import COUNT, KINDS, PER_TICK, Node
from tests.unit.broker.steps import longest_step


class Purging:
    """A purge of a queue, as far as its first step."""

    def __init__(self, node: Node, queue: ClassicQueue) -> None:
        self.ends: list[AmqpError | None] = []
        self.work = Purge(queue)
        node.broker.tick.begin(self.work)
        self.work.on_end = lambda: self.ends.append(self.work.fault)


@pytest.mark.parametrize("kind", KINDS)
def test_messages_in_memory_are_dropped_in_several_ticks(kind: str) -> None:
    """Each tick drops a part; whoever asked is told at the end, and the queue takes messages as before."""
    node = Node()
    arguments, headers = KINDS[kind]
    queue = node.queue(arguments)
    node.fill(queue, headers)
    purging = Purging(node, queue)
    assert purging.work.count == COUNT
    assert not purging.work.is_over
    counts = node.finish()
    assert longest_step(COUNT, counts) <= PER_TICK
    assert counts[0] > 0
    assert counts[-1] == 0
    assert purging.ends == [None]
    assert (queue.message_count, queue.held_count, queue.ready_bytes, queue.kept_count) == (0, 0, 0, 0)
    assert not node.broker.tick.steps
    node.fill(queue, headers)
    assert queue.message_count + queue.held_count == node.kept == COUNT


def test_messages_that_come_meanwhile_stay() -> None:
    """A purge ends, and takes only what was there before it, whatever priority the newer messages have."""
    node = Node()
    queue = node.queue({"x-max-priority": 5})
    node.fill(queue, "priority=3")
    purging = Purging(node, queue)
    for priority in (1, 3, 5):
        node.vhost.deliver(message(f"new {priority}", True, f"priority={priority}"), [queue])
    assert node.finish()[-1] == 3
    assert purging.ends == [None]
    assert [entry.message.body for entry in queue.store.entries()] == [b"new 5", b"new 3", b"new 1"]


def test_consumers_meanwhile() -> None:
    """They may take messages that the purge has not reached, and keep them."""
    node = Node()
    queue = node.queue({})
    node.fill(queue)
    purging = Purging(node, queue)
    taker = Taker(credit=10)
    queue.subscribe(taker, {})
    node.finish()
    assert purging.ends == [None]
    assert (len(taker.taken), queue.message_count, node.kept) == (10, 0, 10)


def test_messages_that_no_consumer_wants() -> None:
    """Messages that were matched with selectors go in the same way."""
    node = Node()
    queue, _ = node.queue_that_no_consumer_wants()
    purging = Purging(node, queue)
    counts = node.finish()
    assert longest_step(COUNT, counts) <= PER_TICK
    assert (counts[-1], purging.ends) == (0, [None])


def test_notes_of_messages_that_are_gone() -> None:
    """What a deduplicating queue has noted of messages that were settled is forgotten in steps, too."""
    node = Node()
    purging = Purging(node, node.queue_with_notes())
    assert purging.work.count == 0
    counts = node.finish()
    assert longest_step(COUNT, counts) <= PER_TICK
    assert (counts[-1], purging.ends) == (0, [None])


def test_pages_are_dropped_in_several_ticks() -> None:
    """Packed messages go page by page, more of them in a tick than of others; newer pages stay."""
    pages = MemoryPages()
    node = Node(pages)
    queue = node.packed_queue()
    purging = Purging(node, queue)
    assert node.kept > 0
    node.vhost.deliver(message("new", True), [queue])
    counts = node.finish()
    assert len(counts) > 2
    assert counts[-1] == 1
    assert purging.ends == [None]
    assert not pages.kept
    entry = got(queue)
    assert entry is not None
    assert entry.message.body == b"new"


def test_a_page_that_cannot_be_read() -> None:
    """Whoever asked is told of it; the page and what is behind it stay."""
    pages = MemoryPages()
    node = Node(pages)
    queue = node.packed_queue()
    purging = Purging(node, queue)
    pages.is_readable = False
    node.finish()
    (fault,) = purging.ends
    assert isinstance(fault, InternalError)
    assert not purging.work.is_over
    assert queue.message_count > 0


def test_the_queue_is_deleted_meanwhile() -> None:
    """The deletion takes what is left, and the purge is over."""
    node = Node()
    queue = node.queue({"x-dedup-window": 60_000})
    node.fill(queue, "message_id={}")
    purging = Purging(node, queue)
    node.vhost.delete_queue("q", False, False, None)
    assert node.finish()[-1] == 0
    assert purging.ends == [None]


def test_duplicates_of_purged_messages() -> None:
    """They are no duplicates any more, even while the purge goes on; those of newer messages are."""
    node = Node()
    queue = node.queue({"x-dedup-window": 60_000})
    node.fill(queue, "message_id={}")
    purging = Purging(node, queue)
    for _ in range(2):
        node.vhost.deliver(message("new", True, "message_id=5"), [queue])
    node.finish()
    node.vhost.deliver(message("new", True, "message_id=5"), [queue])
    assert purging.ends == [None]
    assert queue.message_count == 1
