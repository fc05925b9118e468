"""Frames that break the rules of amqp-0-9-1 §4.2.3 to §4.2.6: each closes the connection with the code it deserves."""

import struct
from dataclasses import dataclass

import pytest

from flintmq.base.limits import FRAME_MAX_BYTES, FRAME_OVERHEAD_BYTES, HANDSHAKE_FRAME_MAX_BYTES
from flintmq.wire.amqp091.frames import FRAME_BODY, FRAME_HEADER, FRAME_HEARTBEAT, FRAME_METHOD
from flintmq.wire.amqp091.method_codec import encode_method
from flintmq.wire.amqp091.methods import (
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicPublish,
    BasicQos,
    ChannelOpen,
    ConfirmSelect,
    ConnectionOpen,
    ConnectionTune,
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
    "frame of four gigabytes": Fault(_head(FRAME_BODY, 1, 0xFFFF_FFFF), 501, "a frame may have 131080"),
    "wrong end octet": Fault(QOS[:-1] + b"\xcd", 501, "end octet 0xcd, 0xce was due"),
    "end octet too late": Fault(QOS[:-1] + b"\x00\xce", 501, "end octet 0x00"),
    "unknown frame type": Fault(frame(9, 1, b"?"), 501, "frame type 9 is unknown"),
    "unknown frame type on channel 0": Fault(frame(9, 0, b"?"), 501, "frame type 9 is unknown"),
    "heartbeat on a channel": Fault(frame(FRAME_HEARTBEAT, 1, b""), 501, "heartbeat on channel 1"),
    "method frame of three bytes": Fault(frame(FRAME_METHOD, 1, b"\0\0\0"), 501, "4 bytes at least"),
    "method frame of three bytes on channel 0": Fault(frame(FRAME_METHOD, 0, b"\0\0\0"), 501, "4 bytes at least"),
    "header on channel 0": Fault(header_frame(0, 1), 505, "frame type 2 on channel 0"),
    "body on channel 0": Fault(frame(FRAME_BODY, 0, b"x"), 505, "frame type 3 on channel 0"),
    "unknown method": Fault(frame(FRAME_METHOD, 1, b"\0\x3c\0\xf0"), 540, "unknown method 60/240"),
    "unknown class": Fault(frame(FRAME_METHOD, 1, b"\0\x4d\0\x0a"), 540, "unknown method 77/10"),
    "unknown method on channel 0": Fault(frame(FRAME_METHOD, 0, b"\0\x0a\0\xf0"), 540, "unknown method 10/240"),
    "arguments cut short": Fault(frame(FRAME_METHOD, 1, encode_method(BasicQos())[:-1]), 502, "basic.qos"),
    "arguments and more": Fault(frame(FRAME_METHOD, 1, encode_method(BasicQos()) + b"\0"), 502, "1 bytes are left"),
    "publish cut short": Fault(
        frame(FRAME_METHOD, 1, encode_method(BasicPublish(exchange="amq.direct"))[:-4]) + header_frame(1, 0),
        502,
        "short string",
    ),
    "name that is not UTF-8": Fault(
        frame(FRAME_METHOD, 1, bytes.fromhex("0032000a 0000 02c328 00 00000000")), 502, "not UTF-8"
    ),
    "channel that is not open": Fault(method_frame(2, BasicQos()), 504, "expected 'channel.open' on channel 2"),
    "content on a channel that is not open": Fault(header_frame(2, 1), 504, "channel 2, which is not open"),
    "channel opened twice": Fault(method_frame(1, ChannelOpen()), 504, "second 'channel.open' seen"),
    "channel above channel_max": Fault(method_frame(2048, ChannelOpen()), 530, "channel_max (2047)"),
    "channel method on channel 0": Fault(method_frame(0, ChannelOpen()), 503, "channel.open on channel 0"),
    "connection method on a channel": Fault(method_frame(1, ConnectionOpen()), 503, "not for this side to receive"),
    "connection opened twice": Fault(method_frame(0, ConnectionOpen()), 503, "connection.open on channel 0 while open"),
    "method only a server sends": Fault(method_frame(1, BasicDeliver()), 503, "not for this side to receive"),
    "tune from a client": Fault(method_frame(0, ConnectionTune()), 503, "connection.tune on channel 0"),
    "header without a method": Fault(header_frame(1, 1), 505, "expected method frame, got non method frame instead"),
    "body without a method": Fault(frame(FRAME_BODY, 1, b"x"), 505, "expected method frame"),
    "body without a header": Fault(
        PUBLISH + frame(FRAME_BODY, 1, b"x"), 505, "expected content header for class 60, got non content header frame"
    ),
    "method between method and header": Fault(PUBLISH + QOS, 505, "expected content header for class 60"),
    "method between header and body": Fault(PUBLISH + header_frame(1, 1) + QOS, 505, "expected content body, got non"),
    "header of another class": Fault(
        PUBLISH + header_frame(1, 1, class_id=50), 505, "for class 60, got one for class 50"
    ),
    "header with a weight": Fault(
        PUBLISH + frame(FRAME_HEADER, 1, bytes.fromhex("003c0001 0000000000000001 0000")), 505, "weight 1 instead"
    ),
    "header cut short": Fault(PUBLISH + frame(FRAME_HEADER, 1, bytes(12)), 501, "content header too short"),
    "body longer than announced": Fault(
        PUBLISH + header_frame(1, 3) + frame(FRAME_BODY, 1, b"four"), 505, "content body of 3 bytes more, got 4"
    ),
    "second body frame too long": Fault(
        PUBLISH + header_frame(1, 3) + frame(FRAME_BODY, 1, b"tw") + frame(FRAME_BODY, 1, b"tw"),
        505,
        "content body of 1 bytes more, got 2",
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


def test_the_close_names_the_method_at_fault(attacker: AmqpSocket) -> None:
    """class-id and method-id of connection.close are those of the method that could not be obeyed."""
    attacker.open().open_channel()
    attacker.send(frame(FRAME_METHOD, 1, b"\0\x3c\0\xf0"))
    close = attacker.expect_close(540)
    assert (close.class_id, close.method_id) == (60, 240)


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


def test_the_negotiated_channel_max_holds(attacker: AmqpSocket) -> None:
    """A peer that agreed to fewer channels may not open more, even if the broker offered them."""
    attacker.open(channel_max=3)
    attacker.open_channel(3)
    attacker.send_method(4, ChannelOpen())
    assert "channel_max (3)" in attacker.expect_close(530).reply_text


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
