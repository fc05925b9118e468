"""One method that settles very many deliveries: it is done in steps, and the client's next method waits for them."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from mypy_extensions import i64

from flintmq.base.errors import InternalError
from flintmq.broker.message import Entry
from flintmq.broker.queue.base import Queue
from flintmq.gateway.amqp091.deliveries import _SETTLED_AT_ONCE
from flintmq.wire.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicNack,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
)
from tests.unit.broker.memory import MemoryJournal, got, message
from tests.unit.gateway.amqp091.pair import Client, Server

COUNT = 3 * _SETTLED_AT_ONCE


class Holder:
    """A client that holds all messages of a queue, unacknowledged."""

    def __init__(self, count: int = COUNT, arguments: dict[str, object] | None = None) -> None:
        self.server = Server()
        self.client = Client(self.server)
        self.channel = self.client.channel()
        self.channel.call(QueueDeclare(queue="q", durable=True, arguments=arguments or {}))
        self.queue: Queue = self.server.vhost.queues["q"]
        for number in range(count):
            self.server.vhost.deliver(message(str(number), True), [self.queue])
        self.channel.call(BasicConsume(queue="q", consumer_tag="t"))
        assert self.queue.unacked == count
        self.channel.deliveries()

    @property
    def kept(self) -> int:
        """The messages in the journal."""
        return len(self.server.storage.memory_journal.kept)

    def send(self, *methods: Method) -> None:
        """Have the server receive these methods, without a tick."""
        self.channel.send(*methods)
        self.client.connection.engine.refresh()
        self.client.connection.engine.receive(self.client.side.sent(), 0.0)

    def ticks(self) -> list[int]:
        """The unacknowledged messages after each tick, until there is no more to do."""
        counts = [int(self.queue.unacked)]
        while self.server.gateway.end_tick():
            self.client.connection.engine.refresh()
            self.client.connection.engine.receive(b"", 0.0)
            counts.append(int(self.queue.unacked))
        counts.append(int(self.queue.unacked))
        return counts


@pytest.mark.parametrize("method", [BasicAck(multiple=True), BasicAck(delivery_tag=COUNT, multiple=True)])
def test_deliveries_are_settled_in_several_ticks(method: Method) -> None:
    """Each tick settles a part of them, until none is left on the queue and in the journal."""
    holder = Holder()
    holder.send(method)
    counts = holder.ticks()
    assert max(before - after for before, after in pairwise([COUNT, *counts])) <= _SETTLED_AT_ONCE
    assert counts[0] > 0
    assert (counts[-1], holder.kept, holder.queue.message_count) == (0, 0, 0)
    assert not holder.server.broker.tick.steps


@pytest.mark.parametrize("failing", [COUNT // 2, COUNT - 1], ids=["middle", "last"])
def test_one_cannot_be_settled(monkeypatch: pytest.MonkeyPatch, failing: int) -> None:
    """The error is told once. The steps go on with those that are left, and the client's next method is handled."""
    holder = Holder()
    settle = MemoryJournal.settle

    def fail(self: MemoryJournal, queue_id: i64, entry: Entry) -> None:
        if entry.message.body == b"%d" % failing:
            raise InternalError("broken")
        settle(self, queue_id, entry)

    monkeypatch.setattr(MemoryJournal, "settle", fail)
    holder.send(BasicAck(multiple=True), QueueDeclare(queue="other"))
    with pytest.raises(InternalError, match="broken"):
        holder.ticks()
    assert bool(holder.server.broker.tick.steps) == (failing < COUNT - 1)
    holder.ticks()
    holder.client.tick()
    assert "other" in holder.server.vhost.queues
    assert not holder.server.broker.tick.steps
    # Those of the step that failed are not settled.
    assert 0 < holder.kept <= _SETTLED_AT_ONCE


def test_a_few_are_settled_at_once() -> None:
    """Up to a step, nothing is left for the ticks."""
    holder = Holder(_SETTLED_AT_ONCE)
    holder.send(BasicAck(multiple=True))
    assert holder.queue.unacked == 0
    assert not holder.server.broker.tick.steps


def test_the_next_method_waits() -> None:
    """A method behind it is handled when all deliveries are settled, and then the client goes on as before."""
    holder = Holder()
    holder.send(BasicAck(multiple=True), QueueDeclare(queue="other"))
    while holder.queue.unacked > 0:
        assert "other" not in holder.server.vhost.queues
        holder.server.gateway.end_tick()
        holder.client.connection.engine.refresh()
        holder.client.connection.engine.receive(b"", 0.0)
    holder.client.tick()
    assert "other" in holder.server.vhost.queues
    assert any(isinstance(method, QueueDeclareOk) for method in holder.channel.call())


def test_what_was_not_settled_stays() -> None:
    """Tags behind the one that is acknowledged stay with the client, also those of deliveries that come meanwhile."""
    holder = Holder()
    holder.send(BasicAck(delivery_tag=COUNT - 10, multiple=True))
    holder.server.vhost.deliver(message("new", True), [holder.queue])
    assert holder.ticks()[-1] == 11
    holder.send(BasicAck(multiple=True))
    assert holder.ticks()[-1] == 0


def _lose(holder: Holder) -> None:
    holder.client.connection.engine.lost(None)


def _close(holder: Holder) -> None:
    holder.client.connection.channels[int(holder.channel.channel.number)].deliveries.end()


@pytest.mark.parametrize("end", [_lose, _close])
def test_the_client_goes_meanwhile(end: Callable[[Holder], None]) -> None:
    """What it has acknowledged is settled all the same, and only the others return to the queue."""
    holder = Holder()
    holder.send(BasicAck(delivery_tag=COUNT - 10, multiple=True))
    end(holder)
    assert holder.queue.message_count == 10
    counts = holder.ticks()
    assert (counts[-1], holder.queue.message_count, holder.kept) == (0, 10, 10)


def test_the_queue_goes_meanwhile() -> None:
    """Deliveries of a queue that another client deletes are settled, and nothing else happens."""
    holder = Holder()
    holder.send(BasicAck(multiple=True))
    other = Client(holder.server)
    (answer,) = other.channel().call(QueueDelete(queue="q"))
    assert answer == QueueDeleteOk(message_count=0)
    holder.ticks()
    assert holder.kept == 0
    assert holder.server.host.errors == []


def _rejecting() -> tuple[Holder, Queue]:
    holder = Holder(arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    holder.channel.call(QueueDeclare(queue="dead", durable=True))
    return holder, holder.server.vhost.queues["dead"]


def test_rejected_ones_are_dead_lettered_in_order() -> None:
    """Dead letters of very many messages are in the order of their messages."""
    holder, dead = _rejecting()
    holder.send(BasicNack(multiple=True, requeue=False))
    while holder.server.gateway.end_tick():
        pass
    assert dead.message_count == COUNT
    bodies = []
    while (entry := got(dead)) is not None:
        bodies.append(int(entry.message.body))
    assert bodies == list(range(COUNT))


def test_rejected_ones_of_a_queue_that_goes() -> None:
    """All of them are dead-lettered, even if another client deletes the queue directly afterwards."""
    holder, dead = _rejecting()
    other = Client(holder.server).channel()
    holder.send(BasicNack(multiple=True, requeue=False))
    other.call(QueueDelete(queue="q"))
    while holder.server.gateway.end_tick():
        pass
    assert dead.message_count == COUNT
