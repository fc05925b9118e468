"""Frames of AMQP 1.0 as bytes, written here by the specification: odd ones that clients do send, and numbers at the
edges of their types.
"""

import struct
from collections.abc import Iterator

import pytest

from tests.hostile.conftest import Bystander
from tests.servers import BrokerProcess
from tests.sockets import BrokerSocket

NULL = b"\x40"
FALSE = b"\x42"
TRUE = b"\x41"
UINT_MAX = 2**32 - 1
OPEN, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH, END, CLOSE = range(0x10, 0x19)
SOURCE, TARGET, ERROR = 0x28, 0x29, 0x1D


def uint(value: int) -> bytes:
    return b"\x70" + struct.pack(">I", value)


def ulong(value: int) -> bytes:
    return b"\x80" + struct.pack(">Q", value)


def text(value: str) -> bytes:
    return b"\xa1" + bytes([len(value)]) + value.encode()


def described(code: int, *fields: bytes) -> bytes:
    content = b"".join(fields)
    return b"\x00\x53" + bytes([code]) + b"\xd0" + struct.pack(">II", len(content) + 4, len(fields)) + content


def amqp_frame(body: bytes, kind: int = 0) -> bytes:
    return struct.pack(">IBBH", len(body) + 8, 2, kind, 0) + body


class Peer(BrokerSocket):
    """A connection with one session on channel 0."""

    def expect(self, code: int) -> bytes:
        """The next frame that is no empty one, nor a flow that nobody waits for; it has this performative."""
        while True:
            size, offset, _, _ = struct.unpack(">IBBH", self.read(8))
            self.read(offset * 4 - 8)
            body = self.read(size - offset * 4)
            if not body or (body[2] == FLOW and code != FLOW):
                continue
            assert body[:3] == b"\x00\x53" + bytes([code]), body
            return body

    def start(self) -> None:
        self.send(b"AMQP\x03\x01\x00\x00")
        assert self.read(8) == b"AMQP\x03\x01\x00\x00"
        self.expect(0x40)
        login = b"\0guest\0guest"
        self.send(amqp_frame(described(0x41, b"\xa3\x05PLAIN", b"\xa0" + bytes([len(login)]) + login), 1))
        assert self.expect(0x44).endswith(b"\x50\x00")
        self.send(b"AMQP\x00\x01\x00\x00")
        assert self.read(8) == b"AMQP\x00\x01\x00\x00"
        self.send(amqp_frame(described(OPEN, text(self.name))))
        self.expect(OPEN)
        self.send(amqp_frame(described(BEGIN, NULL, uint(0), uint(1000), uint(1000))))
        self.expect(BEGIN)


@pytest.fixture
def peer(broker: BrokerProcess, bystander: Bystander) -> Iterator[Peer]:
    with Peer(broker.port) as client:
        client.start()
        yield client
        client.send(amqp_frame(described(CLOSE)))
        client.expect(CLOSE)
    bystander.is_served()
    internal = [line for line in broker.log if line["event"] == "internal error"]
    assert not internal, internal


def test_an_end_with_an_error_of_nothing(peer: Peer) -> None:
    """The `end` that RabbitMQ's Erlang client always sends is answered by one."""
    peer.send(amqp_frame(described(END, described(ERROR, NULL, NULL, NULL))))
    peer.expect(END)


@pytest.mark.parametrize("size", [0, 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1])
def test_any_largest_message(peer: Peer, size: int) -> None:
    """A receiver may say any largest size there is a number for; its link is attached."""
    target = described(TARGET, text("here"))
    declared = described(SOURCE, NULL, uint(0), NULL, uint(0), TRUE)
    fields = (text("link"), uint(0), TRUE, NULL, NULL, declared, target, NULL, NULL, NULL, ulong(size))
    peer.send(amqp_frame(described(ATTACH, *fields)))
    peer.expect(ATTACH)


@pytest.mark.parametrize("count", [0, 1, 2**31 - 1, 2**31, UINT_MAX - 1, UINT_MAX])
@pytest.mark.parametrize("credit", [0, 1, 2**31, UINT_MAX])
def test_any_credit_at_any_count(peer: Peer, count: int, credit: int) -> None:
    """Whatever count and credit a receiver says, the answer is a flow or the end of its link: never a fault."""
    dynamic = described(SOURCE, NULL, uint(0), NULL, uint(0), TRUE)
    peer.send(amqp_frame(described(ATTACH, text("link"), uint(0), TRUE, NULL, NULL, dynamic, described(TARGET))))
    peer.expect(ATTACH)
    numbers = (uint(0), uint(1000), uint(0), uint(1000), uint(0), uint(count), uint(credit))
    peer.send(amqp_frame(described(FLOW, *numbers, NULL, FALSE, TRUE)))
    peer.expect(FLOW)
    peer.send(amqp_frame(described(DETACH, uint(0), TRUE)))
    peer.expect(DETACH)
