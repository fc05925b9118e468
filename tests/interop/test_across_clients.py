"""What one client publishes, another reads: the same body, the same properties, the same types."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import pytest

from tests.interop.conftest import PEERS, Connect
from tests.interop.peer import Peer
from tests.interop.samples import PROPERTIES, headers_of
from tests.interop.with_amqplib import AmqplibPeer

BODY: Final = bytes(range(256)) * 1000
# Every type that amqplib can be told to write, as it is told, and as the others read it.
TAGGED: Final[dict[str, tuple[object, object]]] = {
    "int8": (-5, -5),
    "uint8": (250, 250),
    "int16": (-300, -300),
    "uint16": (60_000, 60_000),
    "int32": (-70_000, -70_000),
    "uint32": (4_000_000_000, 4_000_000_000),
    "int64": (-(2**40), -(2**40)),
    "float": (0.5, 0.5),
    "double": (1.1, 1.1),
    "decimal": ({"places": 2, "digits": 314}, Decimal("3.14")),
    "timestamp": (1_785_587_415, datetime.fromtimestamp(1_785_587_415, UTC)),
}


@pytest.mark.parametrize("reader", PEERS)
def test_read_by(peer: Peer, client: str, reader: str, connect: Connect, name: str) -> None:
    """A persistent message with everything there is arrives whole, by get and by delivery."""
    reading = connect(reader)
    sent = {**PROPERTIES, "headers": headers_of(peer, reading)}
    channel = peer.channel(confirms=True)
    channel.declare_queue(name, durable=True)
    for _ in range(2):
        channel.publish("", name, BODY, sent)
    other = reading.channel()
    fetched = other.get(name)
    assert fetched is not None
    other.ack(fetched.tag)
    other.consume(name)
    delivered = other.take()[0]
    other.ack(delivered.tag)
    for message in (fetched, delivered):
        assert message.body == BODY
        assert {key: message.properties[key] for key in sent} == sent
    assert other.delete_queue(name) == 0


@pytest.mark.parametrize("reader", PEERS)
def test_every_type_on_the_wire(reader: str, connect: Connect, name: str) -> None:
    """Headers of types that only some clients write are read by all."""
    writer = connect(AmqplibPeer.name).channel(confirms=True)
    writer.declare_queue(name, auto_delete=True)
    headers: dict[str, Any] = {type: {"!": type, "value": told} for type, (told, _) in TAGGED.items()}
    writer.publish("", name, b"", {"headers": headers})
    reading = connect(reader)
    fetched = reading.channel().get(name)
    assert fetched is not None
    read = fetched.properties["headers"]
    expected = {type: value for type, (_, value) in TAGGED.items()}
    assert read.keys() == expected.keys()
    for type, value in expected.items():
        if not isinstance(value, reading.unknown):
            assert read[type] == value, type


def test_requeued_by_one_redelivered_to_another(client: str, peer: Peer, connect: Connect, name: str) -> None:
    """A message that one client gives back comes to another, redelivered, and in its place."""
    channel = peer.channel(confirms=True)
    channel.declare_queue(name, durable=True)
    for body in (b"first", b"second"):
        channel.publish("", name, body)
    channel.consume(name)
    channel.take(2)
    peer.close()
    for reader in PEERS:
        if reader == client:
            continue
        other = connect(reader).channel()
        other.qos(1)
        other.consume(name)
        held = other.take()[0]
        assert (held.body, held.redelivered) == (b"first", True)
        other.close()
    last = connect("pika").channel()
    assert last.delete_queue(name) == 2
