"""A virtual host of many queues that is deleted: it is gone at once, and ticks drop the messages of its queues."""

from itertools import pairwise

from flintmq.base.limits import DELETED_QUEUE_UNITS, STEP_UNITS
from flintmq.broker.exchange.routing import Route
from flintmq.broker.message import Address, Table
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.entries import entry_queue
from flintmq.broker.vhost import VHost
from tests.unit.broker.memory import Taker, message
from tests.unit.broker.steps import SteppingNode

PER_TICK = STEP_UNITS // DELETED_QUEUE_UNITS
COUNT = 4 * PER_TICK


class Node(SteppingNode):
    def __init__(self, count: int = COUNT, arguments: Table | None = None) -> None:
        super().__init__()
        self.queues = self.fill(self.vhost, count, arguments or {})

    def fill(self, vhost: VHost, count: int, arguments: Table) -> list[Queue]:
        made = [vhost.declare_queue(f"q{number}", True, False, False, arguments, None) for number in range(count)]
        for queue in made:
            vhost.exchanges.bind_queue(queue, "amq.fanout", "", {})
            vhost.deliver(message("m", True), [queue])
        return made


def test_messages_are_dropped_in_several_ticks() -> None:
    """Each tick deletes some queues, until no message is in the journal."""
    node = Node()
    node.broker.delete_vhost("/")
    counts = node.finish()
    assert counts[0] > 0
    assert max(before - after for before, after in pairwise([COUNT, *counts])) <= PER_TICK
    assert counts[-1] == 0
    assert not node.broker.tick.steps


def test_it_is_gone_at_once() -> None:
    """Nobody finds the virtual host or its definitions, its queues take nothing back, and totals have their counts."""
    node = Node()
    entry = entry_queue(node.queues[0], "basic.get").get()
    assert entry is not None
    gone = node.broker.tick.churn.gone.gone.got
    node.broker.delete_vhost("/")
    assert not node.broker.vhosts
    assert node.storage.memory_definitions.queues == {}
    assert node.broker.tick.churn.queues_deleted == COUNT
    assert node.broker.tick.churn.gone.gone.got == gone + 1
    assert node.queues[0].gone
    node.queues[0].requeue([entry])
    assert node.queues[0].unacked == 0


def test_another_one_of_the_same_name() -> None:
    """A virtual host that is made meanwhile keeps its queues, messages and definitions."""
    node = Node()
    node.broker.delete_vhost("/")
    vhost = node.broker.add_vhost("/")
    made = node.fill(vhost, 3, {})
    node.finish()
    assert list(vhost.queues.values()) == made
    assert [queue.message_count for queue in made] == [1, 1, 1]
    assert (node.kept, len(node.storage.memory_definitions.queues)) == (3, 3)


def test_time_goes_on_meanwhile() -> None:
    """Messages and queues that expire meanwhile do nothing to a new virtual host of the same name."""
    node = Node(
        arguments={
            "x-message-ttl": 10,
            "x-expires": 10,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "dead",
        }
    )
    node.broker.delete_vhost("/")
    vhost = node.broker.add_vhost("/")
    dead = vhost.declare_queue("dead", True, False, False, {}, None)
    node.broker.now_ms += 1_000
    assert node.finish()[-1] == 0
    assert dead.message_count == 0
    assert node.broker.next_due_ms == 0


# -- unused queues --------------------------------------------------------------------------------------------------


def test_unused_queues_are_deleted_in_several_ticks() -> None:
    """However many are unused at the same time, a tick deletes some, and the next one follows without a timer."""
    node = Node(arguments={"x-expires": 1_000})
    node.broker.now_ms += 1_000
    counts = node.finish()
    # Bindings and messages are work, too.
    assert max(before - after for before, after in pairwise(counts)) <= PER_TICK
    assert counts[-1] == 0
    assert not node.vhost.queues


def test_unused_queues_share_a_tick_with_other_steps() -> None:
    """Unused queues and those of a deleted virtual host are deleted by the work of one step together."""
    node = Node(arguments={"x-expires": 1_000})
    other = node.broker.add_vhost("other")
    for number in range(COUNT):
        queue = other.declare_queue(f"other{number}", True, False, False, {}, None)
        other.deliver(message("m", True), [queue])
    node.broker.delete_vhost("other")
    node.broker.now_ms += 1_000
    counts = node.finish()
    assert max(before - after for before, after in pairwise(counts)) <= PER_TICK
    assert counts[-1] == 0
    assert not node.vhost.queues


def test_a_queue_that_is_used_meanwhile() -> None:
    """A queue that was found unused, and is used before its turn, stays until it is unused again."""
    node = Node(arguments={"x-expires": 1_000})
    node.broker.now_ms += 1_000
    assert node.broker.dispatch()
    last = next(reversed(node.vhost.queues.values()))
    last.used()
    node.finish()
    assert list(node.vhost.queues.values()) == [last]
    assert node.broker.next_due_ms == node.broker.now_ms + 1_000
    node.broker.now_ms += 1_000
    node.broker.dispatch()
    assert not node.vhost.queues


# -- exclusive queues -----------------------------------------------------------------------------------------------


class Owned(Node):
    """Exclusive queues of one connection, with a message and a binding each."""

    def __init__(self, count: int = COUNT) -> None:
        super().__init__(0)
        self.owner = object()
        self.owned = self.declare(self.owner, count)

    def declare(self, owner: object, count: int) -> list[Queue]:
        made = [self.vhost.declare_queue(f"q{number}", False, True, False, {}, owner) for number in range(count)]
        for queue in made:
            self.vhost.exchanges.bind_queue(queue, "amq.fanout", "", {})
            self.vhost.deliver(message(), [queue])
        return made

    @property
    def left(self) -> int:
        """The messages of the connection's queues."""
        return sum(queue.message_count for queue in self.owned)

    def reached(self) -> list[Queue]:
        """The queues that messages are routed to by the bindings, and by the name of the first queue."""
        router = self.vhost.router
        by_binding = router.queues(Route(Address("amq.fanout", "")), message())
        return [*by_binding, *router.queues(Route(Address("", "q0")), message())]


def test_exclusive_queues_are_dropped_in_several_ticks() -> None:
    """However many exclusive queues a connection has, each tick after its end drops the messages of some."""
    node = Owned()
    node.vhost.remove_queues_of(node.owner)
    counts = [COUNT, node.left]
    while node.broker.dispatch():
        counts.append(node.left)
    counts.append(node.left)
    assert max(before - after for before, after in pairwise(counts)) <= PER_TICK
    assert len(counts) > 4
    assert counts[-1] == 0
    assert not node.broker.tick.steps


def test_exclusive_queues_are_gone_at_once() -> None:
    """Nobody finds them once their connection has ended, and another one may declare queues of their names."""
    node = Owned()
    assert len(node.reached()) == COUNT + 1
    node.vhost.remove_queues_of(node.owner)
    assert not node.vhost.queues
    assert node.reached() == []
    assert node.broker.tick.churn.queues_deleted == COUNT
    assert {queue.owner for queue in node.owned} == {None}
    again = node.declare(object(), 3)
    node.finish()
    assert list(node.vhost.queues.values()) == again
    assert [queue.message_count for queue in again] == [1, 1, 1]
    assert node.reached() == [*again, again[0]]
    node.vhost.remove_queues_of(node.owner)
    assert len(node.vhost.queues) == 3


def test_exclusive_queues_that_somebody_has_to_be_told_of() -> None:
    """A queue with a consumer is deleted at once, so that the consumer is told."""
    node = Owned(2)
    taker = Taker()
    node.owned[0].subscribe(taker, {})
    node.vhost.remove_queues_of(node.owner)
    assert taker.is_cancelled
    node.finish()
    assert node.left == 0


def test_bindings_of_a_deleted_virtual_host() -> None:
    """Its exchanges forget their bindings in steps."""
    node = Node(1)
    for number in range(STEP_UNITS):
        node.vhost.exchanges.bind_queue(node.queues[0], "amq.fanout", "", {"h": number})
    source = node.vhost.exchanges.find("amq.fanout")
    known = [len(source.match([""], None))]
    node.broker.delete_vhost("/")
    known.append(len(source.match([""], None)))
    while node.broker.dispatch():
        known.append(len(source.match([""], None)))
    known.append(len(source.match([""], None)))
    assert max(before - after for before, after in pairwise(known)) <= STEP_UNITS // 4
    assert known[-1] == 0
