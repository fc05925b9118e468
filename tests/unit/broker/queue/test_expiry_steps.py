"""Many messages that expire at once: a tick removes a part of them, and none of them is delivered."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from flintmq.base.limits import EXPIRY_STEP_MESSAGES
from flintmq.base.work import WORK
from flintmq.broker.broker import Broker
from flintmq.broker.queue.classic import ClassicQueue
from flintmq.broker.tick import EXPIRED
from tests.unit.broker.memory import MemoryPages, MemoryStorage, Taker, message

# More than a queue keeps outside of pages.
COUNT = 20 * EXPIRY_STEP_MESSAGES
TTL_MS = 1_000


class Node:
    def __init__(self, with_pages: bool) -> None:
        storage = MemoryStorage()
        self.broker = Broker(storage)
        if with_pages:
            self.broker.tick.pages = MemoryPages()
        self.broker.now_ms = 1_000_000
        self.vhost = self.broker.add_vhost("/")

    def queue(self, name: str = "q", **arguments: object) -> ClassicQueue:
        table = {"x-message-ttl": TTL_MS, **{key.replace("_", "-"): value for key, value in arguments.items()}}
        made = self.vhost.declare_queue(name, True, False, False, table, None)
        assert isinstance(made, ClassicQueue)
        return made

    def pass_time(self) -> None:
        self.broker.now_ms += 2 * TTL_MS

    def counts(self, of: Callable[[], int]) -> list[int]:
        """The value after each tick, until the broker has nothing to do."""
        found = []
        is_busy = True
        while is_busy:
            is_busy = self.broker.dispatch()
            found.append(of())
        return found


@pytest.fixture(params=[False, True], ids=["memory", "pages"])
def node(request: pytest.FixtureRequest) -> Node:
    return Node(request.param)


def fill(queue: ClassicQueue, count: int) -> None:
    for number in range(count):
        queue.enqueue(message(str(number)))


def test_a_part_in_each_tick(node: Node) -> None:
    """All of them are gone in the end, each tick has taken a part, and the next tick follows without a timer."""
    queues = [node.queue("a"), node.queue("b")]
    for queue in queues:
        fill(queue, COUNT)
    node.pass_time()
    counts = node.counts(lambda: sum(queue.message_count for queue in queues))
    assert counts[-1] == 0
    # A page is taken out of the queue as a whole.
    assert max(before - after for before, after in pairwise([2 * COUNT, *counts])) <= 5 * EXPIRY_STEP_MESSAGES
    assert sum(len(queue.store.entries()) for queue in queues) == 0
    assert node.broker.next_due_ms == 0


def test_few_entries_of_pages_are_in_memory(node: Node) -> None:
    """Entries of pages expire before further pages are read."""
    queue = node.queue()
    fill(queue, COUNT)
    before = 0 if queue._expiry is None else len(queue._expiry)
    node.pass_time()

    def loose() -> int:
        return 0 if queue._expiry is None else len(queue._expiry)

    assert max(node.counts(loose)) <= before + 5 * EXPIRY_STEP_MESSAGES


def test_dead_letters_of_all(node: Node) -> None:
    """Each of them is dead-lettered once, because it has expired."""
    queue = node.queue(x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    dead = node.vhost.declare_queue("dead", True, False, False, {}, None)
    fill(queue, COUNT)
    node.pass_time()
    node.counts(lambda: 0)
    assert (queue.message_count, dead.message_count) == (0, COUNT)
    assert set(node.broker.tick.churn.dead_letters) == {("classic", "at_most_once", EXPIRED)}


def test_consumers_get_none_of_them(node: Node) -> None:
    """A consumer gets the message behind them, in order, however many ticks it takes to remove them."""
    queue = node.queue()
    fill(queue, COUNT)
    node.pass_time()
    queue.enqueue(message("last"))
    consumer = Taker()
    queue.subscribe(consumer, {})
    counts = node.counts(lambda: queue.message_count)
    assert consumer.bodies == ["last"]
    assert len(counts) > 3


def test_a_dispatch_has_a_bound(node: Node) -> None:
    """A dispatch passes over some of them, and asks to be called again."""
    queue = node.queue()
    fill(queue, COUNT)
    node.pass_time()
    queue.enqueue(message("last"))
    consumer = Taker()
    queue.subscribe(consumer, {})
    queue.dispatched()
    assert queue.dispatch()
    assert queue.message_count >= COUNT + 1 - EXPIRY_STEP_MESSAGES


@pytest.mark.parametrize("consumers", [1, 2])
def test_a_client_that_asks_does_not_stop_deliveries(node: Node, consumers: int) -> None:
    """Consumers get what is behind the expired messages, some of which basic.get has removed."""
    queue = node.queue()
    fill(queue, COUNT)
    node.pass_time()
    takers = [Taker() for _ in range(consumers)]
    for taker in takers:
        queue.subscribe(taker, {})
    for body in ("next", "last"):
        queue.enqueue(message(body))
    assert queue.get() is None
    assert queue.is_behind
    node.counts(lambda: 0)
    assert [body for taker in takers for body in taker.bodies] == ["next", "last"]
    assert queue.get() is None
    assert not queue.is_behind


def test_a_client_that_asks_gets_the_one_behind_them(node: Node) -> None:
    """basic.get removes a part of the expired messages at a time, until it finds the one behind them."""
    queue = node.queue()
    fill(queue, COUNT)
    node.pass_time()
    queue.enqueue(message("last"))
    counts = [queue.message_count]
    entry = queue.get()
    while entry is None:
        assert queue.is_behind
        counts.append(queue.message_count)
        entry = queue.get()
    assert entry.message.body == b"last"
    # A page is taken out of the queue as a whole.
    assert max(before - after for before, after in pairwise(counts)) <= 6 * EXPIRY_STEP_MESSAGES
    assert queue.got_empty == 0


def test_a_dispatch_has_one_bound_for_all_its_deliveries() -> None:
    """Expired messages between the ones that a consumer gets count together, not for each delivery anew."""
    node = Node(False)
    node.broker.tick.pages = None
    queue = node.vhost.declare_queue("q", False, False, False, {}, None)
    assert isinstance(queue, ClassicQueue)
    for number in range(COUNT):
        queue.enqueue(message(str(number), headers="" if number % 100 == 99 else "ttl=1"))
    node.pass_time()
    consumer = Taker()
    queue.subscribe(consumer, {})
    assert queue.dispatch()
    assert COUNT - queue.message_count <= EXPIRY_STEP_MESSAGES + len(consumer.bodies)
    assert 0 < len(consumer.bodies) < COUNT // 100
    node.counts(lambda: 0)
    assert len(consumer.bodies) == COUNT // 100


def test_a_client_that_asks_again_leaves_the_others_to_the_ticks() -> None:
    """While ticks have not kept up, basic.get removes only expired messages in front: a step, and not another one."""
    node = Node(False)
    node.broker.tick.pages = None
    queue = node.queue()
    fill(queue, COUNT)
    node.pass_time()
    assert queue.get() is None
    before = queue.message_count
    assert queue.get() is None
    assert before - queue.message_count == EXPIRY_STEP_MESSAGES


def test_who_removes_expired_messages_pays_for_them() -> None:
    """What a basic.get removes is work, by which its client gets less done in a tick."""
    node = Node(False)
    node.broker.tick.pages = None
    queue = node.queue()
    fill(queue, COUNT)
    node.pass_time()
    before, spent = queue.message_count, WORK.spent
    queue.get()
    assert WORK.spent - spent >= before - queue.message_count > 0


def test_dead_letters_count_twice() -> None:
    """Half as many expire in a tick if they are dead-lettered, because the tick publishes dead letters, too."""
    node = Node(False)
    queue = node.queue(x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    dead = node.vhost.declare_queue("dead", True, False, False, {}, None)
    fill(queue, COUNT)
    node.pass_time()
    counts = node.counts(lambda: dead.message_count + len(node.broker.tick.dead_letters))
    assert max(after - before for before, after in pairwise([0, *counts])) == EXPIRY_STEP_MESSAGES // 2
    assert (queue.message_count, dead.message_count) == (0, COUNT)
