"""The outcomes of a delivery on a queue, as AMQP 1.0 has them."""

import pytest

from flintmq.broker.message import Entry, Message, Table
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.classic import view_of
from flintmq.broker.queue.entries import entry_queue
from flintmq.broker.queue.settlement import ACCEPTED, FAILED, REJECTED, RELEASED, Outcome, discarded, modified
from tests.unit.broker import world as worlds
from tests.unit.broker.memory import HeaderCodec, Taker, got, message, purge


class Link(Taker):
    """Takes one entry at a time, and is its own context."""

    def __init__(self, queue: Queue) -> None:
        super().__init__(0)
        self.context = self
        self.queue = queue
        queue.subscribe(self, {})

    def next(self) -> Entry | None:
        count = len(self.taken)
        self.credit = 1
        self.queue.touch()
        self.queue.dispatch()
        self.credit = 0
        return self.taken[-1] if len(self.taken) > count else None

    def settle(self, outcome: Outcome) -> None:
        outcome.apply(self.queue, self.taken[-1], self)


class World(worlds.World):
    def __init__(self, arguments: Table | None = None) -> None:
        super().__init__()
        self.dead = self.declare("dead")
        dead_letters: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        self.declare("q", {**dead_letters, **(arguments or {})})


def test_accepted_and_rejected() -> None:
    """What is accepted is gone; what is rejected is a dead letter."""
    world = World()
    world.put("accepted", "rejected")
    ACCEPTED.apply(world.queue, world.take(), None)
    REJECTED.apply(world.queue, world.take(), None)
    world.broker.dispatch()
    assert world.queue.message_count == 0
    assert list(world.storage.memory_journal.kept.values()) == [b"rejected"]
    assert world.dead.message_count == 1


@pytest.mark.parametrize(
    ("outcome", "count"), [(RELEASED, 0), (modified(False, False), 0), (FAILED, 1), (modified(True, False), 1)]
)
def test_what_counts_as_failed(outcome: Outcome, count: int) -> None:
    """What comes back has its old place, says that it was taken, and counts where a delivery failed."""
    world = World()
    world.put("first", "second")
    for times in range(1, 4):
        outcome.apply(world.queue, world.take(), None)
        entry = world.take()
        assert (entry.message.body, entry.redelivered, entry.returns) == (b"first", True, times * count)
        RELEASED.apply(world.queue, entry, None)


@pytest.mark.parametrize(
    ("outcome", "is_limited"), [(RELEASED, False), (modified(False, False), False), (FAILED, True)]
)
def test_the_delivery_limit_is_of_failures(outcome: Outcome, is_limited: bool) -> None:
    """A message that is released comes back for ever; one that failed too often is a dead letter."""
    world = World({"x-delivery-limit": 2})
    world.put("m")
    letters = []
    for _ in range(3):
        entry = world.take()
        letters.append(outcome.makes_dead_letter(world.queue, entry))
        outcome.apply(world.queue, entry, None)
        world.broker.dispatch()
    assert letters == [False, False, is_limited]
    assert (world.queue.message_count, world.dead.message_count) == ((0, 1) if is_limited else (1, 0))


@pytest.mark.parametrize("delivery_failed", [False, True])
def test_discarded(delivery_failed: bool) -> None:
    """It is a dead letter at once, however often it may fail."""
    world = World({"x-delivery-limit": 5})
    world.put("m")
    entry = world.take()
    outcome = discarded(delivery_failed)
    assert outcome.makes_dead_letter(world.queue, entry)
    outcome.apply(world.queue, entry, None)
    world.broker.dispatch()
    assert (world.queue.message_count, world.queue.unacked, world.dead.message_count) == (0, 0, 1)
    assert entry.returns == delivery_failed


def test_undeliverable_here() -> None:
    """It goes to other links, not to that one again, whatever becomes of it there; until that link has ended."""
    world = World()
    first, second = Link(world.queue), Link(world.queue)
    world.put("m")
    assert first.next() is not None
    first.settle(modified(False, True))
    assert first.next() is None
    assert second.next() is not None
    second.settle(RELEASED)
    assert first.next() is None
    assert second.next() is not None
    second.settle(modified(True, True))
    assert (first.next(), second.next()) == (None, None)
    third = Link(world.queue)
    assert third.next() is not None
    third.settle(RELEASED)
    world.queue.context_ended(second)
    assert first.next() is None
    entry = second.next()
    assert entry is not None
    assert entry.returns == 1
    second.settle(RELEASED)
    world.queue.context_ended(first)
    assert first.next() is not None
    first.settle(ACCEPTED)
    assert world.queue.message_count == 0
    assert not world.storage.memory_journal.kept


def test_undeliverable_here_holds_up_nobody() -> None:
    """Behind a message that is not for a link, it gets the others; and it gets a new one with the number of none."""
    world = World()
    link = Link(world.queue)
    world.put("a", "b")
    assert link.next() is not None
    link.settle(modified(False, True))
    entry = link.next()
    assert entry is not None
    assert entry.message.body == b"b"
    link.settle(RELEASED)
    assert link.next() is entry
    assert world.queue.message_count == 1
    assert purge(entry_queue(world.queue, "queue.purge")) == 1
    link.settle(RELEASED)
    assert link.next() is entry


def test_annotations_are_merged() -> None:
    """The message has them from now on, in the journal too; its body, its place and what it asks for stay."""
    world = World()
    world.vhost.deliver(message("m", persistent=True, headers="a=1;b=2"), [world.queue])
    entry = world.take()
    original = entry.message
    modified(True, False, {"b": 3, "c": 4}).apply(world.queue, entry, None)
    again = world.take()
    assert again.message.properties == b"a=1;b=3;persistent=1;c=4"
    assert (again.message.body, again.message.options) == (original.body, original.options)
    assert world.storage.memory_journal.replaced == {(world.queue.id, again.seq): again.message.properties}
    modified(False, False, {}).apply(world.queue, again, None)
    assert world.take().message is again.message


def test_annotations_of_what_is_not_stored() -> None:
    """A transient message is annotated, too, and the journal hears nothing of it."""
    world = World()
    world.vhost.deliver(message("m"), [world.queue])
    modified(False, False, {"b": 3}).apply(world.queue, world.take(), None)
    assert world.take().message.properties == b"b=3"
    assert not world.storage.memory_journal.replaced


class CountingCodec(HeaderCodec):
    def failed(self, properties: bytes, times: int) -> bytes:
        return properties + f";failed={times}".encode()


def test_dead_letters_count_failures() -> None:
    """A rejected message has failed once more than it had come back."""
    world = World()
    for body in ("once", "thrice"):
        plain = message(body)
        sent = Message(plain.address, CountingCodec(), plain.properties, plain.body, plain.options, 0)
        world.vhost.deliver(sent, [world.queue])
    REJECTED.apply(world.queue, world.take(), None)
    for outcome in (FAILED, FAILED, REJECTED):
        outcome.apply(world.queue, world.take(), None)
    world.broker.dispatch()
    found = [got(world.dead) for _ in range(2)]
    assert [entry.message.properties.rpartition(b";")[2] for entry in found if entry] == [b"failed=1", b"failed=3"]


def test_released_with_a_pause() -> None:
    """Where the queue pauses what is returned, what is released waits, and has its place again then."""
    world = World({"x-delayed-retry-type": "returned", "x-delayed-retry-min": 50, "x-queue-type": "quorum"})
    world.put("first", "second")
    RELEASED.apply(world.queue, world.take(), None)
    assert world.queue.held_count == 1
    world.broker.now_ms += 100
    world.broker.dispatch()
    assert world.take().message.body == b"first"


@pytest.mark.parametrize("outcome", [ACCEPTED, REJECTED, RELEASED, FAILED, modified(True, True, {"a": 1})])
def test_outcomes_of_copies(outcome: Outcome) -> None:
    """Who browses takes nothing from the queue, whatever it says of what it saw; and sees each message once."""
    world = World()
    world.put("a", "b")
    link = Link(view_of(world.queue))
    before = (dict(world.storage.memory_journal.kept), world.queue.message_count)
    for _ in range(2):
        assert link.next() is not None
        link.settle(outcome)
    assert link.next() is None
    assert link.bodies == ["a", "b"]
    assert before == (world.storage.memory_journal.kept, world.queue.message_count)
    assert [world.take().message.properties, world.take().returns] == [b"persistent=1", 0]
    world.broker.dispatch()
    assert world.dead.message_count == 0


@pytest.mark.parametrize("outcome", [ACCEPTED, REJECTED, RELEASED, FAILED, modified(True, True, {"a": 1})])
def test_outcomes_on_a_stream(outcome: Outcome) -> None:
    """The log keeps every message as it is."""
    world = World()
    stream = world.vhost.declare_queue("s", True, False, False, {"x-queue-type": "stream"}, None)
    world.vhost.deliver(message("a", persistent=True), [stream])
    world.storage.sync()
    link = Link(stream)
    taker = Taker(1)
    stream.subscribe(taker, {"x-stream-offset": "first"})
    stream.dispatch()
    outcome.apply(stream, taker.taken[0], link)
    again = stream.recall(taker.taken[0])
    assert again is not None
    assert again.message.properties == b"persistent=1"
    assert stream.message_count == 1
