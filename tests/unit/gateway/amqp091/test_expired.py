"""A client asks for a message behind very many that have expired: the answer comes when ticks have removed these."""

from itertools import pairwise

import pytest

from flintmq.base.errors import ClosedByPeer
from flintmq.base.limits import EXPIRED_MESSAGE_UNITS, EXPIRY_STEP_MESSAGES, STEP_UNITS
from flintmq.broker.message import Address, Message
from flintmq.broker.queue.classic import ClassicQueue
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.wire.amqp091.methods import (
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    LeaseExtend,
    LeaseExtendOk,
    LeaseOpen,
    LeaseOpenOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.unit.broker.memory import MemoryPages, Taker
from tests.unit.gateway.amqp091.pair import PERSISTENT, Client, Server

TTL_MS = 1_000
# One method or one tick removes so many at most: what expires by its time, and what a step passes over.
PER_TICK = 2 * EXPIRY_STEP_MESSAGES + 2 * STEP_UNITS // EXPIRED_MESSAGE_UNITS
COUNT = 5 * PER_TICK


class Asking:
    """A client of a queue whose messages have all expired."""

    def __init__(self, with_pages: bool = False, **arguments: object) -> None:
        self.server = Server()
        self.server.broker.tick.pages = MemoryPages() if with_pages else None
        self.server.broker.now_ms = 1_000_000
        self.client = Client(self.server)
        self.channel = self.client.channel()
        table = {"x-message-ttl": TTL_MS, **{name.replace("_", "-"): value for name, value in arguments.items()}}
        self.channel.call(QueueDeclare(queue="q", durable=True, arguments=table))
        found = self.server.vhost.queues["q"]
        assert isinstance(found, ClassicQueue)
        self.queue = found
        self.put(*[str(number) for number in range(COUNT)])
        self.server.broker.now_ms += 2 * TTL_MS

    def put(self, *bodies: str) -> None:
        for body in bodies:
            message = Message(Address("", "q"), CODEC_091, PERSISTENT, body.encode(), CODEC_091.options(PERSISTENT), 0)
            self.server.vhost.deliver(message, [self.queue])

    def send(self, *methods: Method) -> None:
        """Have the server receive these methods, without a tick."""
        self.channel.send(*methods)
        self.read_on()

    def read_on(self) -> None:
        self.client.connection.engine.refresh()
        self.client.connection.engine.receive(self.client.side.sent(), 0.0)

    def tick(self) -> bool:
        """One tick; returns whether another one follows at once."""
        more = self.server.gateway.end_tick()
        self.read_on()
        return more

    def counts(self) -> list[int]:
        """The messages of the queue after each tick, until there is nothing more to do."""
        found = [self.queue.message_count]
        while self.tick():
            found.append(self.queue.message_count)
        return found

    def code_after_damage(self) -> int:
        """Go on with pages that cannot be read any more. Returns the code with which the connection ends."""
        pages = self.server.broker.tick.pages
        assert isinstance(pages, MemoryPages)
        pages.is_readable = False
        self.counts()
        self.came()
        (reason,) = self.client.side.closed
        assert isinstance(reason, ClosedByPeer)
        return reason.code

    def came(self) -> list[Method]:
        """What the server has sent by now."""
        self.client.side.engine.receive(b"".join(self.client.output.take()), 0.0)
        return self.channel.came()


@pytest.mark.parametrize("with_pages", [False, True])
def test_a_get_is_answered_when_its_message_is_reached(with_pages: bool) -> None:
    """Each tick removes a part of the expired messages, and the client gets the first one behind them."""
    asking = Asking(with_pages)
    asking.put("next", "last")
    asking.send(BasicGet(queue="q", no_ack=True))
    counts = asking.counts()
    # A page is taken out of the queue as a whole.
    most = 3 * PER_TICK if with_pages else PER_TICK
    assert max(before - after for before, after in pairwise([COUNT + 2, *counts])) <= most
    assert counts[0] > COUNT // 2
    asking.came()
    assert [body for _, _, body in asking.channel.contents] == ["next"]
    assert asking.queue.message_count == 1
    assert (asking.queue.got_no_ack, asking.queue.got_empty) == (1, 0)


def test_there_may_be_none() -> None:
    """A queue of nothing but expired messages is empty, and counts one basic.get that found it so."""
    asking = Asking()
    asking.send(BasicGet(queue="q"))
    assert asking.came() == []
    asking.counts()
    assert asking.came() == [BasicGetEmpty()]
    assert asking.queue.got_empty == 1
    assert not asking.server.broker.tick.steps


def test_answers_keep_their_order() -> None:
    """Methods behind a basic.get that waits are handled after it, and get their answers after its answer."""
    asking = Asking()
    asking.put("one", "two")
    asking.send(BasicGet(queue="q"), QueueDeclare(queue="other"), BasicGet(queue="q"), BasicGet(queue="q"))
    asking.tick()
    assert "other" not in asking.server.vhost.queues
    asking.counts()
    asking.client.tick()
    answers = asking.came()
    assert [type(answer) for answer in answers] == [QueueDeclareOk, BasicGetEmpty]
    assert [(method, body) for method, _, body in asking.channel.contents] == [
        (BasicGetOk(delivery_tag=1, routing_key="q", message_count=1), "one"),
        (BasicGetOk(delivery_tag=2, routing_key="q", message_count=0), "two"),
    ]


def test_consumers_go_first() -> None:
    """A consumer that can take the message gets it, and basic.get finds none."""
    asking = Asking()
    asking.put("next")
    asking.send(BasicGet(queue="q"))
    taker = Taker()
    asking.queue.subscribe(taker, {})
    asking.counts()
    assert taker.bodies == ["next"]
    assert asking.came() == [BasicGetEmpty()]


def test_a_paused_queue_has_none() -> None:
    """Nobody waits for messages of a queue that is paused meanwhile."""
    asking = Asking()
    asking.send(BasicGet(queue="q"))
    asking.queue.pause(True)
    asking.tick()
    assert asking.came() == [BasicGetEmpty()]


def test_dead_letters_of_all() -> None:
    """Expired messages that a basic.get removes are dead-lettered in order, and none twice."""
    asking = Asking(x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    dead = asking.server.vhost.declare_queue("dead", True, False, False, {}, None)
    asking.put("next")
    asking.send(BasicGet(queue="q"))
    asking.counts()
    asking.came()
    assert [body for _, _, body in asking.channel.contents] == ["next"]
    assert isinstance(dead, ClassicQueue)
    assert [entry.message.body for entry in dead.store.entries()] == [str(number).encode() for number in range(COUNT)]


def test_the_queue_goes_meanwhile() -> None:
    """It is as if the client had asked later: there is no such queue. Its connection goes on."""
    asking = Asking()
    asking.send(BasicGet(queue="q"))
    asking.server.vhost.delete_queue("q", False, False, None)
    asking.counts()
    asking.came()
    reason = asking.channel.closed
    assert isinstance(reason, ClosedByPeer)
    assert reason.code == 404
    assert asking.client.channel().call(QueueDeclare(queue="other"))


def test_the_client_goes_meanwhile() -> None:
    """The message that it would have got stays in its place."""
    asking = Asking()
    asking.put("next")
    asking.send(BasicGet(queue="q"))
    asking.client.connection.engine.lost(None)
    asking.counts()
    assert [entry.message.body for entry in asking.queue.store.entries()] == [b"next"]
    assert asking.queue.unacked == 0
    assert not asking.server.broker.tick.steps


def test_a_fault_of_the_broker_ends_the_connection() -> None:
    """Messages that cannot be read back are 541, as when the first attempt finds them."""
    asking = Asking(with_pages=True)
    asking.send(BasicGet(queue="q"))
    assert asking.code_after_damage() == 541


def test_a_lease_is_extended_when_a_message_is_reached() -> None:
    """lease.extend waits like basic.get, and removes no more at once, however many messages it asks for."""
    asking = Asking()
    (opened,) = asking.channel.call(LeaseOpen(queue="q", consumer="c"))
    assert isinstance(opened, LeaseOpenOk)
    asking.put(*[str(number) for number in range(COUNT)])
    asking.server.broker.now_ms += 2 * TTL_MS
    asking.put("last")
    before = asking.queue.message_count
    asking.send(LeaseExtend(queue="q", consumer="c", epoch=opened.epoch, max_messages=10))
    assert asking.queue.message_count >= before - PER_TICK
    asking.counts()
    asking.client.durable()
    (answer,) = [method for method in asking.came() if isinstance(method, LeaseExtendOk)]
    assert answer == LeaseExtendOk(first=0, next=1, ready=0, size=4)
