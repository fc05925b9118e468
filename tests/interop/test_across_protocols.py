"""Messages between AMQP 0-9-1 (pika) and AMQP 1.0 (Proton): what one side says, the other side reads."""

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from proton import Described, Message, symbol, timestamp, ubyte, uint, ulong
from proton.reactor import Filter
from proton.utils import BlockingConnection

from tests.interop.conftest import Connect
from tests.interop.peer import WAIT_SECONDS, PeerChannel
from tests.interop.test_proton_management import typed
from tests.servers import BrokerProcess


@pytest.fixture
def connection(broker: BrokerProcess) -> Iterator[BlockingConnection]:
    made = BlockingConnection(f"amqp://guest:guest@127.0.0.1:{broker.port}", timeout=WAIT_SECONDS)
    yield made
    made.close()


@pytest.fixture
def channel(connect: Connect) -> PeerChannel:
    return connect("pika").channel(confirms=True)


@pytest.fixture
def queue(channel: PeerChannel, name: str) -> Iterator[str]:
    channel.declare_queue(name, durable=True)
    yield name
    channel.delete_queue(name)


def send_10(connection: BlockingConnection, queue: str, message: Message) -> None:
    sender = connection.create_sender(f"/queues/{queue}")
    sender.send(message)
    sender.close()


def take_10(connection: BlockingConnection, queue: str) -> Any:
    """The next message. Its body is memory of its own: keep the message as long as that is looked at."""
    receiver = connection.create_receiver(f"/queues/{queue}", credit=1)
    message = receiver.receive()
    receiver.accept()
    receiver.close()
    return message


def take_091(channel: PeerChannel, queue: str) -> Any:
    message = channel.get(queue, no_ack=True)
    assert message is not None
    return message


# -- from 0-9-1 to 1.0 ------------------------------------------------------------------------------------------


def test_properties_to_10(connection: BlockingConnection, channel: PeerChannel, queue: str) -> None:
    """Each property of 0-9-1 is where a reader of 1.0 looks for it."""
    channel.publish(
        "",
        queue,
        b"body",
        {
            "content_type": "text/plain",
            "content_encoding": "gzip",
            "delivery_mode": 2,
            "priority": 5,
            "correlation_id": "corr",
            "reply_to": "replies",
            "expiration": "60000",
            "message_id": "id",
            "timestamp": 1_700_000_000,
            "type": "kind",
            "user_id": "guest",
            "app_id": "app",
            "headers": {"text": "ü", "number": 5, "flag": True},
        },
    )
    message = take_10(connection, queue)
    assert (message.body, message.inferred) == (b"body", True)
    assert (message.content_type, message.content_encoding) == ("text/plain", "gzip")
    assert (message.durable, message.priority) == (True, 5)
    assert (message.correlation_id, message.id, message.reply_to) == ("corr", "id", "/queues/replies")
    assert 0 < message.ttl <= 60
    assert message.creation_time == 1_700_000_000
    assert (message.user_id, message.group_id) == (b"guest", "app")
    assert message.properties == {"text": "ü", "number": 5, "flag": True}
    assert message.annotations[symbol("x-basic-type")] == "kind"


def test_routing_to_10(connection: BlockingConnection, channel: PeerChannel, queue: str) -> None:
    """A reader of 1.0 is told where the message was published to."""
    channel.bind(queue, "amq.topic", "some.#")
    channel.publish("amq.topic", "some.key", b"x")
    message = take_10(connection, queue)
    assert message.annotations[symbol("x-exchange")] == "amq.topic"
    assert message.annotations[symbol("x-routing-key")] == "some.key"


def test_headers_with_an_x_become_annotations(connection: BlockingConnection, channel: PeerChannel, queue: str) -> None:
    """What brokers write into headers is an annotation in 1.0, not the application's property."""
    channel.publish("", queue, b"x", {"headers": {"x-mine": "broker's", "mine": "application's"}})
    message = take_10(connection, queue)
    assert message.properties == {"mine": "application's"}
    assert message.annotations[symbol("x-mine")] == "broker's"


@pytest.mark.parametrize(
    ("said", "of_data"),
    [
        ("identity", None),
        (" Identity ", None),
        ("gzip", "gzip"),
        ("identity, gzip", "gzip"),
    ],
)
@pytest.mark.parametrize("body", ["data", "value", "sequence"])
def test_encodings_to_10(
    connection: BlockingConnection, channel: PeerChannel, queue: str, body: str, said: str, of_data: str | None
) -> None:
    """1.0 is never told `identity`, nor any encoding of a body that is not data; back in 0-9-1, it is as it was."""
    if body == "data":
        content = b"bytes"
        channel.publish("", queue, content, {"content_encoding": said})
    else:
        content = b"\x00\x53\x77\xa1\x05value" if body == "value" else b"\x00\x53\x76\xd0\0\0\0\x07\0\0\0\x01\xa1\x01v"
        channel.publish("", queue, content, {"content_encoding": said, "type": "amqp-1.0"})
    message = take_10(connection, queue)
    if body == "data":
        assert bytes(message.body) == content
    else:
        assert message.body == ("value" if body == "value" else ["v"])
    # Proton spells out that there is none.
    assert message.content_encoding == symbol(str(of_data if body == "data" else None))
    send_10(connection, queue, message)
    got = take_091(channel, queue)
    assert (got.body, got.properties["content_encoding"]) == (content, said)


# -- from 1.0 to 0-9-1 ------------------------------------------------------------------------------------------


def test_properties_to_091(connection: BlockingConnection, channel: PeerChannel, queue: str) -> None:
    """Each property of 1.0 that 0-9-1 knows is where its readers look for it."""
    send_10(
        connection,
        queue,
        Message(
            b"body",
            inferred=True,
            durable=True,
            priority=5,
            ttl=60,
            id="id",
            user_id=b"guest",
            reply_to="/queues/replies",
            correlation_id="corr",
            content_type=symbol("text/plain"),
            content_encoding=symbol("gzip"),
            creation_time=1_700_000_000,
            group_id="app",
            properties={"text": "ü", "number": 5, "flag": True},
            annotations={symbol("x-basic-type"): "kind"},
        ),
    )
    message = take_091(channel, queue)
    properties = dict(message.properties)
    headers = {name: value for name, value in properties.pop("headers").items() if not name.startswith("x-")}
    assert message.body == b"body"
    assert headers == {"text": "ü", "number": 5, "flag": True}
    assert 0 < int(properties.pop("expiration")) <= 60_000
    sent_at = properties.pop("timestamp")
    assert sent_at in (1_700_000_000, datetime.fromtimestamp(1_700_000_000, UTC))
    assert properties == {
        "content_type": "text/plain",
        "content_encoding": "gzip",
        "delivery_mode": 2,
        "priority": 5,
        "correlation_id": "corr",
        "reply_to": "replies",
        "message_id": "id",
        "type": "kind",
        "user_id": "guest",
        "app_id": "app",
    }


@pytest.mark.parametrize(
    ("id", "text"),
    [
        (ulong(2**63 + 1), str(2**63 + 1)),
        (uuid.UUID("12345678-1234-5678-1234-567812345678"), "urn:uuid:12345678-1234-5678-1234-567812345678"),
    ],
    ids=["number", "uuid"],
)
def test_ids_to_091(connection: BlockingConnection, channel: PeerChannel, queue: str, id: Any, text: str) -> None:
    """Identifiers that are no text are written as text."""
    send_10(connection, queue, Message(b"x", inferred=True, id=id, correlation_id=id))
    properties = take_091(channel, queue).properties
    assert (properties["message_id"], properties["correlation_id"]) == (text, text)


def test_the_address_of_an_exchange(connection: BlockingConnection, channel: PeerChannel, queue: str) -> None:
    """A reader of 0-9-1 finds the exchange and the routing key of the sender's address."""
    channel.bind(queue, "amq.topic", "some.#")
    connection.create_sender("/exchanges/amq.topic/some.key").send(Message(b"x", inferred=True))
    message = take_091(channel, queue)
    assert (message.exchange, message.routing_key) == ("amq.topic", "some.key")


def test_headers_exchanges_match_application_properties(
    connection: BlockingConnection, channel: PeerChannel, queue: str
) -> None:
    """A headers exchange routes a message of 1.0 by its application properties."""
    channel.bind(queue, "amq.headers", "", {"x-match": "all", "colour": "red"})
    sender = connection.create_sender("/exchanges/amq.headers")
    sender.send(Message(b"red", inferred=True, properties={"colour": "red"}))
    sender.send(Message(b"blue", inferred=True, properties={"colour": "blue"}), error_states=[])
    assert take_091(channel, queue).body == b"red"
    assert channel.get(queue) is None


def test_bodies_that_are_no_bytes(connection: BlockingConnection, channel: PeerChannel, queue: str) -> None:
    """A value travels as its encoding, and says so by its type."""
    send_10(connection, queue, Message({"key": [1, "two"]}))
    message = take_091(channel, queue)
    assert message.properties["type"] == "amqp-1.0"
    assert len(message.body) > 10


def test_annotations_that_nobody_here_knows(connection: BlockingConnection, channel: PeerChannel, queue: str) -> None:
    """Keys that begin with x- are passed on with their values and types, unknown ones as well, also by way of 0-9-1."""
    sent = {
        symbol("x-vendor-ubyte"): ubyte(7),
        symbol("x-vendor-ulong"): ulong(2**64 - 1),
        symbol("x-vendor-symbol"): symbol("s"),
        symbol("x-vendor-map"): {"text": [uint(1), timestamp(1_700_000_000_123)]},
        symbol("x-opt-vendor"): None,
    }
    send_10(connection, queue, Message("m", annotations=sent))
    message = take_10(connection, queue)
    send_10(connection, queue, message)
    got = take_091(channel, queue)
    channel.publish("", queue, got.body, got.properties)
    for each in (message, take_10(connection, queue)):
        found = {key: each.annotations[key] for key in sent}
        assert typed(found) == typed(sent)


# -- there and back ---------------------------------------------------------------------------------------------


def test_10_through_a_091_consumer(connection: BlockingConnection, channel: PeerChannel, queue: str) -> None:
    """A message of 1.0 that a 0-9-1 client republishes as it got it, comes back as it was."""
    sent = Message(
        {"nested": [1, 2.5, {"deep": b"bytes"}], "text": "ü"},
        id=uuid.uuid4(),
        address="/queues/somewhere-else",
        subject="subject",
        correlation_id=ulong(7),
        expiry_time=2_000_000_000,
        group_id="group",
        group_sequence=3,
        reply_to_group_id="reply group",
        # pika reads doubles as whole numbers.
        properties={"text": "ü", "number": 5, "flag": True},
    )
    send_10(connection, queue, sent)
    got = take_091(channel, queue)
    channel.publish("", queue, got.body, got.properties)
    back = take_10(connection, queue)
    for field in (
        "body", "id", "address", "subject", "correlation_id", "expiry_time", "group_id", "group_sequence",
        "reply_to_group_id", "properties",
    ):  # fmt: skip
        assert getattr(back, field) == getattr(sent, field), field


def test_091_through_a_10_consumer(connection: BlockingConnection, channel: PeerChannel, queue: str) -> None:
    """A message of 0-9-1 that a 1.0 client sends on as it got it, comes back as it was, arrays and tables included."""
    headers = {
        "text": "ü",
        "number": 2**40,
        "list": [1, [True, None]],
        "table": {"deep": "x", "deeper": {"n": 1}},
        "decimal": Decimal("1.25"),
    }
    sent = {"content_type": "text/plain", "correlation_id": "c", "type": "kind", "app_id": "app", "headers": headers}
    channel.publish("", queue, b"body", sent)
    message = take_10(connection, queue)
    send_10(connection, queue, message)
    got = take_091(channel, queue)
    assert got.body == b"body"
    for field in ("content_type", "correlation_id", "type", "app_id"):
        assert got.properties[field] == sent[field], field
    assert {name: got.properties["headers"][name] for name in headers} == headers


def test_both_read_the_same_queue(connection: BlockingConnection, channel: PeerChannel, queue: str) -> None:
    """Messages of both protocols stand in one order, and either side reads all of them."""
    for number in range(6):
        if number % 2:
            send_10(connection, queue, Message(b"%d" % number, inferred=True))
        else:
            channel.publish("", queue, b"%d" % number)
    assert [take_091(channel, queue).body for _ in range(3)] == [b"0", b"1", b"2"]
    messages = [take_10(connection, queue) for _ in range(3)]
    assert [bytes(message.body) for message in messages] == [b"3", b"4", b"5"]


def test_both_read_the_same_stream(connection: BlockingConnection, channel: PeerChannel, name: str) -> None:
    """A stream keeps messages of both, for both."""
    channel.declare_queue(name, durable=True, arguments={"x-queue-type": "stream"})
    sender = connection.create_sender(f"/queues/{name}")
    sender.send(Message(b"1.0", inferred=True, properties={"n": 1}))
    channel.publish("", name, b"0-9-1", {"headers": {"n": 2}})
    start = symbol("rabbitmq:stream-offset-spec")
    from_the_first = Filter({start: Described(start, "first")})
    receiver = connection.create_receiver(f"/queues/{name}", credit=2, options=from_the_first)
    messages = [receiver.receive(), receiver.receive()]
    assert [bytes(message.body) for message in messages] == [b"1.0", b"0-9-1"]
    assert [message.properties for message in messages] == [{"n": 1}, {"n": 2}]
    channel.delete_queue(name)


def test_dead_letters_across(connection: BlockingConnection, channel: PeerChannel, queue: str, name: str) -> None:
    """What 1.0 rejects, 0-9-1 finds with its history, and the other way round."""
    work = f"{name}-work"
    channel.declare_queue(
        work, durable=True, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}
    )
    channel.publish("", work, b"of 0-9-1", {"headers": {"mine": 1}})
    receiver = connection.create_receiver(f"/queues/{work}", credit=1)
    receiver.receive()
    receiver.reject()
    receiver.close()
    (dead,) = take_091_soon(channel, queue)
    (death,) = dead.properties["headers"]["x-death"]
    assert (death["queue"], death["reason"], death["count"]) == (work, "rejected", 1)
    send_10(connection, work, Message(b"of 1.0", inferred=True, properties={"mine": 1}))
    got = channel.get(work)
    assert got is not None
    channel.reject(got.tag, requeue=False)
    message = take_10(connection, queue)
    assert message.annotations[symbol("x-first-death-queue")] == work
    assert message.properties == {"mine": 1}
    channel.delete_queue(work)


def take_091_soon(channel: PeerChannel, queue: str) -> list[Any]:
    tag = channel.consume(queue, no_ack=True)
    taken = channel.take()
    channel.cancel(tag)
    return taken
