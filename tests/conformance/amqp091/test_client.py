"""Rules for clients, kept by ours: `flintmq.client`, against a server that does as the test says."""

import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future

import pytest

import flintmq.client as fc
from flintmq.base.errors import FlintError
from flintmq.wire.amqp091.frames import FRAME_END, PROTOCOL_HEADER
from flintmq.wire.amqp091.method_codec import decode_method, encode_method
from flintmq.wire.amqp091.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicDeliver,
    BasicNack,
    BasicReject,
    ConnectionStart,
    ConnectionStartOk,
)
from tests.conformance.amqp091.rules import rule
from tests.integration.strange_server import Peer, StrangeServer, wire
from tests.sockets import method_frame
from tests.waiting import WAIT_SECONDS


def _heard(answer: bytes, connect: Callable[[str], object], end: bytes | None = None) -> bytes:
    """Answer a client's protocol header with these bytes; what it said, header and all, until it hung up.

    Where what it says ends with `end`, the server hangs up.
    """
    heard: Future[bytes] = Future()

    def serve(listener: socket.socket) -> None:
        sock, _ = listener.accept()
        with sock:
            sock.settimeout(WAIT_SECONDS)
            said = sock.recv(65_536)
            sock.sendall(answer)
            while (end is None or not said.endswith(end)) and (data := sock.recv(65_536)):
                said += data
            heard.set_result(said)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        with pytest.raises(FlintError):
            connect(f"amqp://guest:guest@127.0.0.1:{listener.getsockname()[1]}/")
        return heard.result(WAIT_SECONDS)


@rule("connection.start.client-support")
def test_connection_start_client_support(dialect: str) -> None:
    """A server that speaks an older version only: the client says nothing more than its own header, and hangs up."""
    assert _heard(b"AMQP\x00\x00\x00\x01", fc.connect) == PROTOCOL_HEADER


@rule("connection.start-ok.client-properties.required-fields")
def test_connection_start_ok_client_properties_required_fields(dialect: str) -> None:
    """All fields that there should be are there, and have something to say."""

    def behaviour(peer: Peer) -> None:
        peer.channel()
        properties.update(peer.side.engine.peer_properties)
        peer.serve()

    properties: dict[str, object] = {}
    with StrangeServer(behaviour) as server, fc.connect(server.url) as connection:
        connection.channel()
    for name in ("product", "version", "platform", "copyright", "information"):
        assert properties.get(name), f"{name} is missing from {sorted(properties)}"


@rule("connection.start-ok.locale")
def test_connection_start_ok_locale(dialect: str) -> None:
    """Of several, the one that all servers have."""
    start = ConnectionStart(mechanisms=b"PLAIN", locales=b"de_DE en_US")
    said = _heard(method_frame(0, start), fc.connect, bytes([FRAME_END]))
    answer = decode_method(said[len(PROTOCOL_HEADER) + 7 : -1])
    assert isinstance(answer, ConnectionStartOk)
    assert answer.locale == "en_US"


@rule("connection.start-ok.mechanism.security")
def test_connection_start_ok_mechanism_security(dialect: str) -> None:
    """Of a list, the client takes what it knows; where it knows none it sends no password."""
    start = ConnectionStart(mechanisms=b"TELEPATHY AMQPLAIN PLAIN")
    said = _heard(method_frame(0, start), fc.connect, bytes([FRAME_END]))
    answer = decode_method(said[len(PROTOCOL_HEADER) + 7 : -1])
    assert isinstance(answer, ConnectionStartOk)
    assert (answer.mechanism, answer.response) == ("PLAIN", b"\0guest\0guest")
    said = _heard(method_frame(0, ConnectionStart(mechanisms=b"TELEPATHY")), fc.connect)
    assert b"guest" not in said


@rule("redelivered.hinting")
def test_redelivered_hinting(dialect: str) -> None:
    """One message, flagged or not, once or twice: the application gets all that came, each with its flag."""

    def behaviour(peer: Peer) -> None:
        channel, tag = peer.consumer()
        for number, redelivered in enumerate((False, True, True, False), 1):
            method = BasicDeliver(consumer_tag=tag, delivery_tag=number, redelivered=redelivered)
            wire(channel).send_content(encode_method(method), b"\0\0", b"m")
        peer.serve(lambda: bool(channel.acks))

    with StrangeServer(behaviour) as server, fc.connect(server.url) as connection:
        channel = connection.channel()
        came: list[tuple[bytes, bool]] = []
        for batch in channel.consume("q"):
            came += [(message.body, message.redelivered) for message in batch.messages]
            if len(came) == 4:
                batch.ack()
                break
    assert came == [(b"m", False), (b"m", True), (b"m", True), (b"m", False)]


@rule("basic.reject.03")
def test_basic_reject_03(dialect: str) -> None:
    """By itself the client rejects nothing: it acknowledges, and gives back what it was not asked for any more."""

    def behaviour(peer: Peer) -> None:
        channel, tag = peer.consumer()
        for number in range(1, 6):
            delivery = BasicDeliver(consumer_tag=tag, delivery_tag=number)
            wire(channel).send_content(encode_method(delivery), b"\0\0", bytes([number]))
        peer.serve(lambda: any(isinstance(method, BasicCancel) for method in channel.methods))
        wire(channel).send(BasicCancelOk(consumer_tag=tag))
        peer.serve()
        said.extend(channel.acks)
        rejected.extend(method for method in channel.methods if isinstance(method, BasicReject))
        for method in channel.methods:
            assert not isinstance(method, BasicNack) or method.requeue

    said: list[tuple[int, bool]] = []
    rejected: list[BasicReject] = []
    came = 0
    with StrangeServer(behaviour) as server:
        connection = fc.connect(server.url)
        for batch in connection.channel().consume("q", batch_size=2):
            batch.ack()
            came += len(batch.messages)
            if came >= 3:
                break
        connection.close()
    assert max(tag for tag, _ in said) == came
    assert rejected == []
