"""Frames that break the rules of amqp-0-9-1 §4.2.3 to §4.2.6: each closes the connection with the code it deserves."""

import struct
from dataclasses import dataclass

import pytest

from flintmq.base.limits import FRAME_MAX_BYTES, FRAME_OVERHEAD_BYTES, HANDSHAKE_FRAME_MAX_BYTES
from flintmq.wire.amqp091.frames import FRAME_BODY, FRAME_METHOD
from flintmq.wire.amqp091.method_codec import encode_method
from flintmq.wire.amqp091.methods import (
    BasicGet,
    BasicGetOk,
    BasicPublish,
    BasicQos,
    ChannelOpen,
    ConfirmSelect,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.servers import BrokerProcess
from tests.sockets import AmqpSocket, frame, header_frame, method_frame

PUBLISH = method_frame(1, BasicPublish(routing_key="nowhere"))
QOS = method_frame(1, BasicQos(prefetch_count=1))


@dataclass(frozen=True)
class Fault:
    """What is sent on a connection with channel 1 open, and what the broker closes with."""

    sent: bytes
    code: int
    text: str


def _head(kind: int, channel: int, size: int) -> bytes:
    return struct.pack(">BHI", kind, channel, size)


FAULTS = {
    "payload one byte above frame_max": Fault(
        _head(FRAME_METHOD, 1, FRAME_MAX_BYTES + 1), 501, "131081 bytes: a frame may have 131080"
    ),
    "wrong end octet": Fault(QOS[:-1] + b"\xcd", 501, "end octet 0xcd, 0xce was due"),
    "publish cut short": Fault(
        frame(FRAME_METHOD, 1, encode_method(BasicPublish(exchange="amq.direct"))[:-4]) + header_frame(1, 0),
        502,
        "short string",
    ),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_closes_the_connection(broker: BrokerProcess, attacker: AmqpSocket, fault: Fault) -> None:
    """A frame out of order is answered with connection.close and its code, logged with the peer, and nothing more."""
    attacker.open().open_channel()
    attacker.send(fault.sent)
    close = attacker.expect_close(fault.code)
    assert fault.text in close.reply_text
    line = broker.wait_for_log("connection ended", peer=attacker.name)
    assert (line["level"], line["user"]) == ("warning", "guest")
    assert fault.text in line["reason"]


def test_an_oversized_frame_before_tuning(broker: BrokerProcess, attacker: AmqpSocket) -> None:
    """Before tuning frames are small by rule, so that a stranger holds little memory."""
    attacker.begin()
    attacker.send(_head(FRAME_METHOD, 0, HANDSHAKE_FRAME_MAX_BYTES - FRAME_OVERHEAD_BYTES + 1))
    assert "a frame may have 8192" in attacker.expect_close(501).reply_text
    assert "a frame may have 8192" in broker.wait_for_log("connection ended", peer=attacker.name)["reason"]


def test_the_negotiated_frame_max_holds(attacker: AmqpSocket) -> None:
    """A peer that agreed to smaller frames may not send larger ones, even if the broker offered them."""
    attacker.open(frame_max=4096).open_channel()
    attacker.send(_head(FRAME_METHOD, 1, 4096 + 1))
    assert "a frame may have 4104" in attacker.expect_close(501).reply_text


def test_a_payload_of_frame_max_is_taken(attacker: AmqpSocket) -> None:
    """Clients that count the eight bytes around a payload as none of frame-max publish large messages, and get them
    back in frames that are none too large.
    """
    attacker.open().open_channel()
    attacker.call(1, QueueDeclare(queue="overhang", exclusive=True), QueueDeclareOk)
    body = bytes(FRAME_MAX_BYTES)
    publish = method_frame(1, BasicPublish(routing_key="overhang"))
    attacker.send(publish + header_frame(1, len(body)) + frame(FRAME_BODY, 1, body))
    attacker.call(1, BasicGet(queue="overhang", no_ack=True), BasicGetOk)
    assert attacker.read_frame().body_size == len(body)
    parts = [attacker.read_frame().payload for _ in range(2)]
    assert b"".join(parts) == body
    assert len(parts[0]) == FRAME_MAX_BYTES - FRAME_OVERHEAD_BYTES


def test_one_byte_at_a_time(attacker: AmqpSocket) -> None:
    """A client whose every byte comes in a packet of its own is slow, and served."""
    attacker.open().open_channel()
    attacker.send_method(1, ConfirmSelect(no_wait=True))
    for octet in PUBLISH + header_frame(1, 5) + frame(FRAME_BODY, 1, b"he") + frame(FRAME_BODY, 1, b"llo"):
        attacker.send(bytes([octet]))
    assert attacker.read_frame().method.name == "basic.ack"


def test_nothing_is_said_on_a_channel_after_its_close(attacker: AmqpSocket) -> None:
    """A confirm that was due when the channel failed does not come behind channel.close: no client could place it."""
    attacker.open().open_channel()
    attacker.send_method(1, ConfirmSelect(no_wait=True))
    attacker.send(PUBLISH + header_frame(1, 0) + method_frame(1, BasicPublish(exchange="missing")) + header_frame(1, 0))
    last = attacker.read_frame().method
    if last.name == "basic.ack":
        last = attacker.read_frame().method
    assert last.name == "channel.close"
    attacker.send_method(2, ChannelOpen())
    assert attacker.read_frame().channel == 2
