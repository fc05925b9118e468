"""Peers that do not speak AMQP at all, or another version of it."""

import pytest

from flintmq.wire.amqp091.frames import PROTOCOL_HEADER
from tests.servers import BrokerProcess
from tests.sockets import AmqpSocket

STRANGERS = {
    "zeros": bytes(64),
    "noise": bytes(range(255, 0, -1)),
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "tls": bytes.fromhex("16030100c5010000c10303"),
    "amqp-0-8": b"AMQP\x01\x01\x08\x00",
    "mqtt": bytes.fromhex("101000044d51545404020000") + b"\x00\x04test",
    # Not the start of any header, and shorter than one.
    "short": b"\r\n",
}


@pytest.mark.parametrize("greeting", STRANGERS.values(), ids=STRANGERS.keys())
def test_a_stranger_is_told_the_protocol(broker: BrokerProcess, attacker: AmqpSocket, greeting: bytes) -> None:
    """Whoever speaks another protocol gets the header of ours, as amqp-0-9-1 §4.2.2 asks, and is hung up on."""
    attacker.send(greeting)
    attacker.expect_end(PROTOCOL_HEADER)
    line = broker.wait_for_log("connection ended", peer=attacker.name)
    assert line["level"] == "warning"
    assert "does not speak AMQP 0-9-1" in line["reason"]


@pytest.mark.parametrize("version", ["000900", "000800", "010001", "020000", "ff0000"])
def test_another_version(broker: BrokerProcess, attacker: AmqpSocket, version: str) -> None:
    """It gets the header of the highest we speak, where there is none below (amqp-1.0 §2.2), and is hung up on."""
    attacker.send(b"AMQP\x00" + bytes.fromhex(version))
    attacker.expect_end(b"AMQP\x03\x01\x00\x00")
    broker.wait_for_log("connection ended", peer=attacker.name)


def test_a_flood_instead_of_a_header(broker: BrokerProcess, attacker: AmqpSocket) -> None:
    """Megabytes of noise cost their sender the connection, and nobody else anything."""
    with pytest.raises(OSError, match=r"reset|[Bb]roken pipe"):
        attacker.send(bytes(256 * 1024 * 1024))
    assert "does not speak AMQP 0-9-1" in broker.wait_for_log("connection ended", peer=attacker.name)["reason"]


def test_hanging_up_within_the_header(broker: BrokerProcess, attacker: AmqpSocket) -> None:
    """A peer that leaves within its first eight bytes is logged as gone."""
    attacker.send(PROTOCOL_HEADER[:5])
    attacker.close()
    assert "closed the socket" in broker.wait_for_log("connection ended", peer=attacker.name)["reason"]
