"""exchange.*: as a client finds the server."""

from flintmq.wire.amqp091.methods import (
    BasicPublish,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    QueueBind,
    QueueBindOk,
    QueueDelete,
    QueueDeleteOk,
)
from flintmq.wire.amqp091.properties import Properties, encode_properties
from flintmq.wire.amqp091.tables import Table
from tests.conformance.amqp091.conftest import Connect
from tests.conformance.amqp091.peer import Peer, fresh
from tests.conformance.amqp091.rules import rule
from tests.conformance.brokers import ProcessBroker
from tests.sockets import header_frame, method_frame


@rule("exchange.required-types")
def test_exchange_required_types(peer: Peer) -> None:
    """Each can be declared, and routes: direct by the key, fanout whatever the key."""
    for type, bodies in (("direct", [b"key", None]), ("fanout", [b"key", b"other"])):
        exchange, queue = peer.exchange(type), peer.queue()
        peer.bind(queue, exchange, "key")
        for key in ("key", "other"):
            peer.publish(key.encode(), key, exchange)
        peer.sync()
        assert [peer.body(queue), peer.body(queue)] == bodies


@rule("exchange.recommended-types")
def test_exchange_recommended_types(peer: Peer) -> None:
    """topic goes by patterns, headers by headers."""
    topic, headers, queue = peer.exchange("topic"), peer.exchange("headers"), peer.queue()
    peer.bind(queue, topic, "a.*.#")
    peer.publish(b"topic", "a.b", topic)
    peer.publish(b"another topic", "b.b", topic)
    arguments: Table = {"x-match": "all", "colour": "red"}
    peer.ask(QueueBind(queue=queue, exchange=headers, arguments=arguments), QueueBindOk)
    for colour in ("red", "blue"):
        peer.publish(colour.encode(), "", headers, encode_properties(Properties(headers={"colour": colour})))
    peer.sync()
    assert [peer.body(queue) for _ in range(3)] == [b"topic", b"red", None]


@rule("exchange.required-instances")
def test_exchange_required_instances(peer: Peer, connect: Connect) -> None:
    """All four are there in each virtual host, and a queue can be bound to them."""
    for client in (peer, connect("other")):
        queue = client.queue()
        for type in ("fanout", "direct", "topic", "headers"):
            client.ask(ExchangeDeclare(exchange=f"amq.{type}", type=type, passive=True), ExchangeDeclareOk)
            client.bind(queue, f"amq.{type}", queue)
        client.publish(b"named", queue, "amq.direct")
        client.publish(b"nameless", queue)
        client.sync()
        assert [client.body(queue), client.body(queue)] == [b"named", b"nameless"]


@rule("exchange.default-exchange")
def test_exchange_default_exchange(peer: Peer, strict: bool) -> None:
    """A message to no exchange arrives by the queue's name, and in strict by a key it was bound with."""
    queue, key = peer.queue(), fresh("key")
    peer.publish(b"by name", queue)
    if strict:
        peer.bind(queue, "", key)
        peer.publish(b"by key", key)
    peer.sync()
    assert peer.body(queue) == b"by name"
    assert peer.body(queue) == (b"by key" if strict else None)


@rule("exchange.default-access")
def test_exchange_default_access(peer: Peer) -> None:
    """It can neither be declared nor deleted, and no name leads to it."""
    peer.refused(ExchangeDeclare(exchange="", type="direct", durable=True), 403)
    peer.refused(ExchangeDelete(exchange=""), 403)
    for name in ("amq.default", "default"):
        peer.send(method_frame(1, BasicPublish(exchange=name)), header_frame(1, 0))
        peer.refused(None, 404)


@rule("exchange.extensions")
def test_exchange_extensions(peer: Peer) -> None:
    """x-random, for one: each message goes to one of the queues."""
    exchange, queues = peer.exchange("x-random"), [peer.queue(), peer.queue()]
    for queue in queues:
        peer.bind(queue, exchange)
    for number in range(64):
        peer.publish(bytes([number]), exchange=exchange)
    peer.sync()
    counts = [peer.count(queue) for queue in queues]
    assert sum(counts) == 64
    assert all(counts)


@rule("exchange.declare.minimum")
def test_exchange_declare_minimum(peer: Peer) -> None:
    """256 of them, each with its own binding."""
    queue = peer.queue()
    exchanges = [peer.exchange(auto_delete=True) for _ in range(256)]
    for exchange in exchanges:
        peer.bind(queue, exchange)
        peer.publish(exchange.encode(), exchange=exchange)
    peer.sync()
    assert [peer.body(queue) for _ in exchanges] == [exchange.encode() for exchange in exchanges]


@rule("exchange.declare.exchange.reserved")
def test_exchange_declare_exchange_reserved(peer: Peer) -> None:
    """A new one is 403, one that is there may be declared again, and asking for one that is not is 404."""
    peer.refused(ExchangeDeclare(exchange="amq.mine", type="direct"), 403)
    peer.ask(ExchangeDeclare(exchange="amq.direct", type="direct", durable=True), ExchangeDeclareOk)
    peer.ask(ExchangeDeclare(exchange="amq.direct", passive=True), ExchangeDeclareOk)
    peer.refused(ExchangeDeclare(exchange="amq.mine", passive=True), 404)


@rule("exchange.declare.exchange.syntax")
def test_exchange_declare_exchange_syntax(peer: Peer, strict: bool) -> None:
    """Every character that is allowed is taken; others are 406 in strict, and as good in rabbitmq."""
    peer.exchange(name=fresh("AZaz09-_.:"), auto_delete=True)
    for name in ("with space", "sl/ash", "ünlike", "new\nline", "do$llar"):
        declare = ExchangeDeclare(exchange=fresh(name), type="direct")
        if strict:
            assert "letters, digits" in peer.refused(declare, 406)
        else:
            peer.ask(declare, ExchangeDeclareOk)


@rule("exchange.declare.type.typed")
def test_exchange_declare_type_typed(peer: Peer, strict: bool) -> None:
    """Another type is refused, and the exchange goes on as it was."""
    exchange, queue = peer.exchange("fanout"), peer.queue()
    peer.bind(queue, exchange)
    peer.refused(ExchangeDeclare(exchange=exchange, type="direct"), 530 if strict else 406)
    peer.publish(b"m", "any key", exchange)
    peer.sync()
    assert peer.body(queue) == b"m"


@rule("exchange.declare.type.support")
def test_exchange_declare_type_support(peer: Peer, strict: bool) -> None:
    """The connection ends with 503; in RabbitMQ's meaning only the channel does, with 406."""
    declare = ExchangeDeclare(exchange=fresh("x"), type="x-nonsense")
    assert "x-nonsense" in (peer.ended(declare, 503) if strict else peer.refused(declare, 406))


@rule("exchange.declare.passive.not-found")
def test_exchange_declare_passive_not_found(peer: Peer) -> None:
    """Asking creates nothing, however often one asks."""
    name = fresh("absent")
    for _ in range(2):
        peer.refused(ExchangeDeclare(exchange=name, type="direct", passive=True), 404)


@rule("exchange.declare.passive.equivalent")
def test_exchange_declare_passive_equivalent(peer: Peer, strict: bool) -> None:
    """The same again is fine. Another durability is not; another argument is not in strict, other flags in rabbitmq."""
    name = fresh("equal")
    same = ExchangeDeclare(exchange=name, type="topic", durable=True, arguments={"colour": "red"})
    peer.ask(same, ExchangeDeclareOk)
    peer.ask(same, ExchangeDeclareOk)
    assert "durable" in peer.refused(ExchangeDeclare(exchange=name, type="topic", arguments={"colour": "red"}), 406)
    otherwise = ExchangeDeclare(exchange=name, type="topic", durable=True, arguments={"colour": "blue"})
    if strict:
        assert "colour" in peer.refused(otherwise, 406)
    else:
        peer.ask(otherwise, ExchangeDeclareOk)
    for flag in ("auto_delete", "internal"):
        flagged = {"durable": True, "arguments": {"colour": "red"}, flag: True}
        if strict:
            # It is not specified to matter: these fields were taken out of the specification.
            peer.exchange("topic", name, **flagged)
        else:
            assert flag in peer.refused(ExchangeDeclare(exchange=name, type="topic", **flagged), 406)  # type: ignore[arg-type]


@rule("exchange.declare.passive.ignored")
def test_exchange_declare_passive_ignored(peer: Peer, strict: bool) -> None:
    """Whatever else is said is not looked at. Without an answer to wait for, nothing comes of it (RabbitMQ: 404)."""
    name = peer.exchange("topic", durable=True, auto_delete=True)
    other = ExchangeDeclare(exchange=name, type="nonsense", passive=True, internal=True, arguments={"colour": "red"})
    peer.ask(other, ExchangeDeclareOk)
    peer.send_method(1, ExchangeDeclare(exchange=name, passive=True, no_wait=True))
    peer.sync()
    absent = ExchangeDeclare(exchange=fresh("absent"), passive=True, no_wait=True)
    if strict:
        peer.send_method(1, absent)
        peer.sync()
    else:
        peer.refused(absent, 404)
    peer.refused(ExchangeDeclare(exchange=absent.exchange, passive=True), 404)


@rule("exchange.declare.durable.support")
def test_exchange_declare_durable_support(process: ProcessBroker, connect: Connect) -> None:
    """Both kinds can be declared; a restart takes the transient one."""
    before = connect()
    durable, transient = before.exchange(durable=True), before.exchange(durable=False)
    process.restart()
    after = connect()
    after.ask(ExchangeDeclare(exchange=durable, passive=True), ExchangeDeclareOk)
    after.refused(ExchangeDeclare(exchange=transient, passive=True), 404)


@rule("exchange.delete.exchange.exists")
def test_exchange_delete_exchange_exists(peer: Peer, strict: bool) -> None:
    """A second delete finds nothing: 404 in strict, no error in rabbitmq."""
    exchange = peer.exchange()
    peer.ask(ExchangeDelete(exchange=exchange), ExchangeDeleteOk)
    if strict:
        assert exchange in peer.refused(ExchangeDelete(exchange=exchange), 404)
    else:
        peer.ask(ExchangeDelete(exchange=exchange), ExchangeDeleteOk)


@rule("exchange.delete.if-unused.in-use")
def test_exchange_delete_if_unused_in_use(peer: Peer) -> None:
    """406 while a queue is bound; gone once it is not."""
    exchange = peer.exchange()
    queue = peer.queue()
    peer.bind(queue, exchange)
    peer.refused(ExchangeDelete(exchange=exchange, if_unused=True), 406)
    peer.ask(ExchangeDeclare(exchange=exchange, passive=True), ExchangeDeclareOk)
    peer.ask(QueueDelete(queue=queue), QueueDeleteOk)
    peer.ask(ExchangeDelete(exchange=exchange, if_unused=True), ExchangeDeleteOk)
    peer.refused(ExchangeDeclare(exchange=exchange, passive=True), 404)
