"""Messages of delayed exchanges, in virtual time: held, routed when they are due, and found again after a restart."""

from pathlib import Path

import pytest

from flintmq.broker.broker import Broker
from flintmq.broker.exchange.routing import Route
from flintmq.broker.message import Address, Message, Table
from flintmq.broker.ports import Storage
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.publish import STORED, TURNED_AWAY
from flintmq.broker.vhost import VHost
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.storage.node import NodeStorage
from flintmq.wire.amqp091.properties import Properties, encode_properties
from tests.unit.broker.memory import MemoryStorage, put_routed
from tests.unit.broker.world import bodies, taken

START = 1_000_000


class Node:
    def __init__(self, storage: Storage) -> None:
        self.broker = Broker(storage)
        self.broker.now_ms = START

    @property
    def vhost(self) -> VHost:
        return self.broker.vhosts["/"] if self.broker.vhosts else self.broker.add_vhost("/")

    def declare(self, name: str, kind: str, durable: bool = True, **arguments: object) -> None:
        table: Table = {key.replace("_", "-"): value for key, value in arguments.items()}
        self.vhost.exchanges.declare(
            name, "x-delayed-message", durable, False, False, {"x-delayed-type": kind, **table}
        )

    def bound(self, name: str, source: str, key: str = "") -> Queue:
        queue = self.vhost.declare_queue(name, True, False, False, {}, None)
        self.vhost.exchanges.bind_queue(queue, source, key, {})
        return queue

    def publish(
        self, body: str, key: str = "k", persistent: bool = True, message_id: str | None = None, **headers: object
    ) -> int:
        table: Table = {name.replace("_", "-"): value for name, value in headers.items()}
        mode = 2 if persistent else None
        properties = encode_properties(Properties(headers=table, delivery_mode=mode, message_id=message_id))
        address = Address("x", key)
        options = CODEC_091.options(properties)
        message = Message(address, CODEC_091, properties, body.encode(), options, self.broker.now_ms)
        return put_routed(self.vhost, Route(address), message)

    def after(self, milliseconds: int) -> None:
        self.broker.now_ms = START + milliseconds
        self.broker.dispatch()


def test_messages_come_when_they_are_due() -> None:
    """In the order of their times, not of their coming; those without a delay, or with none that is one, at once."""
    node = Node(MemoryStorage())
    node.declare("x", "direct")
    queue = node.bound("q", "x", "k")
    for body, delay in (("300", 300), ("100", 100), ("200", 200), ("0", 0), ("-5", -5), ("true", True)):
        node.publish(body, x_delay=delay)
    node.publish("none")
    assert bodies(queue) == ["0", "-5", "true", "none"]
    node.after(99)
    assert bodies(queue) == []
    node.after(200)
    assert bodies(queue) == ["100", "200"]
    node.after(300)
    assert bodies(queue) == ["300"]


def test_routed_by_the_bindings_of_that_moment() -> None:
    """What counts is what is bound when the time has come, by the underlying type, or else the alternate exchange."""
    node = Node(MemoryStorage())
    node.declare("x", "topic", alternate_exchange="amq.fanout")
    first = node.bound("first", "x", "a.#")
    node.publish("1", "a.b", x_delay=10)
    node.publish("2", "c", x_delay=10)
    node.vhost.remove_queue(first)
    second, spare = node.bound("second", "x", "*.b"), node.bound("spare", "amq.fanout")
    node.after(10)
    assert (bodies(second), bodies(spare)) == (["1"], ["2"])


def test_what_is_due_is_not_delayed_again() -> None:
    """Neither by its queue nor by another delayed exchange; consumers see the delay negated, as with the plugin."""
    node = Node(MemoryStorage())
    node.declare("x", "fanout")
    node.declare("y", "fanout")
    node.vhost.exchanges.bind_exchange("y", "x", "", {})
    queue = node.bound("q", "y")
    node.publish("1", x_delay=10, other="stays")
    node.after(10)
    (entry,) = taken(queue)
    assert entry.message.codec.headers(entry.message.properties) == {"x-delay": -10, "other": "stays"}


def test_further_keys_hold_until_then() -> None:
    """The keys of CC are routed by when the message is due."""
    node = Node(MemoryStorage())
    node.declare("x", "direct")
    queue = node.bound("q", "x", "copy")
    node.publish("1", "other", x_delay=10, CC=["copy"])
    node.after(10)
    assert bodies(queue) == ["1"]


def test_a_delay_that_is_none_stays_as_it_is() -> None:
    """Of a message that waits for a moment, a header x-delay that delays nothing is not turned around."""
    node = Node(MemoryStorage())
    node.declare("x", "fanout")
    queue = node.bound("q", "x")
    for delay in (-5, -(2**63), True):
        node.publish("m", x_delay=delay, x_deliver_at=START + 10)
    node.after(10)
    delays = [entry.message.codec.headers(entry.message.properties)["x-delay"] for entry in taken(queue)]
    assert delays == [-5, -(2**63), True]


def test_the_journal_has_them_once() -> None:
    """A persistent message is kept while it waits, and then for its queue instead; transient ones never."""
    storage = MemoryStorage()
    node = Node(storage)
    node.declare("x", "fanout")
    queue = node.bound("q", "x")
    node.publish("kept", x_delay=10)
    node.publish("passing", persistent=False, x_delay=10)
    kept = storage.memory_journal.kept
    assert list(kept.values()) == [b"kept"]
    assert {queue_id for queue_id, _ in kept} == {storage.memory_definitions.queues["amq.delayed.x"].id}
    node.after(10)
    assert {queue_id for queue_id, _ in kept} == {queue.id}
    assert bodies(queue) == ["kept", "passing"]
    assert kept == {}


def test_what_waits_can_be_cancelled() -> None:
    """The exchange takes it back by its message-id; a second time, or too late, the publisher is told no."""
    storage = MemoryStorage()
    node = Node(storage)
    node.declare("x", "fanout")
    queue = node.bound("q", "x")
    node.publish("a", message_id="a", x_delay=10)
    node.publish("b", message_id="b", x_delay=10)
    assert node.publish("", x_delay_cancel="a") == STORED
    assert node.publish("", x_delay_cancel="a") == TURNED_AWAY
    assert list(storage.memory_journal.kept.values()) == [b"b"]
    node.after(10)
    assert bodies(queue) == ["b"]
    assert node.publish("", x_delay_cancel="b") == TURNED_AWAY


@pytest.mark.parametrize("durable", [True, False])
def test_deleted_with_the_exchange(durable: bool) -> None:
    """What an exchange holds goes with it, from the journal and the definitions too."""
    storage = MemoryStorage()
    node = Node(storage)
    node.declare("x", "fanout", durable)
    queue = node.bound("q", "x")
    node.publish("1", x_delay=10)
    assert ("amq.delayed.x" in storage.memory_definitions.queues) == durable
    node.vhost.exchanges.delete("x", False)
    assert storage.memory_journal.kept == {}
    assert "amq.delayed.x" not in storage.memory_definitions.queues
    node.declare("x", "fanout", durable)
    node.vhost.exchanges.bind_queue(queue, "x", "", {})
    node.after(10)
    assert bodies(queue) == []


def test_no_client_reaches_the_queue() -> None:
    """It is not among the queues, and its name cannot be declared."""
    node = Node(MemoryStorage())
    node.declare("x", "fanout")
    assert list(node.vhost.queues) == []
    assert node.vhost.router.queues(Route(Address("", "amq.delayed.x")), _message()) == []


def _message() -> Message:
    properties = encode_properties(Properties())
    return Message(Address("", ""), CODEC_091, properties, b"", CODEC_091.options(properties), START)


def test_a_restart_keeps_times(tmp_path: Path) -> None:
    """What waited waits on, no longer than it would have; what became due meanwhile comes at once."""
    storage = NodeStorage(tmp_path, {CODEC_091.format: CODEC_091}, lambda: None)
    try:
        node = Node(storage)
        assert node.broker.recover(storage.definitions.load()) == 0
        node.declare("x", "direct")
        node.bound("q", "x", "k")
        node.publish("soon", x_delay=1000)
        node.publish("later", x_delay=5000)
        node.publish("lost", persistent=False, x_delay=1000)
        storage.commit()
    finally:
        storage.close()
    storage = NodeStorage(tmp_path, {CODEC_091.format: CODEC_091}, lambda: None)
    try:
        node = Node(storage)
        node.broker.now_ms = START + 2000
        assert node.broker.recover(storage.definitions.load()) == 2
        queue = node.vhost.queues["q"]
        node.publish("new", x_delay=2000)
        node.after(2000)
        assert bodies(queue) == ["soon"]
        node.after(3999)
        assert bodies(queue) == []
        node.after(5000)
        assert bodies(queue) == ["new", "later"]
        storage.commit()
    finally:
        storage.close()
    storage = NodeStorage(tmp_path, {CODEC_091.format: CODEC_091}, lambda: None)
    try:
        assert Node(storage).broker.recover(storage.definitions.load()) == 0
    finally:
        storage.close()
