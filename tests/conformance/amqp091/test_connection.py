"""connection.*: as a client finds the server."""

import pytest

from flintmq.base.errors import ClosedByPeer
from flintmq.base.limits import FRAME_MIN_BYTES, FRAME_OVERHEAD_BYTES
from flintmq.wire.amqp091.frames import FRAME_BODY, PROTOCOL_HEADER
from flintmq.wire.amqp091.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicPublish,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueuePurge,
)
from flintmq.wire.amqp10.spec import SASL_HEADER
from tests.conformance.amqp091.conftest import Connect
from tests.conformance.amqp091.peer import Peer, fresh
from tests.conformance.amqp091.rules import rule
from tests.conformance.brokers import Broker
from tests.sockets import AmqpSocket, frame, header_frame, method_frame


@rule("connection.start.protocol-name")
def test_connection_start_protocol_name(broker: Broker) -> None:
    """Whatever else a client speaks, it is told what is spoken here."""
    with AmqpSocket(broker.connect()) as client:
        client.send(b"HTTP\x00\x00\x09\x01")
        assert client.rest() == PROTOCOL_HEADER


@rule("connection.start.server-support")
def test_connection_start_server_support(broker: Broker) -> None:
    """Version 2.0 is answered with 1.0, which is lower and spoken here, too; 0.10 with 0-9-1."""
    with AmqpSocket(broker.connect()) as client:
        client.send(b"AMQP\x00\x02\x00\x00")
        assert client.rest() == SASL_HEADER
    with AmqpSocket(broker.connect()) as client:
        client.send(b"AMQP\x00\x00\x0a\x00")
        assert client.rest() == PROTOCOL_HEADER


@rule("connection.start.server-properties.required-fields")
def test_connection_start_server_properties_required_fields(broker: Broker) -> None:
    """All fields that there should be are there, and have something to say."""
    with AmqpSocket(broker.connect()) as client:
        properties = client.begin().server_properties
    for name in ("host", "product", "version", "platform", "copyright", "information"):
        assert properties.get(name), f"{name} is missing from {sorted(properties)}"


@rule("connection.start.locales.required-support")
def test_connection_start_locales_required_support(broker: Broker) -> None:
    """en_US is offered, and can be chosen."""
    with AmqpSocket(broker.connect()) as client:
        assert b"en_US" in client.begin().locales.split()
        client.call(0, ConnectionStartOk(response=b"\0guest\0guest", locale="en_US"), ConnectionTune)


@rule("connection.start-ok.mechanism.validity")
def test_connection_start_ok_mechanism_validity(broker: Broker) -> None:
    """Not a byte comes back but the end of the stream."""
    with AmqpSocket(broker.connect()) as client:
        assert b"TELEPATHY" not in client.begin().mechanisms
        client.send_method(0, ConnectionStartOk(mechanism="TELEPATHY", response=b"\0guest\0guest"))
        assert client.rest() == b""


def _start_ok_of(size: int) -> bytes:
    """A start-ok frame of exactly that many bytes, by a client that has much to say of itself."""
    start_ok = ConnectionStartOk(client_properties={"information": ""}, response=b"\0guest\0guest")
    room = size - len(method_frame(0, start_ok))
    start_ok = ConnectionStartOk(client_properties={"information": "x" * room}, response=b"\0guest\0guest")
    made = method_frame(0, start_ok)
    assert len(made) == size
    return made


@rule("connection.tune.frame-max.minimum")
def test_connection_tune_frame_max_minimum(broker: Broker) -> None:
    """A start-ok that fills a frame of the minimum size is understood."""
    with AmqpSocket(broker.connect()) as client:
        client.begin()
        client.send(_start_ok_of(FRAME_MIN_BYTES))
        client.expect(ConnectionTune)


@rule("connection.tune-ok.channel-max.upper-limit")
def test_connection_tune_ok_channel_max_upper_limit(broker: Broker) -> None:
    """One channel more than offered: the socket ends, without a word; the log says why."""
    with AmqpSocket(broker.connect()) as client:
        tune = client.log_in()
        client.send_method(0, ConnectionTuneOk(channel_max=tune.channel_max + 1, frame_max=tune.frame_max))
        client.expect_end()
        line = broker.wait_for_log("connection ended", peer=client.name)
        assert "channel_max" in line["reason"]


@rule("connection.tune-ok.frame-max.minimum")
def test_connection_tune_ok_frame_max_minimum(broker: Broker) -> None:
    """4,096 can be agreed on and is kept to, one less cannot."""
    with AmqpSocket(broker.connect()) as client:
        client.open(frame_max=FRAME_MIN_BYTES)
        client.open_channel()
        queue = client.call(1, QueueDeclare(exclusive=True), QueueDeclareOk).queue
        room = FRAME_MIN_BYTES - FRAME_OVERHEAD_BYTES
        parts = [b"a" * room, b"b" * room, b"c"]
        bodies = [frame(FRAME_BODY, 1, part) for part in parts]
        publish = method_frame(1, BasicPublish(routing_key=queue))
        client.send(publish, header_frame(1, sum(map(len, parts))), *bodies)
        client.call(1, BasicConsume(queue=queue, no_ack=True), BasicConsumeOk)
        # The delivery, its header, and its body in frames no larger than what was agreed on.
        came = [client.read_frame() for _ in range(5)]
        assert [each.payload for each in came[2:]] == parts
    with AmqpSocket(broker.connect()) as client, pytest.raises((ClosedByPeer, EOFError)):
        client.open(frame_max=FRAME_MIN_BYTES - 1)


@rule("connection.tune-ok.frame-max.upper-limit")
def test_connection_tune_ok_frame_max_upper_limit(broker: Broker) -> None:
    """Frames one byte larger than offered: the socket ends, without a word; the log says why."""
    with AmqpSocket(broker.connect()) as client:
        tune = client.log_in()
        client.send_method(0, ConnectionTuneOk(channel_max=tune.channel_max, frame_max=tune.frame_max + 1))
        client.expect_end()
        line = broker.wait_for_log("connection ended", peer=client.name)
        assert "frame_max" in line["reason"]


@rule("connection.open.virtual-host.separation")
def test_connection_open_virtual_host_separation(peer: Peer, connect: Connect) -> None:
    """One name means different things in two virtual hosts: exchanges, queues, bindings and messages."""
    other = connect("other")
    queue, exchange = fresh("separate"), fresh("separate")
    peer.queue(queue)
    peer.exchange("fanout", exchange)
    peer.bind(queue, exchange)
    for method in (
        QueueDeclare(queue=queue, passive=True),
        QueuePurge(queue=queue),
        BasicConsume(queue=queue),
        QueueBind(queue=queue, exchange="amq.fanout"),
    ):
        other.refused(method, 404)
    # The same names there are others than here.
    other.queue(queue)
    other.exchange("fanout", exchange)
    other.publish(b"there", queue)
    other.publish(b"nowhere", exchange=exchange)
    other.publish(b"nowhere", exchange="amq.fanout")
    other.sync()
    peer.publish(b"here", exchange=exchange)
    peer.sync()
    assert [peer.body(queue), peer.body(queue)] == [b"here", None]
    assert [other.body(queue), other.body(queue)] == [b"there", None]
    other.send_method(1, QueueDelete(queue=queue))
    other.answer()
    assert peer.count(queue) == 0


@rule("connection.open.virtual-host.security")
def test_connection_open_virtual_host_security(broker: Broker) -> None:
    """A user without permissions there is not let into a virtual host that exists: 530."""
    with Peer(broker.connect()) as client:
        client.enter("other", "limited", "limited")
        assert "limited" in client.ended(None, 530)


@rule("connection.close.stability")
def test_connection_close_stability(connect: Connect) -> None:
    """The server has sent close: what comes then is thrown away, but for a close, which is answered."""
    peer = connect()
    victim = peer.queue(fresh("victim"), exclusive=False)
    # A method that is not for servers to receive: 503, and the connection is closing.
    peer.send_method(0, ConnectionOpen())
    peer.send_method(1, QueueDelete(queue=victim))
    _, close = peer.answer()
    assert isinstance(close, ConnectionClose)
    peer.send_method(1, QueueDelete(queue=victim))
    peer.send_method(0, ConnectionClose(reply_code=200))
    _, answer = peer.answer()
    assert isinstance(answer, ConnectionCloseOk)
    another = connect()
    another.count(victim)
    another.send_method(1, QueueDelete(queue=victim))


@rule("connection.close-ok.reporting")
def test_connection_close_ok_reporting(broker: Broker, connect: Connect) -> None:
    """Who hangs up without a close is in the log, and who says good-bye is there as well, as something else."""
    rude = connect()
    rude.close()
    assert broker.wait_for_log("connection ended", peer=rude.name)["level"] == "warning"
    polite = connect()
    polite.send_method(0, ConnectionClose(reply_code=200))
    _, answer = polite.answer()
    assert isinstance(answer, ConnectionCloseOk)
    broker.wait_for_log("connection closed", peer=polite.name)
    assert not [line for line in broker.log if line["event"] == "connection ended" and line["peer"] == polite.name]
