"""The engine in both roles: two of them talk, and every exchange is checked from both ends."""

from collections.abc import Iterator

import pytest

from flintmq.base.errors import AmqpError, ClosedByPeer, ConnectionLost, LocalProtocolError, NotFound, ResourceError
from flintmq.base.limits import METHOD_WORK_UNITS, OUTPUT_BACK_PRESSURE_BYTES, TICK_WORK_UNITS
from flintmq.protocol.amqp091.connection import Tuning
from flintmq.protocol.amqp091.states import State
from flintmq.wire.amqp091 import methods
from flintmq.wire.amqp091.frames import PROTOCOL_HEADER
from flintmq.wire.amqp091.method_codec import decode_method, encode_method
from flintmq.wire.amqp091.methods import (
    BasicPublish,
    BasicQos,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionTune,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.unit.protocol.amqp091.pair import ConnectionPair, Recorder, Side

PUBLISH = encode_method(BasicPublish(exchange="x", routing_key="k"))
NO_PROPERTIES = b"\0\0"


def frame(kind: int, channel: int, payload: bytes, end: int = 0xCE) -> bytes:
    return bytes([kind]) + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big") + payload + bytes([end])


def header(size: int, class_id: int = 60) -> bytes:
    return class_id.to_bytes(2, "big") + b"\0\0" + size.to_bytes(8, "big") + NO_PROPERTIES


def closed_with(side: Side) -> tuple[int, str]:
    """Code and text of the close that this side was told."""
    (reason,) = side.closed
    assert isinstance(reason, ClosedByPeer)
    return reason.code, reason.text


def frames(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Type, channel and payload of each."""
    pos = 0
    while pos < len(data):
        size = int.from_bytes(data[pos + 3 : pos + 7], "big")
        assert data[pos + 7 + size] == 0xCE
        yield data[pos], int.from_bytes(data[pos + 1 : pos + 3], "big"), data[pos + 7 : pos + 7 + size]
        pos += 8 + size


def close_in(data: bytes) -> ConnectionClose:
    """The connection.close among these frames."""
    for kind, _, payload in frames(data):
        if kind == 1 and int.from_bytes(payload[:4], "big") == methods.CONNECTION_CLOSE:
            close = decode_method(payload)
            assert isinstance(close, ConnectionClose)
            return close
    raise AssertionError("no connection.close")


# -- the handshake --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [0, 1, 7])
def test_handshake_reaches_open_on_both_sides(step: int) -> None:
    """Whatever pieces the bytes come in, both sides agree that the connection is open, and on its tuning."""
    pair = ConnectionPair(Tuning(100, 131072, 30), Tuning(50, 8192, 60), step=step).open()
    for side in (pair.server, pair.client):
        assert side.engine.state is State.OPEN
        tuning = side.engine.tuning
        assert (tuning.channel_max, tuning.frame_max, tuning.heartbeat) == (50, 8192, 30)
    assert pair.server.logins == [("PLAIN", b"\0user\0secret")]
    assert pair.server.opened == ["/"]


def test_zero_means_no_limit_of_mine() -> None:
    """A client that tunes to 0 takes what the server offers."""
    pair = ConnectionPair(Tuning(100, 8192, 30), Tuning(0, 0, 0)).open()
    assert pair.server.engine.tuning.frame_max == 8192
    assert pair.server.engine.tuning.channel_max == 100


@pytest.mark.parametrize("start", [b"HTTP/1.1", b"AMQP\x00\x01\x00\x00", b"AMQP\x01\x01\x00\x09", b"\x16\x03\x01"])
def test_wrong_protocol_is_answered_with_ours(start: bytes) -> None:
    """Any other opening gets our protocol header and a closed connection (amqp-0-9-1 §4.2.2)."""
    server = ConnectionPair().server
    server.engine.receive(start, 0.0)
    assert server.sent() == PROTOCOL_HEADER
    assert server.engine.state is State.CLOSED
    assert len(server.closed) == 1


@pytest.mark.parametrize(
    ("capability", "told"), [(True, True), (False, False)], ids=["client can be told", "client cannot"]
)
def test_refused_login(capability: bool, told: bool) -> None:
    """A client that declares authentication_failure_close gets 403; any other is hung up on."""
    pair = ConnectionPair(password="wrong", properties={"capabilities": {"authentication_failure_close": capability}})
    pair.pump()
    if told:
        code, text = closed_with(pair.client)
        assert code == 403
        assert text.startswith("ACCESS_REFUSED")
    assert pair.server.engine.state is State.CLOSED
    assert pair.server.opened == []


@pytest.mark.parametrize(
    ("tuned", "words"),
    [
        ("000a001f 0bb8 00020000 003c", "channel_max = 3000 is higher"),
        ("000a001f 07ff 00030000 003c", "frame_max = 196608 is higher"),
    ],
)
def test_tuning_beyond_the_offer_ends_the_connection(tuned: str, words: str) -> None:
    """Without a close, as amqp-0-9-1 connection.tune-ok has it; the owner is told why."""
    server = tuning_server()
    server.engine.receive(frame(1, 0, bytes.fromhex(tuned)), 0.0)
    assert server.sent() == b""
    assert server.engine.state is State.CLOSED
    assert words in str(server.closed[0])


def test_a_frame_below_the_minimum_is_refused() -> None:
    """530, as RabbitMQ has it."""
    server = tuning_server()
    server.engine.receive(frame(1, 0, bytes.fromhex("000a001f 07ff 00000100 003c")), 0.0)
    answer = server.sent()
    assert close_in(answer).reply_code == 530
    assert b"frame_max = 256 is lower" in answer


def tuning_server() -> Side:
    """A server that waits for tune-ok."""
    pair = ConnectionPair()
    pair.server.engine.receive(pair.client.sent(), 0.0)
    pair.client.engine.receive(pair.server.sent(), 0.0)
    pair.server.engine.receive(pair.client.sent(), 0.0)
    pair.server.sent()
    return pair.server


# -- channels -------------------------------------------------------------------------------------------------------


def test_channel_opens_carries_methods_and_closes() -> None:
    """A method arrives as it was sent, the answer too, and a close is told to both owners once."""
    pair = ConnectionPair().open()
    mine, theirs = pair.channel()
    assert isinstance(mine.methods[0], ChannelOpenOk)
    assert mine.channel is not None
    assert theirs.channel is not None
    mine.channel.send(QueueDeclare(queue="q", durable=True, arguments={"x-a": 1}))
    pair.pump()
    assert theirs.methods == [QueueDeclare(queue="q", durable=True, arguments={"x-a": 1})]
    theirs.channel.send(QueueDeclareOk(queue="q", message_count=3))
    pair.pump()
    assert mine.methods[1] == QueueDeclareOk(queue="q", message_count=3)
    mine.channel.close()
    pair.pump()
    assert mine.closed == [None]
    (reason,) = theirs.closed
    assert isinstance(reason, ClosedByPeer)
    assert reason.code == 200


def test_fault_of_a_method_closes_its_channel_only() -> None:
    """A soft error becomes channel.close with its code, text and method; other channels and the number live on."""
    pair = ConnectionPair().open()
    mine, theirs = pair.channel()
    other, _ = pair.channel()
    theirs.fault = NotFound("no queue 'q' in vhost '/'")
    assert mine.channel is not None
    mine.channel.send(BasicQos(prefetch_count=1))
    pair.pump()
    (reason,) = mine.closed
    assert isinstance(reason, ClosedByPeer)
    assert (reason.code, reason.text) == (404, "NOT_FOUND - no queue 'q' in vhost '/'")
    assert theirs.closed
    assert not other.closed
    again, _ = pair.channel()
    assert again.channel is not None
    assert again.channel.number == mine.channel.number


def test_hard_fault_closes_the_connection() -> None:
    """A hard error becomes connection.close, and every channel's owner is told."""
    pair = ConnectionPair().open()
    mine, theirs = pair.channel()
    other, _ = pair.channel()
    theirs.fault = ResourceError("no room")
    assert mine.channel is not None
    mine.channel.send(BasicQos(prefetch_count=1))
    pair.pump()
    assert closed_with(pair.client) == (506, "RESOURCE_ERROR - no room")
    assert mine.closed
    assert other.closed
    assert pair.server.engine.state is State.CLOSED


def test_what_a_closing_channel_still_sends_is_dropped() -> None:
    """Between our close and the peer's close-ok, its methods and contents have no effect."""
    pair = ConnectionPair().open()
    mine, theirs = pair.channel()
    assert mine.channel is not None
    theirs.fault = NotFound("x")
    mine.channel.send(BasicQos(prefetch_count=1))
    mine.channel.send_content(PUBLISH, NO_PROPERTIES, b"late")
    mine.channel.send(BasicQos(prefetch_count=2))
    pair.pump()
    assert theirs.methods == []
    assert theirs.contents == []
    assert pair.server.engine.state is State.OPEN


def test_channel_max_is_kept_on_both_sides() -> None:
    """The client refuses to open more; the server closes a peer that does it all the same."""
    pair = ConnectionPair(Tuning(channel_max=2)).open()
    pair.channel()
    pair.channel()
    with pytest.raises(LocalProtocolError, match="all 2 channels"):
        pair.client.engine.open_channel(Recorder())
    pair.server.engine.receive(frame(1, 3, bytes.fromhex("0014000a00")), 0.0)
    pair.pump()
    assert closed_with(pair.client)[0] == 530


@pytest.mark.parametrize("number", [0x7FFF, 0x8000, 0xFFFF])
def test_channel_numbers_are_unsigned(number: int) -> None:
    """Each of the 65,535 channels there can be carries methods, content and confirms, and is closed by its number."""
    pair = ConnectionPair(Tuning(channel_max=0xFFFF), Tuning(channel_max=0xFFFF)).open()
    engine = pair.server.engine
    engine.receive(frame(1, number, bytes.fromhex("0014000a00")), 0.0)
    (owner,) = pair.server.channels
    channel = owner.channel
    assert channel is not None
    channel.send(QueueDeclareOk(queue="q"))
    channel.send_delivery(b"\0\x3c\0\x3c\1c", 1, False, b"\1x\1k", NO_PROPERTIES, bytes(70_000))
    channel.send_ack(1, False)
    channel.close()
    kinds = [(kind, channel) for kind, channel, _ in frames(pair.server.sent())]
    assert kinds == [(1, number), (1, number), (1, number), (2, number), (3, number), (1, number), (1, number)]


# -- content --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [0, 1, 1000])
@pytest.mark.parametrize("size", [0, 1, 4088, 4089, 70_000, 300_000])
def test_bodies_of_any_size_arrive_whole(size: int, step: int) -> None:
    """A body is cut into frames of the agreed size and put together again, byte for byte."""
    if step == 1 and size > 5000:
        step = 13
    pair = ConnectionPair(Tuning(frame_max=4096), step=step).open()
    mine, theirs = pair.channel()
    assert mine.channel is not None
    body = bytes(i * 31 & 0xFF for i in range(size))
    mine.channel.send_content(PUBLISH, NO_PROPERTIES, body)
    mine.channel.send_content(PUBLISH, b"\x10\x00\x02", b"next")
    pair.pump()
    assert theirs.contents == [(PUBLISH, NO_PROPERTIES, body), (PUBLISH, b"\x10\x00\x02", b"next")]


def test_pieces_of_a_body_fill_frames() -> None:
    """Small ones share a frame, up to what it may have; a large one goes out from where it lies, in order."""
    pair = ConnectionPair(Tuning(frame_max=100_000)).open()
    mine, theirs = pair.channel()
    assert mine.channel is not None
    large = bytes(range(256)) * 300
    pieces = [bytes([number]) * 4_000 for number in range(50)] + [large, b"end"]
    mine.channel.send_pieces(PUBLISH, NO_PROPERTIES, pieces)
    chunks = pair.client.output.take()
    assert any(chunk is large for chunk in chunks)
    sent = b"".join(chunks)
    bodies = [len(payload) for kind, _, payload in frames(sent) if kind == 3]
    assert bodies == [96_000, 96_000, 8_000, len(large), 3]
    pair.server.engine.receive(sent, 0.0)
    assert theirs.contents == [(PUBLISH, NO_PROPERTIES, b"".join(pieces))]


def test_frames_of_a_large_body_are_not_copied() -> None:
    """A body of several frames goes out from where it lies, but for a small rest."""
    pair = ConnectionPair(Tuning(frame_max=100_008)).open()
    mine, theirs = pair.channel()
    assert mine.channel is not None
    body = bytes(range(200)) * 1_001
    mine.channel.send_pieces(PUBLISH, NO_PROPERTIES, [body])
    chunks = pair.client.output.take()
    views = [chunk for chunk in chunks if isinstance(chunk, memoryview)]
    assert [len(view) for view in views] == [100_000, 100_000]
    assert all(view.obj is body for view in views)
    pair.server.engine.receive(b"".join(chunks), 0.0)
    assert theirs.contents == [(PUBLISH, NO_PROPERTIES, body)]


def test_messages_like_the_one_before() -> None:
    """What has its method, properties and size in common with the message before differs in its body only."""
    pair = ConnectionPair().open()
    mine, theirs = pair.channel()
    assert mine.channel is not None
    other = b"\x10\x00\x02"
    sent = [
        *((NO_PROPERTIES, b"%d" % number) for number in range(4)),
        *((other, b"%d" % number) for number in range(3)),
        *((other, b"longer %d" % number) for number in range(3)),
        *((other, b"") for _ in range(3)),
        *((NO_PROPERTIES, b"%d" % number * 100_000) for number in range(3)),
        (NO_PROPERTIES, b"9"),
    ]
    for properties, body in sent:
        mine.channel.send_content(PUBLISH, properties, body)
    pair.pump()
    assert theirs.contents == [(PUBLISH, *each) for each in sent]


def test_acks_arrive_without_becoming_methods() -> None:
    """basic.ack goes to on_ack in both roles: settlements to the server, confirms to the client."""
    pair = ConnectionPair().open()
    mine, theirs = pair.channel()
    assert mine.channel is not None
    assert theirs.channel is not None
    mine.channel.send_ack(7, False)
    theirs.channel.send_ack(2**40, True)
    pair.pump()
    assert theirs.acks == [(7, False)]
    assert mine.acks == [(2**40, True)]


def test_message_above_the_limit_is_refused_at_its_header() -> None:
    """An oversized body closes the channel with 406 before a byte of it is kept; the rest of it is dropped."""
    pair = ConnectionPair(Tuning(message_max=1000)).open()
    mine, theirs = pair.channel()
    assert mine.channel is not None
    mine.channel.send_content(PUBLISH, NO_PROPERTIES, bytes(200_000))
    pair.pump()
    (reason,) = mine.closed
    assert isinstance(reason, ClosedByPeer)
    assert reason.code == 406
    assert "size 200000" in reason.text
    assert theirs.contents == []
    assert pair.server.engine.state is State.OPEN


# -- what a peer may not do -----------------------------------------------------------------------------------------

OPEN_CHANNEL = frame(1, 1, bytes.fromhex("0014000a00"))
PUBLISHED = frame(1, 1, PUBLISH)
QOS = encode_method(BasicQos(prefetch_count=1))
# Sent once channel 1 is open: the code that the connection is closed with, and words of its text.
FAULTS = {
    "payload above frame_max": (frame(3, 1, bytes(131_065)), 501, "131073 bytes: a frame may have 131072"),
    "wrong end octet": (frame(1, 1, QOS, end=0xCD), 501, "end octet 0xcd, 0xce was due"),
    "end octet too late": (frame(1, 1, QOS, end=0) + b"\xce", 501, "end octet 0x00"),
    "frame type": (frame(9, 1, b""), 501, "frame type 9 is unknown"),
    "frame type on channel 0": (frame(9, 0, b""), 501, "frame type 9 is unknown"),
    "heartbeat on a channel": (frame(8, 1, b""), 501, "heartbeat on channel 1"),
    "method frame too short": (frame(1, 1, b"\0\0\0"), 501, "4 bytes at least"),
    "method frame too short on channel 0": (frame(1, 0, b"\0\0\0"), 501, "4 bytes at least"),
    "header on channel 0": (frame(2, 0, header(1)), 505, "frame type 2 on channel 0"),
    "body on channel 0": (frame(3, 0, b"x"), 505, "frame type 3 on channel 0"),
    "unknown method": (frame(1, 1, bytes.fromhex("003c00f0")), 540, "unknown method 60/240"),
    "unknown class": (frame(1, 1, bytes.fromhex("004d000a")), 540, "unknown method 77/10"),
    "unknown method on channel 0": (frame(1, 0, bytes.fromhex("000a00f0")), 540, "unknown method 10/240"),
    "arguments cut short": (frame(1, 1, QOS[:-1]), 502, "basic.qos"),
    "arguments and more": (frame(1, 1, QOS + b"\0"), 502, "1 bytes are left"),
    "name that is not UTF-8": (frame(1, 1, bytes.fromhex("0032000a 0000 02c328 00 00000000")), 502, "not UTF-8"),
    "a server's method": (frame(1, 1, encode_method(QueueDeclareOk())), 503, "not for this side to receive"),
    "tune from a client": (frame(1, 0, encode_method(ConnectionTune())), 503, "connection.tune on channel 0"),
    "open twice": (frame(1, 0, bytes.fromhex("000a0028012f0000")), 503, "connection.open on channel 0 while open"),
    "connection method on a channel": (frame(1, 1, encode_method(ConnectionOpen())), 503, "not for this side"),
    "channel method on channel 0": (frame(1, 0, OPEN_CHANNEL[7:-1]), 503, "channel.open on channel 0"),
    "channel not open": (frame(1, 2, QOS), 504, "expected 'channel.open' on channel 2"),
    "header on a channel not open": (frame(2, 2, header(1)), 504, "channel 2, which is not open"),
    "channel opened twice": (OPEN_CHANNEL, 504, "second 'channel.open' seen"),
    "channel above channel_max": (frame(1, 2048, OPEN_CHANNEL[7:-1]), 530, "channel_max (2047)"),
    "header without method": (frame(2, 1, header(1)), 505, "expected method frame, got non method frame instead"),
    "body without method": (frame(3, 1, b"x"), 505, "expected method frame"),
    "body without header": (
        PUBLISHED + frame(3, 1, b"x"),
        505,
        "expected content header for class 60, got non content",
    ),
    "method before the header": (PUBLISHED * 2, 505, "expected content header for class 60"),
    "method before the body": (PUBLISHED + frame(2, 1, header(1)) + PUBLISHED, 505, "expected content body, got non"),
    "header of another class": (PUBLISHED + frame(2, 1, header(1, 50)), 505, "for class 60, got one for class 50"),
    "header with a weight": (PUBLISHED + frame(2, 1, b"\0\x3c\0\1" + header(1)[4:]), 505, "weight 1 instead"),
    "header too short": (PUBLISHED + frame(2, 1, b"\0" * 12), 501, "content header too short"),
    "body too long": (PUBLISHED + frame(2, 1, header(3)) + frame(3, 1, b"four"), 505, "body of 3 bytes more, got 4"),
    "second frame too long": (
        PUBLISHED + frame(2, 1, header(3)) + frame(3, 1, b"tw") * 2,
        505,
        "content body of 1 bytes more, got 2",
    ),
}


@pytest.mark.parametrize("step", [0, 1], ids=["whole", "byte by byte"])
@pytest.mark.parametrize(("data", "code", "text"), FAULTS.values(), ids=FAULTS.keys())
def test_fault_of_a_peer_closes_with_its_code(data: bytes, code: int, text: str, step: int) -> None:
    """Each way to break the protocol ends in connection.close with the reply code the specification gives it."""
    if step and len(data) > 1000:
        step = 997
    pair = ConnectionPair().open()
    pair.channel()
    for start in range(0, len(data), step or len(data)):
        pair.server.engine.receive(data[start : start + (step or len(data))], 0.0)
    close = close_in(pair.server.sent())
    assert close.reply_code == code
    assert text in close.reply_text
    assert len(pair.server.closed) == 1


def test_frame_length_is_not_believed() -> None:
    """A length that no frame may have is refused at once: nothing waits for four gigabytes."""
    pair = ConnectionPair().open()
    pair.server.engine.receive(bytes([3, 0, 1, 0xFF, 0xFF, 0xFF, 0xFF]), 0.0)
    assert close_in(pair.server.sent()).reply_code == 501


@pytest.mark.parametrize("offset", range(0, 23, 2))
def test_close_ok_is_found_behind_a_frame_that_cannot_be_trusted(offset: int) -> None:
    """However what follows is cut, and whatever frames it could pass for: the connection ends when the peer agrees."""
    pair = ConnectionPair().open()
    frame_max = pair.server.engine.tuning.frame_max
    # Beginnings of frames that are small enough, and never end.
    rest = (b"\x01\0\0\0\0\x10\0" * 12)[:64] + frame(1, 0, encode_method(ConnectionCloseOk()))
    pair.server.engine.receive(bytes([3, 0, 1]) + (frame_max + 1).to_bytes(4, "big"), 0.0)
    assert close_in(pair.server.sent()).reply_code == 501
    for start in range(-offset, len(rest), 23):
        assert not pair.server.engine.is_closed
        pair.server.engine.receive(rest[max(start, 0) : start + 23], 0.0)
    assert pair.server.engine.is_closed
    assert isinstance(pair.server.closed[0], AmqpError)
    assert len(pair.server.closed) == 1


def test_a_server_hears_no_more_while_too_much_waits() -> None:
    """With an output full of answers nobody reads, one more method is taken at a time; with room, all that came."""
    pair = ConnectionPair().open()
    mine, theirs = pair.channel()
    assert mine.channel is not None
    for _ in range(3):
        mine.channel.send(BasicQos())
    server = pair.server
    server.output.backlog = OUTPUT_BACK_PRESSURE_BYTES + 1
    server.engine.receive(pair.client.sent(), 0.0)
    assert (len(theirs.methods), server.engine.is_paused) == (1, True)
    server.engine.receive(b"", 0.0)
    assert (len(theirs.methods), server.engine.is_paused) == (2, True)
    server.output.backlog = 0
    server.engine.receive(b"", 0.0)
    assert (len(theirs.methods), server.engine.is_paused) == (3, False)


def test_a_server_does_so_much_for_a_peer_and_then_others_have_their_turn() -> None:
    """Methods beyond a tick's work wait, and what is behind them; publishes and acks are counted by their bytes."""
    pair = ConnectionPair().open()
    mine, theirs = pair.channel()
    assert mine.channel is not None
    engine = pair.server.engine
    engine.refresh()
    a_tick = TICK_WORK_UNITS // METHOD_WORK_UNITS
    for _ in range(2 * a_tick - 1):
        mine.channel.send(BasicQos())
        mine.channel.send_ack(1, False)
    for tick in (1, 2):
        engine.receive(pair.client.sent(), 0.0)
        assert len(theirs.methods) == (a_tick if tick == 1 else 2 * a_tick - 1)
        assert engine.is_paused == (tick == 1)
        engine.refresh()
    for _ in range(2 * a_tick):
        mine.channel.send_content(PUBLISH, NO_PROPERTIES, b"")
    engine.receive(pair.client.sent(), 0.0)
    assert len(theirs.contents) == 2 * a_tick


def test_what_the_owner_spends_counts() -> None:
    """A message that was expensive makes the next one wait for the next tick."""
    pair = ConnectionPair().open()
    mine, theirs = pair.channel()
    assert mine.channel is not None
    pair.server.engine.spend(TICK_WORK_UNITS)
    mine.channel.send_content(PUBLISH, NO_PROPERTIES, b"x")
    pair.server.engine.receive(pair.client.sent(), 0.0)
    assert (theirs.contents, pair.server.engine.is_paused) == ([], True)
    pair.server.engine.refresh()
    pair.server.engine.receive(b"", 0.0)
    assert (len(theirs.contents), pair.server.engine.is_paused) == (1, False)


def test_methods_are_held_while_one_is_not_finished() -> None:
    """However many ticks that takes, the peer then gets no more done in a tick than others."""
    pair = ConnectionPair().open()
    mine, theirs = pair.channel()
    assert mine.channel is not None
    engine = pair.server.engine
    engine.refresh()
    engine.hold_methods()
    for _ in range(2 * TICK_WORK_UNITS // METHOD_WORK_UNITS):
        mine.channel.send(BasicQos())
    for _ in range(100):
        engine.receive(pair.client.sent(), 0.0)
        assert (theirs.methods, engine.is_paused) == ([], True)
        engine.refresh()
    engine.take_methods()
    engine.receive(b"", 0.0)
    assert len(theirs.methods) == TICK_WORK_UNITS // METHOD_WORK_UNITS


def test_a_client_does_all_that_its_server_says() -> None:
    """A client has no tick, and nobody else to serve."""
    pair = ConnectionPair().open()
    mine, theirs = pair.channel()
    assert theirs.channel is not None
    for _ in range(3000):
        theirs.channel.send(QueueDeclareOk(queue="q"))
    pair.client.engine.receive(pair.server.sent(), 0.0)
    assert len(mine.methods) == 1 + 3000


def test_methods_before_open_are_refused() -> None:
    """A channel used before connection.open ends the connection."""
    pair = ConnectionPair()
    server = pair.server
    server.engine.receive(PROTOCOL_HEADER, 0.0)
    server.sent()
    server.engine.receive(OPEN_CHANNEL, 0.0)
    assert close_in(server.sent()).reply_code == 504


@pytest.mark.parametrize("sent", ["header(1, 50)", "body(2)", "body(0)", "method", "refused"])
def test_faults_of_content_name_its_method(sent: str) -> None:
    """What is wrong with a header or a body, or with the message as a whole, is wrong with its basic.publish."""
    pair = ConnectionPair(Tuning(message_max=100)).open()
    _, theirs = pair.channel()
    send = {
        "header(1, 50)": frame(2, 1, header(1, 50)),
        "body(2)": frame(2, 1, header(1)) + frame(3, 1, b"xy"),
        "body(0)": frame(3, 1, b""),
        "method": frame(1, 1, encode_method(BasicQos())),
        "refused": frame(2, 1, header(0)),
    }
    if sent == "refused":
        theirs.fault = ResourceError("no room")
    pair.server.engine.receive(frame(1, 1, PUBLISH) + send[sent], 0.0)
    close = close_in(pair.server.sent())
    assert (close.class_id, close.method_id) == (60, 40)


def test_an_unknown_method_is_named() -> None:
    """class-id and method-id of connection.close are those of the method that could not be obeyed."""
    pair = ConnectionPair().open()
    pair.channel()
    pair.server.engine.receive(frame(1, 1, b"\0\x3c\0\xf0"), 0.0)
    close = close_in(pair.server.sent())
    assert (close.class_id, close.method_id) == (60, 240)


def test_a_frame_that_belongs_to_nothing_names_nothing() -> None:
    """A header out of the blue is the fault of no method, whatever was published before."""
    pair = ConnectionPair().open()
    pair.channel()
    pair.server.engine.receive(frame(1, 1, PUBLISH) + frame(2, 1, header(0)) + frame(2, 1, header(0)), 0.0)
    close = close_in(pair.server.sent())
    assert (close.class_id, close.method_id) == (0, 0)


# -- ends -----------------------------------------------------------------------------------------------------------


def test_close_from_either_side_ends_both() -> None:
    """connection.close and its answer leave both engines closed and every owner told."""
    for closer, other in (("client", "server"), ("server", "client")):
        pair = ConnectionPair().open()
        mine, theirs = pair.channel()
        getattr(pair, closer).engine.close(200, "bye")
        pair.pump()
        assert getattr(pair, closer).engine.state is State.CLOSED
        assert closed_with(getattr(pair, other)) == (200, "bye")
        assert len(mine.closed) == len(theirs.closed) == 1


def test_lost_transport_is_told() -> None:
    """When the socket goes, channels and connection are told why, once."""
    pair = ConnectionPair().open()
    _, theirs = pair.channel()
    pair.server.engine.lost(None)
    pair.server.engine.lost(None)
    assert len(pair.server.closed) == len(theirs.closed) == 1
    assert isinstance(pair.server.closed[0], ConnectionLost)


def test_the_end_asks_for_a_hang_up() -> None:
    """An engine that is done has its transport visited once more, to be hung up, though there is nothing to say."""
    pair = ConnectionPair().open()
    server = pair.server
    server.engine.close(320, "bye")
    pair.client.engine.receive(server.sent(), 0.0)
    server.output._outbox.waiting.clear()
    server.engine.receive(pair.client.sent(), 0.0)
    assert server.engine.state is State.CLOSED
    assert server.output._outbox.waiting == [server.output]
    assert server.sent() == b""


# -- heartbeats -----------------------------------------------------------------------------------------------------


def test_heartbeats_keep_a_silent_connection() -> None:
    """Each side sends when it was silent for half an interval, and nobody gives up as long as they arrive."""
    pair = ConnectionPair(Tuning(heartbeat=10), Tuning(heartbeat=10)).open()
    for _ in range(100):
        pair.now += 1.0
        for side in (pair.client, pair.server):
            due = side.engine.next_timer()
            assert due is not None
            if due <= pair.now:
                side.engine.handle_timer(pair.now)
        pair.pump()
    assert pair.client.engine.state is State.OPEN
    assert pair.server.engine.state is State.OPEN


def test_silence_of_two_intervals_ends_the_connection() -> None:
    """A peer that sends nothing for two heartbeat intervals is given up, with that as the reason."""
    pair = ConnectionPair(Tuning(heartbeat=10), Tuning(heartbeat=10)).open()
    pair.server.engine.handle_timer(19.0)
    assert pair.server.engine.state is State.OPEN
    pair.server.engine.handle_timer(20.0)
    assert pair.server.engine.state is State.CLOSED
    (reason,) = pair.server.closed
    assert isinstance(reason, ConnectionLost)
    assert "heartbeat" in str(reason)


def test_no_heartbeat_means_no_timer() -> None:
    """An interval of 0 turns heartbeats off."""
    pair = ConnectionPair(Tuning(heartbeat=0), Tuning(heartbeat=0)).open()
    assert pair.server.engine.next_timer() is None
    pair.server.engine.handle_timer(1e9)
    assert pair.server.engine.state is State.OPEN


def test_blocked_and_unblocked_reach_the_client() -> None:
    """connection.blocked comes with its reason, connection.unblocked without."""
    pair = ConnectionPair().open()
    pair.server.engine.blocked("low on memory")
    pair.server.engine.blocked(None)
    pair.pump()
    assert pair.client.blocked == ["low on memory", None]
