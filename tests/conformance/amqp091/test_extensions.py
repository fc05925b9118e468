"""What RabbitMQ adds to the specification: as a client finds the server, in both dialects."""

from flintmq.wire.amqp091.methods import (
    BasicAck,
    BasicCancel,
    BasicNack,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionBlocked,
    ConnectionUnblocked,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeUnbind,
    ExchangeUnbindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueueUnbind,
    QueueUnbindOk,
)
from tests.conformance.amqp091.conftest import Connect
from tests.conformance.amqp091.peer import PERSISTENT, Peer, fresh
from tests.conformance.amqp091.pressure import BODY, Flood, take_until
from tests.conformance.amqp091.rules import extension
from tests.conformance.brokers import Broker, ProcessBroker
from tests.servers import BrokerProcess
from tests.sockets import AmqpSocket


def _bind(peer: Peer, destination: str, source: str, key: str = "") -> None:
    peer.ask(ExchangeBind(destination=destination, source=source, routing_key=key), ExchangeBindOk)


def _taken(peer: Peer, queue: str) -> list[bytes]:
    """All that is in the queue."""
    peer.sync()
    found = []
    while (body := peer.body(queue)) is not None:
        found.append(body)
    return found


@extension("exchange.bind")
def test_exchange_bind(peer: Peer) -> None:
    """topic to fanout to queue: what matches the pattern arrives; an exchange that is not there is 404."""
    source, destination, queue = peer.exchange("topic"), peer.exchange("fanout"), peer.queue()
    _bind(peer, destination, source, "a.*")
    peer.bind(queue, destination)
    peer.publish(b"matches", "a.b", source)
    peer.publish(b"does not", "b", source)
    assert _taken(peer, queue) == [b"matches"]
    for method in (
        ExchangeBind(destination="absent", source=source),
        ExchangeBind(destination=destination, source="absent"),
    ):
        assert "no exchange 'absent'" in peer.refused(method, 404)
    peer.refused(ExchangeBind(destination="", source=source), 403)


@extension("exchange.bind.cycle")
def test_exchange_bind_cycle(peer: Peer) -> None:
    """Three exchanges in a circle, with a queue each: a message to any of them reaches all queues, once."""
    exchanges = [peer.exchange("fanout") for _ in range(3)]
    queues = [peer.queue() for _ in exchanges]
    for number, exchange in enumerate(exchanges):
        peer.bind(queues[number], exchange)
        _bind(peer, exchanges[(number + 1) % 3], exchange)
    for exchange in exchanges:
        peer.publish(exchange.encode(), exchange=exchange)
    for queue in queues:
        assert _taken(peer, queue) == [exchange.encode() for exchange in exchanges]


@extension("exchange.bind.self")
def test_exchange_bind_self(peer: Peer) -> None:
    """It gets its own message again, and knows it."""
    exchange, queue = peer.exchange("fanout"), peer.queue()
    _bind(peer, exchange, exchange)
    peer.bind(queue, exchange)
    peer.publish(b"m", exchange=exchange)
    assert _taken(peer, queue) == [b"m"]


@extension("exchange.bind.duplicates")
def test_exchange_bind_duplicates(peer: Peer) -> None:
    """Directly, by one exchange, by another, and the same binding twice: the queue gets one."""
    source, queue = peer.exchange("fanout"), peer.queue()
    peer.bind(queue, source)
    for _ in range(2):
        between = peer.exchange("fanout")
        _bind(peer, between, source)
        _bind(peer, between, source)
        peer.bind(queue, between)
    peer.publish(b"m", exchange=source)
    assert _taken(peer, queue) == [b"m"]


@extension("exchange.unbind")
def test_exchange_unbind(peer: Peer) -> None:
    """The other key still leads there; and once more, where there is nothing to unbind."""
    source, destination, queue = peer.exchange("direct"), peer.exchange("fanout"), peer.queue()
    peer.bind(queue, destination)
    for key in ("a", "b"):
        _bind(peer, destination, source, key)
    for _ in range(2):
        peer.ask(ExchangeUnbind(destination=destination, source=source, routing_key="a"), ExchangeUnbindOk)
    for key in ("a", "b"):
        peer.publish(key.encode(), key, source)
    assert _taken(peer, queue) == [b"b"]


@extension("exchange.declare.auto-delete")
def test_exchange_declare_auto_delete(peer: Peer) -> None:
    """It is there before it was bound, and not after it is unbound, by hand or by the end of a queue."""
    for by_hand in (True, False):
        exchange, queue = peer.exchange("fanout", auto_delete=True), peer.queue()
        peer.sync()
        peer.bind(queue, exchange)
        if by_hand:
            peer.ask(QueueUnbind(queue=queue, exchange=exchange), QueueUnbindOk)
        else:
            peer.ask(QueueDelete(queue=queue), QueueDeleteOk)
        peer.refused(ExchangeDeclare(exchange=exchange, passive=True), 404)


@extension("exchange.declare.internal")
def test_exchange_declare_internal(peer: Peer) -> None:
    """A publisher gets 403; what comes by a binding goes on."""
    source, inside, queue = peer.exchange("fanout"), peer.exchange("fanout", internal=True), peer.queue()
    _bind(peer, inside, source)
    peer.bind(queue, inside)
    peer.publish(b"direct", exchange=inside)
    peer.refused(None, 403)
    peer.publish(b"by binding", exchange=source)
    assert _taken(peer, queue) == [b"by binding"]


@extension("basic.nack")
def test_basic_nack(peer: Peer, connect: Connect) -> None:
    """One, then all up to another, are given back or not; another client gets what was given back."""
    other = connect()
    queue = peer.queue(fresh("q"), exclusive=False)
    for number in range(6):
        peer.publish(bytes([number]), queue)
    peer.sync()
    for _ in range(6):
        peer.get(queue, no_ack=False)
    peer.send_method(
        1, BasicNack(delivery_tag=2, requeue=True), BasicNack(delivery_tag=4, multiple=True, requeue=False)
    )
    peer.sync()
    assert _taken(other, queue) == [b"\1"]
    peer.send_method(1, BasicNack(delivery_tag=0, multiple=True, requeue=True))
    peer.sync()
    assert _taken(other, queue) == [b"\4", b"\5"]
    other.ask(QueueDelete(queue=queue), QueueDeleteOk)
    peer.refused(BasicNack(delivery_tag=99), 406)


@extension("confirm.select")
def test_confirm_select(process: ProcessBroker, connect: Connect) -> None:
    """Numbers start at 1 with confirm.select; routed or not, all publishes are confirmed, and kept when they are."""
    peer = connect()
    queue = peer.queue(fresh("q"), durable=True, exclusive=False)
    peer.publish(b"before", queue)
    peer.ask(ConfirmSelect(), ConfirmSelectOk)
    for number in range(10):
        peer.publish(bytes([number]), queue, properties=PERSISTENT)
        peer.publish(b"lost", "nowhere")
    confirmed = 0
    while confirmed < 20:
        ack = peer.waits(BasicAck)
        assert ack.delivery_tag == confirmed + 1 or ack.multiple
        confirmed = ack.delivery_tag
    assert confirmed == 20
    process.kill()
    process.start()
    again = connect()
    assert _taken(again, queue) == [bytes([number]) for number in range(10)]


@extension("basic.cancel")
def test_basic_cancel(peer: Peer, connect: Connect) -> None:
    """Both consume from a queue that is deleted; who can hear of it does, the other finds out when it looks."""
    queue = peer.queue(fresh("q"), exclusive=False)
    listener = connect(consumer_cancel_notify=True)
    tag = listener.consume(queue)
    peer.consume(queue)
    connect().ask(QueueDelete(queue=queue), QueueDeleteOk)
    assert listener.waits(BasicCancel).consumer_tag == tag
    peer.sync()
    assert not peer.aside
    peer.refused(QueueDeclare(queue=queue, passive=True), 404)


@extension("connection.blocked")
def test_connection_blocked(small_memory: BrokerProcess) -> None:
    """When memory runs low the publisher is told why it waits; when a consumer has made room, that it does not."""
    with Peer(small_memory.port, **{"connection.blocked": True}) as publisher, Peer(small_memory.port) as consumer:
        queue = publisher.start().queue(fresh("q"), exclusive=False)
        # Now, because a client that does not log in for ten seconds is hung up on.
        consumer.start()
        flood = Flood(lambda: publisher.publish(BODY, queue))
        said = publisher.read_frame().method
        flood.end(lambda: publisher.publish(b"last", queue))
        assert said == ConnectionBlocked(reason="low on memory")
        take_until(consumer, queue, b"last")
        assert publisher.waits(ConnectionUnblocked) == ConnectionUnblocked()


@extension("connection.update-secret")
def test_connection_update_secret(peer: Peer) -> None:
    """A new secret is taken, as often as one comes, and the connection goes on."""
    for secret in (b"guest", b"another"):
        peer.send_method(0, ConnectionUpdateSecret(new_secret=secret, reason="test"))
        assert peer.answer() == (0, ConnectionUpdateSecretOk())
        peer.ask(QueueDeclare(exclusive=True), QueueDeclareOk)


@extension("connection.capabilities")
def test_connection_capabilities(broker: Broker) -> None:
    """All that RabbitMQ's clients look for, and what is only here."""
    with AmqpSocket(broker.connect()) as client:
        capabilities = client.begin().server_properties["capabilities"]
    assert isinstance(capabilities, dict)
    assert {name for name, is_there in capabilities.items() if is_there is True} == {
        "publisher_confirms",
        "exchange_exchange_bindings",
        "basic.nack",
        "consumer_cancel_notify",
        "connection.blocked",
        "consumer_priorities",
        "authentication_failure_close",
        "per_consumer_qos",
        "direct_reply_to",
        "flintmq.stream",
        "flintmq.lease",
        "flintmq.lease.query",
        "flintmq.stage",
    }
