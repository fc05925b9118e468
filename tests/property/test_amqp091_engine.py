"""Any bytes at all: the server understands them, or closes with a reply code; and pieces make no difference."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from flintmq.gateway.amqp091.connection import ServerConnection
from flintmq.protocol.amqp091.states import State
from flintmq.protocol.output import Outbox, Output
from flintmq.wire.amqp091 import methods
from flintmq.wire.amqp091.frames import PROTOCOL_HEADER
from flintmq.wire.amqp091.method_codec import encode_method
from flintmq.wire.amqp091.methods import (
    METHODS,
    BasicConsume,
    BasicPublish,
    ConfirmSelect,
    ConnectionClose,
    QueueBind,
    QueueDeclare,
)
from tests.effort import effort
from tests.unit.gateway.amqp091.pair import Client, Server

REPLY_CODES = {311, 313, 320, 402, 403, 404, 405, 406, 501, 502, 503, 504, 505, 506, 530, 540}


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return bytes([kind]) + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big") + payload + b"\xce"


def content(size: int, body: bytes) -> bytes:
    return frame(2, 1, b"\x00\x3c\0\0" + size.to_bytes(8, "big") + b"\x10\0\x02") + (frame(3, 1, body) if body else b"")


GOOD = [
    frame(1, 1, encode_method(method))
    for method in (
        QueueDeclare(queue="q", durable=True),
        QueueBind(queue="q", exchange="amq.topic", routing_key="a.#"),
        BasicConsume(queue="q", consumer_tag="c", no_ack=True),
        ConfirmSelect(),
    )
] + [frame(1, 1, encode_method(BasicPublish(exchange="amq.topic", routing_key="a.b"))) + content(3, b"abc")]

PAYLOADS = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(sorted(METHODS)).flatmap(
        lambda number: st.binary(max_size=30).map(lambda rest: number.to_bytes(4, "big") + rest)
    ),
    st.sampled_from([encode_method(method()) for method in METHODS.values()]),
)
FRAMES = st.one_of(
    st.sampled_from(GOOD),
    st.builds(frame, st.sampled_from([1, 1, 1, 2, 3, 8, 0, 255]), st.sampled_from([0, 1, 1, 2, 65535]), PAYLOADS),
)


@st.composite
def hostile(draw: st.DrawFn) -> bytes:
    """Frames, some of them nonsense, with a few bytes changed, lost or added."""
    data = bytearray(b"".join(draw(st.lists(FRAMES, max_size=8))))
    for _ in range(draw(st.integers(0, 3))):
        if data:
            at = draw(st.integers(0, len(data) - 1))
            data[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=2))
    return bytes(data)


def answers(data: bytes, step: int) -> tuple[bytes, State]:
    """What a server that has channel 1 open answers to these bytes, fed `step` at a time, and where it ends."""
    client = Client(Server())
    client.channel()
    for start in range(0, len(data), step):
        client.connection.engine.receive(data[start : start + step], 0.0)
    while client.server.gateway.end_tick():
        pass
    client.server.storage.sync()
    client.server.gateway.on_durable()
    return b"".join(client.output.take()), client.connection.engine.state


def up_to_close(data: bytes) -> tuple[bytes, list[int]]:
    """Frames, which have to be whole, up to a connection.close; and the reply codes of all closes among them."""
    codes = []
    pos = 0
    while pos < len(data):
        size = int.from_bytes(data[pos + 3 : pos + 7], "big")
        assert data[pos + 7 + size] == 0xCE
        payload = data[pos + 7 : pos + 7 + size]
        pos += 8 + size
        method = int.from_bytes(payload[:4], "big") if data[pos - 8 - size] == 1 else 0
        if method in (methods.CONNECTION_CLOSE, methods.CHANNEL_CLOSE):
            codes.append(int.from_bytes(payload[4:6], "big"))
        if method == methods.CONNECTION_CLOSE:
            break
    return data[:pos], codes


# A byte too many, so that a frame is none; and behind it what may be one, or is passed over together with it.
STRAY = b"\0" + GOOD[0] + frame(1, 0, encode_method(ConnectionClose()))


@settings(max_examples=effort(400))
@given(hostile(), st.integers(1, 9))
@example(STRAY, 1)
def test_any_bytes_are_understood_or_refused(data: bytes, step: int) -> None:
    """Nothing but a reply code of the specification comes of nonsense, and the same whole as in pieces.

    That is, up to the end of the connection: where a frame is broken nobody knows where the next one begins, and what
    looks like one depends on the pieces.
    """
    whole, state = answers(data, len(data) + 1)
    pieces, state_of_pieces = answers(data, step)
    said, codes = up_to_close(whole)
    assert set(codes) <= REPLY_CODES
    assert said == up_to_close(pieces)[0]
    assert state is state_of_pieces or {state, state_of_pieces} == {State.CLOSING, State.CLOSED}


@settings(max_examples=effort(200))
@given(st.sampled_from([b"", PROTOCOL_HEADER]), st.binary(max_size=64), st.integers(1, 9))
def test_any_bytes_before_login(start: bytes, data: bytes, step: int) -> None:
    """Before there is a login, too; and nobody gets in by nonsense."""
    output = Output(Outbox())
    engine = ServerConnection(Server().service, output, "test:1").engine
    for at in range(0, len(start + data), step):
        engine.receive((start + data)[at : at + step], 0.0)
    assert engine.state in (State.HEADER, State.START_OK, State.CLOSING, State.CLOSED)
