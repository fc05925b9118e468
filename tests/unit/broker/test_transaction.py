"""Transactions as the broker keeps them: all of it, in one group of the journal, or nothing."""

import pytest

from flintmq.base.errors import NotFound, PreconditionFailed
from flintmq.base.limits import TRANSACTION_MAX_OPERATIONS
from flintmq.broker.broker import Broker
from flintmq.broker.exchange.routing import Route
from flintmq.broker.message import Address, Entry, Message, Table
from flintmq.broker.queue.base import Queue
from flintmq.broker.transaction import StagedPublish, StagedSettlement, Transaction
from flintmq.broker.vhost import VHost
from tests.unit.broker.memory import MemoryStorage, got, message


class Publish(StagedPublish):
    def __init__(self, vhost: VHost, key: str, sent: Message) -> None:
        super().__init__(Route(Address("", key)), sent, None)
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


class World:
    def __init__(self) -> None:
        self.storage = MemoryStorage()
        self.broker = Broker(self.storage)
        self.broker.now_ms = 1000
        self.vhost = self.broker.add_vhost("/")
        self.dead = self.declare("dead")
        self.queue = self.declare("q", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})

    def declare(self, name: str, arguments: Table | None = None) -> Queue:
        return self.vhost.declare_queue(name, True, False, False, arguments or {}, None)

    def begin(self) -> Transaction:
        return Transaction(self.broker, self.vhost)

    def put(self, body: str) -> Entry:
        self.vhost.deliver(message(body, persistent=True), [self.queue])
        entry = got(self.queue)
        assert entry is not None
        return entry

    def publish(self, body: str, key: str = "q") -> Publish:
        return Publish(self.vhost, key, message(body, persistent=True))

    @property
    def kept(self) -> list[bytes]:
        return sorted(self.storage.memory_journal.kept.values())


def test_commit_is_one_group() -> None:
    """Publishes, settlements and the dead letters of what was rejected are in one group of the journal."""
    world = World()
    accepted, rejected = world.put("accepted"), world.put("rejected")
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
    settlement = Settlement(world.queue, world.put("outstanding"))
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
    staged, refused = (Settlement(world.queue, world.put("outstanding")) for _ in range(2))
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
    settlement = Settlement(world.queue, world.put("outstanding"))
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
