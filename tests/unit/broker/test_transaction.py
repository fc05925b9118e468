"""Transactions as the broker keeps them: all of it, in one group of the journal, or nothing."""

import pytest

from flintmq.base.errors import NotFound, PreconditionFailed
from flintmq.base.limits import TRANSACTION_MAX_OPERATIONS
from flintmq.broker.exchange.routing import Route
from flintmq.broker.message import Address, Entry, Message
from flintmq.broker.queue.base import Queue
from flintmq.broker.transaction import StagedPublish, StagedSettlement, Transaction
from flintmq.broker.vhost import VHost
from tests.unit.broker import world as worlds
from tests.unit.broker.memory import message


class Publish(StagedPublish):
    def __init__(self, vhost: VHost, key: str, sent: Message, promised: list[Queue] | None = None) -> None:
        super().__init__(Route(Address("", key)), sent, None, promised)
        self.vhost = vhost

    def put(self, queues: list[Queue]) -> None:
        self.vhost.deliver(self.message, queues)


class Settlement(StagedSettlement):
    def __init__(self, queue: Queue, entry: Entry, rejects: bool = False) -> None:
        self.queue = queue
        self.entry = entry
        self.rejects = rejects
        self.calls: list[str] = []

    @property
    def dead_letter_bytes(self) -> int:
        return len(self.entry.message.body) if self.rejects else 0

    def stage(self) -> None:
        self.calls.append("stage")

    def take(self) -> None:
        self.calls.append("take")

    def apply(self) -> None:
        self.calls.append("apply")
        if self.rejects:
            self.queue.reject(self.entry)
        else:
            self.queue.settle(self.entry)

    def undo(self) -> None:
        self.calls.append("undo")


class World(worlds.World):
    def __init__(self) -> None:
        super().__init__()
        self.dead = self.declare("dead")
        self.declare("q", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})

    def begin(self) -> Transaction:
        return Transaction(self.broker, self.vhost)

    def delivered(self, body: str) -> Entry:
        self.put(body)
        return self.take()

    def publish(self, body: str, key: str = "q") -> Publish:
        return Publish(self.vhost, key, message(body, persistent=True))


def test_commit_is_one_group() -> None:
    """Publishes, settlements and the dead letters of what was rejected are in one group of the journal."""
    world = World()
    accepted, rejected = world.delivered("accepted"), world.delivered("rejected")
    transaction = world.begin()
    transaction.publish(world.publish("new"))
    settlements = [Settlement(world.queue, accepted), Settlement(world.queue, rejected, rejects=True)]
    for settlement in settlements:
        transaction.settle(settlement)
    assert world.kept == [b"accepted", b"rejected"]
    groups = world.storage.memory_journal.group_count
    transaction.commit()
    assert world.kept == [b"new", b"rejected"]
    assert world.dead.message_count == 1
    assert world.storage.memory_journal.group_count == groups + 1
    assert [settlement.calls for settlement in settlements] == [["stage", "take", "apply"]] * 2


def test_transactions_side_by_side() -> None:
    """Each of several open transactions has what was staged in it: one is rolled back, and the other is not."""
    world = World()
    kept, undone = world.begin(), world.begin()
    kept.publish(world.publish("kept"))
    undone.publish(world.publish("undone"))
    settlement = Settlement(world.queue, world.delivered("outstanding"))
    undone.settle(settlement)
    undone.roll_back()
    kept.commit()
    undone.commit()
    assert world.kept == [b"kept", b"outstanding"]
    assert settlement.calls == ["stage", "undo"]


def test_what_is_beyond_the_limit_has_no_part_in_it() -> None:
    """A settlement that is refused is the caller's still: a rollback, which undoes what was staged, leaves it alone."""
    world = World()
    transaction = world.begin()
    staged, refused = (Settlement(world.queue, world.delivered("outstanding")) for _ in range(2))
    for _ in range(TRANSACTION_MAX_OPERATIONS):
        transaction.settle(staged)
    with pytest.raises(PreconditionFailed, match="commit more often"):
        transaction.settle(refused)
    transaction.roll_back()
    assert refused.calls == []
    assert staged.calls.count("undo") == TRANSACTION_MAX_OPERATIONS


def test_commit_that_cannot_be() -> None:
    """Where an exchange is gone, or a queue has no room, nothing takes effect, and all of it can be rolled back."""
    world = World()
    transaction = world.begin()
    world.declare("full", {"x-max-length": 1, "x-overflow": "reject-publish"})
    settlement = Settlement(world.queue, world.delivered("outstanding"))
    transaction.settle(settlement)
    for body in ("one", "two"):
        transaction.publish(world.publish(body, "full"))
    with pytest.raises(PreconditionFailed, match="no room for the transaction"):
        transaction.commit()
    assert world.kept == [b"outstanding"]
    transaction.roll_back()
    assert settlement.calls == ["stage", "undo"]
    staged = world.publish("lost")
    staged.route = Route(Address("gone", ""))
    with pytest.raises(NotFound):
        transaction.publish(staged)


def test_a_promised_route_is_kept() -> None:
    """Whatever is unbound; of its queues one has to be left, and one that has the name of another is none of them."""
    world = World()
    queues = [world.declare(name) for name in ("one", "two")]
    transaction = world.begin()
    transaction.publish(Publish(world.vhost, "nowhere", message("kept", persistent=True), queues))
    world.vhost.remove_queue(queues[0])
    world.declare("one")
    transaction.commit()
    assert [world.vhost.queues[name].message_count for name in ("one", "two")] == [0, 1]
    transaction.publish(world.publish("other"))
    transaction.publish(Publish(world.vhost, "one", message("lost", persistent=True), queues[:1]))
    with pytest.raises(NotFound, match="queue 'one' in vhost '/' was deleted before the commit"):
        transaction.commit()
    assert world.kept == [b"kept"]


def test_all_transactions_together_have_a_bound() -> None:
    """Where they hold too much, large ones are refused and small ones are not; what ended counts no more."""
    world = World()
    staged = world.broker.tick.staged
    staged.most = 200_000
    first, second, third = (world.begin() for _ in range(3))
    first.publish(world.publish("x" * 150_000))
    second.publish(world.publish("x" * 40_000))
    third.publish(world.publish("x" * 20_000))
    with pytest.raises(PreconditionFailed, match="transactions of all clients"):
        third.publish(world.publish("x" * 60_000))
    # What is refused is not held.
    before = staged.held
    with pytest.raises(PreconditionFailed):
        third.publish(world.publish("x" * 60_000))
    assert staged.held == before < 220_000
    second.publish(world.publish("x" * 20_000))
    third.roll_back()
    first.commit()
    second.abandon()
    assert staged.held == 0
    third.publish(world.publish("x" * 150_000))
    third.commit()
    assert staged.held == 0
