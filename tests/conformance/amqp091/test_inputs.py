"""Further inputs to rules that have a row: those that a sceptic tries next. Each is named after its rule."""

from collections.abc import Callable
from typing import Any

import pytest

from flintmq.wire.amqp091.frames import FRAME_BODY, FRAME_HEARTBEAT
from flintmq.wire.amqp091.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicGet,
    BasicNack,
    BasicPublish,
    BasicRecover,
    BasicRecoverOk,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionTuneOk,
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueueUnbind,
    QueueUnbindOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
)
from flintmq.wire.amqp091.properties import Properties, encode_properties
from tests.conformance.amqp091.conftest import Connect
from tests.conformance.amqp091.peer import Peer, fresh
from tests.conformance.brokers import Broker
from tests.sockets import AmqpSocket, frame, header_frame, method_frame


def _taken(peer: Peer, queue: str) -> list[bytes]:
    peer.sync()
    found = []
    while (body := peer.body(queue)) is not None:
        found.append(body)
    return found


# -- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("length", "in_strict"), [(127, True), (128, False), (255, False)])
def test_names_of_queues_have_a_length(peer: Peer, strict: bool, length: int, in_strict: bool) -> None:
    """queue.declare.queue.syntax: 127 characters by the specification's domain, 255 bytes by the wire."""
    declare = QueueDeclare(queue=fresh("q").ljust(length, "x"), exclusive=True)
    if in_strict or not strict:
        assert peer.ask(declare, QueueDeclareOk).queue == declare.queue
    else:
        peer.refused(declare, 406)


@pytest.mark.parametrize("name", ["amq.", "amq.x", "amq.gen-mine"])
def test_reserved_names(peer: Peer, name: str) -> None:
    """queue.declare.queue.reserved, exchange.declare.exchange.reserved: whatever stands behind the dot."""
    peer.refused(QueueDeclare(queue=name), 403)
    peer.refused(ExchangeDeclare(exchange=name, type="direct"), 403)


def test_names_that_are_not_reserved(peer: Peer) -> None:
    """The same rules: other letters, and no dot, are anybody's."""
    for name in (fresh("AMQ."), fresh("amq"), fresh("amq-")):
        peer.queue(name)
        peer.exchange(name=name, auto_delete=True)


def test_the_default_exchange_cannot_be_declared(peer: Peer) -> None:
    """exchange.default-access: not as what it is either."""
    peer.refused(ExchangeDeclare(exchange="", type="direct", durable=True), 403)
    peer.refused(ExchangeDelete(exchange=""), 403)


# -- routes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["Key", "key.", "ke", "key ", "", "key.key"])
def test_direct_goes_by_the_same_key_only(peer: Peer, key: str) -> None:
    """queue.bind.routing-key.direct-exchange-key-matching: no case, no prefix, no word is enough."""
    queue = peer.queue()
    peer.bind(queue, "amq.direct", "key")
    peer.publish(b"other", key, "amq.direct")
    peer.publish(b"same", "key", "amq.direct")
    assert _taken(peer, queue) == [b"same"]


def test_bindings_with_the_same_arguments_are_one(peer: Peer) -> None:
    """queue.bind.duplicates: in whatever order the table has them."""
    queue = peer.queue()
    tables: list[dict[str, object]] = [{"a": 1, "b": 2, "x-match": "all"}, {"x-match": "all", "b": 2, "a": 1}]
    for table in tables:
        peer.ask(QueueBind(queue=queue, exchange="amq.headers", arguments=table), QueueBindOk)
    properties = encode_properties(Properties(headers={"a": 1, "b": 2}))
    peer.publish(b"m", exchange="amq.headers", properties=properties)
    peer.ask(QueueUnbind(queue=queue, exchange="amq.headers", arguments=tables[1]), QueueUnbindOk)
    peer.publish(b"unbound", exchange="amq.headers", properties=properties)
    assert _taken(peer, queue) == [b"m"]


def test_a_message_by_every_way_there_is_comes_once(peer: Peer) -> None:
    """queue.bind.unique: by its own binding, by exchanges in between, and by CC to the queue itself."""
    queue, source, between = peer.queue(), peer.exchange("topic"), peer.exchange("fanout")
    for key in ("#", "a.#", "*.b"):
        peer.bind(queue, source, key)
    peer.ask(ExchangeBind(destination=between, source=source, routing_key="#"), ExchangeBindOk)
    peer.bind(queue, between)
    copies = encode_properties(Properties(headers={"CC": ["a.c", "a.b"]}))
    peer.publish(b"m", "a.b", source, copies)
    assert _taken(peer, queue) == [b"m"]


@pytest.mark.parametrize("immediate", [False, True])
def test_no_route_is_said_before_no_consumer(peer: Peer, immediate: bool) -> None:
    """basic.publish.mandatory.01: 312 also where immediate is asked for, and where the queue has just gone."""
    queue = peer.queue()
    peer.ask(QueueDelete(queue=queue), QueueDeleteOk)
    peer.publish(b"m", queue, mandatory=True, immediate=immediate)
    peer.sync()
    (came,) = peer.returned
    assert came.body == b"m"
    assert "312" in str(came.method)


# -- declarations -----------------------------------------------------------------------------------------------------


def test_an_exchange_with_a_binding_to_an_exchange_is_in_use(peer: Peer) -> None:
    """exchange.delete.if-unused.in-use: whatever it is bound to."""
    source, destination = peer.exchange(), peer.exchange()
    peer.ask(ExchangeBind(destination=destination, source=source), ExchangeBindOk)
    peer.refused(ExchangeDelete(exchange=source, if_unused=True), 406)


def test_a_consumer_that_was_cancelled_is_no_use(peer: Peer) -> None:
    """queue.delete.if-unused.in-use: what it has not acknowledged is no consumer."""
    queue = peer.queue()
    peer.publish(b"m", queue)
    tag = peer.consume(queue)
    peer.deliveries(1)
    peer.ask(BasicCancel(consumer_tag=tag), BasicCancelOk)
    peer.ask(QueueDelete(queue=queue, if_unused=True), QueueDeleteOk)


def test_an_auto_delete_queue_waits_for_its_first_consumer(peer: Peer) -> None:
    """queue.declare.auto-delete: a queue that nobody has consumed from stays, whatever else is done to it."""
    queue = peer.queue(auto_delete=True)
    peer.publish(b"m", queue)
    assert _taken(peer, queue) == [b"m"]
    peer.send_method(1, QueuePurge(queue=queue, no_wait=True))
    assert peer.count(queue) == 0


@pytest.mark.parametrize(
    "otherwise",
    [
        {"durable": False},
        {"durable": True, "arguments": {"x-max-length": 6}},
        {"durable": True, "arguments": {"x-max-length": True}},
        {"durable": True, "arguments": {}},
    ],
)
def test_a_redeclaration_that_differs(peer: Peer, otherwise: dict[str, object]) -> None:
    """queue.declare.passive.equivalent: an argument less, of another value or of another type is a difference."""
    declaration: dict[str, Any] = {"durable": True, "arguments": {"x-max-length": 5}, "exclusive": True}
    queue = peer.queue(fresh("q"), **declaration)
    peer.refused(QueueDeclare(queue=queue, **{**declaration, **otherwise}), 406)


def test_what_is_exclusive_is_so_for_settlements_too(peer: Peer, connect: Connect) -> None:
    """queue.declare.exclusive.exclusive: a get, and whatever a channel remembers as its last queue."""
    queue = peer.queue(fresh("q"))
    other = connect()
    for method in (BasicGet(queue=queue), QueuePurge(queue=queue), QueueDelete(queue=queue, if_unused=True)):
        other.refused(method, 405)


# -- settling ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tag", [0, 1, 2**31, 2**63 - 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("kind", [BasicAck, BasicNack, BasicReject])
def test_tags_that_were_never_given(peer: Peer, tag: int, kind: Callable[..., Method]) -> None:
    """basic.ack.multiple.exists: 406 up to the largest that can be said, for all three methods."""
    assert peer.refused(kind(delivery_tag=tag), 406) == f"PRECONDITION_FAILED - unknown delivery tag {tag}"


def test_a_delivery_without_acknowledgement_has_no_tag_to_settle(peer: Peer) -> None:
    """The same rule: it is no outstanding delivery."""
    queue = peer.queue()
    peer.publish(b"m", queue)
    peer.consume(queue, no_ack=True)
    (delivery,) = peer.deliveries(1)
    peer.refused(BasicAck(delivery_tag=delivery.tag), 406)


def test_recover_without_requeue_gives_back_what_was_got(peer: Peer) -> None:
    """basic.recover.01: there is no consumer to send it to again, so it is on the queue, and flagged."""
    queue = peer.queue()
    peer.publish(b"m", queue)
    peer.sync()
    assert peer.get(queue, no_ack=False) is not None
    peer.ask(BasicRecover(requeue=False), BasicRecoverOk)
    found = peer.get(queue)
    assert found is not None
    assert found.redelivered


def test_a_smaller_window_holds_at_once(peer: Peer, strict: bool) -> None:
    """basic.qos.prefetch-count.01: what is there already counts against the new limit (RabbitMQ: of new consumers)."""
    queue = peer.queue()
    peer.prefetch(3)
    peer.consume(queue)
    for number in range(6):
        peer.publish(bytes([number]), queue)
    first = peer.deliveries(3)
    peer.prefetch(1)
    peer.ack(first[0].tag)
    assert peer.silent() is strict


def test_the_last_of_two_transactions_counts_alone(peer: Peer, connect: Connect) -> None:
    """tx.commit.transacted: a transaction that a fault ended is not committed by the next life of its channel."""
    queue = peer.queue(fresh("q"), exclusive=False)
    client = connect()
    client.ask(TxSelect(), TxSelectOk)
    client.publish(b"lost", queue)
    client.refused(BasicAck(delivery_tag=7), 406)
    client.refused(TxCommit(), 406)
    client.ask(TxSelect(), TxSelectOk)
    client.publish(b"kept", queue)
    client.ask(TxCommit(), TxCommitOk)
    assert _taken(peer, queue) == [b"kept"]
    peer.ask(QueueDelete(queue=queue), QueueDeleteOk)


@pytest.mark.parametrize("priority", [9, 10, 255])
def test_priorities_above_the_highest(peer: Peer, strict: bool, priority: int) -> None:
    """basic.07: they are the highest, and go before the one below."""
    queue = peer.queue(arguments={} if strict else {"x-max-priority": 9})
    for each in (8, priority):
        peer.publish(bytes([each]), queue, properties=encode_properties(Properties(priority=each)))
    assert _taken(peer, queue) == [bytes([priority]), b"\x08"]


# -- frames -----------------------------------------------------------------------------------------------------------

_PUBLISH = method_frame(1, BasicPublish(routing_key="nowhere"))


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        ((header_frame(1, 0),), 505),
        ((frame(FRAME_BODY, 1, b"x"),), 505),
        ((_PUBLISH, _PUBLISH), 505),
        ((_PUBLISH, frame(FRAME_BODY, 1, b"x")), 505),
        ((_PUBLISH, header_frame(1, 1), frame(FRAME_BODY, 1, b"xy")), 505),
        ((_PUBLISH, header_frame(1, 0), frame(FRAME_BODY, 1, b"x")), 505),
        ((_PUBLISH, header_frame(1, 1, class_id=50)), 505),
        ((frame(FRAME_HEARTBEAT, 1, b""),), 501),
        ((frame(9, 1, b""),), 501),
        ((frame(FRAME_BODY, 0, b"x"),), 505),
    ],
)
def test_frames_out_of_place(peer: Peer, frames: tuple[bytes, ...], code: int) -> None:
    """§4.2.6: a method, its header and its body, in this order and of this size, or the connection ends."""
    peer.send(*frames)
    peer.ended(None, code)


def test_a_body_may_come_in_any_frames(peer: Peer) -> None:
    """§4.2.6: single bytes, and frames with nothing in them, make the same message."""
    queue = peer.queue()
    parts = [frame(FRAME_BODY, 1, part) for part in (b"", b"a", b"", b"b", b"c")]
    peer.send(method_frame(1, BasicPublish(routing_key=queue)), header_frame(1, 3), *parts)
    assert _taken(peer, queue) == [b"abc"]


def test_zero_is_what_was_offered(broker: Broker) -> None:
    """connection.tune-ok: no wish of the client's is no limit of its own."""
    with AmqpSocket(broker.connect()) as client:
        client.log_in()
        client.send_method(0, ConnectionTuneOk(channel_max=0, frame_max=0, heartbeat=0), ConnectionOpen())
        client.expect(ConnectionOpenOk)
        client.open_channel()


def test_a_channel_can_be_opened_again(peer: Peer) -> None:
    """channel.open.state: what is forbidden is a second life beside the first."""
    for _ in range(2):
        peer.ask(ChannelOpen(), ChannelOpenOk, 2)
        peer.send_method(2, ChannelClose(reply_code=200))
        assert peer.answer() == (2, ChannelCloseOk())


def test_a_passive_declare_of_a_type_nobody_knows(peer: Peer) -> None:
    """exchange.declare.passive.ignored: the type is not looked at."""
    peer.ask(ExchangeDeclare(exchange="amq.topic", type="x-nonsense", passive=True), ExchangeDeclareOk)
