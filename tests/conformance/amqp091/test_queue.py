"""queue.bind, unbind, purge and delete: as a client finds the server."""

import time

from flintmq.wire.amqp091.methods import (
    BasicRecover,
    BasicRecoverOk,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)
from tests.conformance.amqp091.conftest import Connect
from tests.conformance.amqp091.peer import PERSISTENT, Peer, fresh
from tests.conformance.amqp091.rules import rule
from tests.conformance.brokers import ProcessBroker
from tests.servers import BrokerProcess
from tests.waiting import WAIT_SECONDS

# -- bind -------------------------------------------------------------------------------------------------------------


@rule("queue.bind.duplicates")
def test_queue_bind_duplicates(peer: Peer) -> None:
    """The second bind is answered as the first; one unbind undoes both."""
    queue, exchange = peer.queue(), peer.exchange()
    peer.bind(queue, exchange, "key")
    peer.bind(queue, exchange, "key")
    peer.publish(b"m", "key", exchange)
    peer.ask(QueueUnbind(queue=queue, exchange=exchange, routing_key="key"), QueueUnbindOk)
    peer.publish(b"unbound", "key", exchange)
    peer.sync()
    assert [peer.body(queue), peer.body(queue)] == [b"m", None]


@rule("queue.bind.unique")
def test_queue_bind_unique(peer: Peer) -> None:
    """Four patterns of one queue match one message."""
    queue = peer.queue()
    for key in ("a.b.c", "a.*.c", "a.#", "#"):
        peer.bind(queue, "amq.topic", key)
    peer.publish(b"m", "a.b.c", "amq.topic")
    peer.sync()
    assert [peer.body(queue), peer.body(queue)] == [b"m", None]


@rule("queue.bind.transient-exchange")
def test_queue_bind_transient_exchange(peer: Peer) -> None:
    """And messages flow."""
    exchange = peer.exchange(durable=False, auto_delete=True)
    queue = peer.queue(fresh("q"), durable=True, exclusive=False)
    peer.bind(queue, exchange)
    peer.publish(b"m", exchange=exchange)
    peer.sync()
    assert peer.body(queue) == b"m"
    peer.ask(QueueDelete(queue=queue), QueueDeleteOk)


@rule("queue.bind.durable-exchange")
def test_queue_bind_durable_exchange(process: ProcessBroker, connect: Connect) -> None:
    """After a restart a message takes the way of the binding."""
    before = connect()
    queue = before.queue(fresh("q"), durable=True, exclusive=False)
    exchange = before.exchange("topic", durable=True)
    before.bind(queue, exchange, "a.#")
    process.restart()
    after = connect()
    after.publish(b"m", "a.b", exchange)
    after.publish(b"unbound", "b", exchange)
    after.sync()
    assert [after.body(queue), after.body(queue)] == [b"m", None]


@rule("queue.bind.binding-count")
def test_queue_bind_binding_count(peer: Peer) -> None:
    """64 exchanges, and 64 keys of one of them."""
    queue = peer.queue()
    exchanges = [peer.exchange(auto_delete=True) for _ in range(64)]
    for exchange in exchanges:
        peer.bind(queue, exchange, "key")
        peer.publish(b"m", "key", exchange)
    keys = [fresh("key") for _ in range(64)]
    for key in keys:
        peer.bind(queue, exchanges[0], key)
        peer.publish(b"m", key, exchanges[0])
    peer.sync()
    assert peer.count(queue) == 128


@rule("queue.bind.queue.queue-known")
def test_queue_bind_queue_queue_known(peer: Peer) -> None:
    """404 before a queue was declared on this channel; afterwards no name means that one, and no key its name."""
    peer.refused(QueueBind(exchange="amq.direct"), 404)
    queue = peer.queue()
    peer.ask(QueueBind(exchange="amq.direct"), QueueBindOk)
    peer.publish(b"m", queue, "amq.direct")
    peer.sync()
    assert peer.body(queue) == b"m"


@rule("queue.bind.queue.must-exist")
def test_queue_bind_queue_must_exist(peer: Peer) -> None:
    """404, and the text names the queue."""
    name = fresh("absent")
    assert f"no queue '{name}'" in peer.refused(QueueBind(queue=name, exchange="amq.direct"), 404)


@rule("queue.bind.exchange.exchange-existence")
def test_queue_bind_exchange_exchange_existence(peer: Peer) -> None:
    """404, and the text names the exchange."""
    name = fresh("absent")
    assert f"no exchange '{name}'" in peer.refused(QueueBind(queue=peer.queue(), exchange=name), 404)


@rule("queue.bind.exchange.default-exchange")
def test_queue_bind_exchange_default_exchange(peer: Peer, strict: bool) -> None:
    """In strict a queue gets a second key there, and keeps the first; in rabbitmq that is 403."""
    queue, key = peer.queue(), fresh("key")
    if not strict:
        peer.refused(QueueBind(queue=queue, routing_key=key), 403)
        return
    peer.bind(queue, "", key)
    peer.bind(queue, "", queue)
    for each in (key, queue):
        peer.publish(each.encode(), each)
    peer.sync()
    assert [peer.body(queue) for _ in range(3)] == [key.encode(), queue.encode(), None]


@rule("queue.bind.routing-key.direct-exchange-key-matching")
def test_queue_bind_routing_key_direct_exchange_key_matching(peer: Peer) -> None:
    """Keys are compared byte by byte, and mean no pattern."""
    queue, exchange = peer.queue(), peer.exchange("direct")
    keys = ["", "a.b", "A.B", "a.*", "#", "ü"]
    for key in keys[1:]:
        peer.bind(queue, exchange, key)
    for key in [*keys, "a.c", "a.b "]:
        peer.publish(key.encode(), key, exchange)
    peer.sync()
    assert [peer.body(queue) for _ in keys] == [*(key.encode() for key in keys[1:]), None]


# -- unbind -----------------------------------------------------------------------------------------------------------


def _fails(peer: Peer, unbind: QueueUnbind, code: int, strict: bool) -> str:
    """An unbind that fails costs the connection in strict, and the channel in rabbitmq."""
    return peer.ended(unbind, code) if strict else peer.refused(unbind, code)


def _finds_nothing(peer: Peer, unbind: QueueUnbind, strict: bool) -> None:
    """To unbind what is not there is 404 in strict, and no error in rabbitmq."""
    if strict:
        peer.ended(unbind, 404)
    else:
        peer.ask(unbind, QueueUnbindOk)


@rule("queue.unbind.01")
def test_queue_unbind_01(peer: Peer, connect: Connect, strict: bool) -> None:
    """Another's exclusive queue, and a binding that is not there."""
    queue = peer.queue()
    _fails(connect(), QueueUnbind(queue=queue, exchange="amq.direct", routing_key="key"), 405, strict)
    peer.bind(queue, "amq.direct", "key")
    peer.ask(QueueUnbind(queue=queue, exchange="amq.direct", routing_key="key"), QueueUnbindOk)
    _finds_nothing(peer, QueueUnbind(queue=queue, exchange="amq.direct", routing_key="key"), strict)


@rule("queue.unbind.queue.queue-known")
def test_queue_unbind_queue_queue_known(peer: Peer, strict: bool) -> None:
    """404 before a queue was declared on this channel; afterwards no name means that one, and no key its name."""
    _fails(peer, QueueUnbind(exchange="amq.direct"), 404, strict)


def test_unbinding_without_names_undoes_binding_without_names(peer: Peer) -> None:
    queue = peer.queue()
    peer.ask(QueueBind(exchange="amq.direct"), QueueBindOk)
    peer.ask(QueueUnbind(exchange="amq.direct"), QueueUnbindOk)
    peer.publish(b"m", queue, "amq.direct")
    peer.sync()
    assert peer.body(queue) is None


@rule("queue.unbind.queue.must-exist")
def test_queue_unbind_queue_must_exist(peer: Peer, strict: bool) -> None:
    """A queue that never was."""
    _finds_nothing(peer, QueueUnbind(queue=fresh("absent"), exchange="amq.direct"), strict)


@rule("queue.unbind.exchange.must-exist")
def test_queue_unbind_exchange_must_exist(peer: Peer, strict: bool) -> None:
    """An exchange that never was."""
    _finds_nothing(peer, QueueUnbind(queue=peer.queue(), exchange=fresh("absent")), strict)


@rule("queue.unbind.exchange.default-exchange")
def test_queue_unbind_exchange_default_exchange(peer: Peer, strict: bool) -> None:
    """In strict a further key is unbound, and the name still leads to the queue; in rabbitmq that is 403."""
    queue, key = peer.queue(), fresh("key")
    unbind = QueueUnbind(queue=queue, routing_key=key)
    if not strict:
        peer.refused(unbind, 403)
        return
    peer.bind(queue, "", key)
    peer.ask(unbind, QueueUnbindOk)
    for each in (key, queue):
        peer.publish(each.encode(), each)
    peer.sync()
    assert [peer.body(queue), peer.body(queue)] == [queue.encode(), None]


# -- purge ------------------------------------------------------------------------------------------------------------


@rule("queue.purge.02")
def test_queue_purge_02(peer: Peer) -> None:
    """Two of five are in a client's hands: three are purged, the two come back when it gives them back."""
    queue = peer.queue()
    for number in range(5):
        peer.publish(bytes([number]), queue)
    peer.prefetch(2)
    peer.consume(queue)
    assert peer.bodies(2) == [b"\0", b"\1"]
    assert peer.ask(QueuePurge(queue=queue), QueuePurgeOk).message_count == 3
    peer.ask(BasicRecover(requeue=True), BasicRecoverOk)
    assert peer.bodies(2) == [b"\0", b"\1"]


@rule("queue.purge.03")
def test_queue_purge_03(tight: BrokerProcess) -> None:
    """Purged messages free their disk space: after 16 MB were confirmed and purged, the journal has less than 4 MB."""
    with Peer(tight.port) as peer:
        queue = peer.start().queue(fresh("q"), durable=True, exclusive=False)
        peer.confirms()
        # One round is at most one batch, and a batch is not divided: the last segment can have a megabyte and a round.
        count, rounds = 8, 20
        for at in range(1, rounds + 1):
            for _ in range(count):
                peer.publish(bytes(100_000), queue, properties=PERSISTENT)
            peer.confirmed(at * count)
            assert peer.ask(QueuePurge(queue=queue), QueuePurgeOk).message_count == count
        deadline = time.monotonic() + WAIT_SECONDS
        while (size := _journal_bytes(tight)) >= 4_000_000 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert size < 4_000_000
    tight.restart()
    with Peer(tight.port) as after:
        assert after.start().count(queue) == 0


def _journal_bytes(broker: BrokerProcess) -> int:
    return sum(file.stat().st_size for file in (broker.data / "journal").glob("*"))


@rule("queue.purge.queue.queue-known")
def test_queue_purge_queue_queue_known(peer: Peer) -> None:
    """404 before a queue was declared on this channel; afterwards no name means that one."""
    peer.refused(QueuePurge(), 404)
    peer.publish(b"m", peer.queue())
    assert peer.ask(QueuePurge(), QueuePurgeOk).message_count == 1


@rule("queue.purge.queue.must-exist")
def test_queue_purge_queue_must_exist(peer: Peer) -> None:
    """404, and the text names the queue."""
    name = fresh("absent")
    assert f"no queue '{name}'" in peer.refused(QueuePurge(queue=name), 404)


# -- delete -----------------------------------------------------------------------------------------------------------


@rule("queue.delete.01")
def test_queue_delete_01(peer: Peer, strict: bool) -> None:
    """What was in the queue is in the dead letters of it in strict, and gone in rabbitmq."""
    dead = peer.queue()
    queue = peer.queue(arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
    for body in (b"one", b"two"):
        peer.publish(body, queue)
    assert peer.ask(QueueDelete(queue=queue), QueueDeleteOk).message_count == 2
    peer.sync()
    assert [peer.body(dead), peer.body(dead)] == ([b"one", b"two"] if strict else [None, None])


@rule("queue.delete.queue.queue-known")
def test_queue_delete_queue_queue_known(peer: Peer) -> None:
    """404 before a queue was declared on this channel; afterwards no name means that one."""
    peer.refused(QueueDelete(), 404)
    queue = peer.queue()
    peer.ask(QueueDelete(), QueueDeleteOk)
    peer.refused(QueueDeclare(queue=queue, passive=True), 404)


@rule("queue.delete.queue.must-exist")
def test_queue_delete_queue_must_exist(peer: Peer, strict: bool) -> None:
    """A second delete finds nothing: 404 in strict, no error in rabbitmq."""
    queue = peer.queue()
    peer.ask(QueueDelete(queue=queue), QueueDeleteOk)
    if strict:
        assert f"no queue '{queue}'" in peer.refused(QueueDelete(queue=queue), 404)
    else:
        assert peer.ask(QueueDelete(queue=queue), QueueDeleteOk).message_count == 0


@rule("queue.delete.if-unused.in-use")
def test_queue_delete_if_unused_in_use(peer: Peer) -> None:
    """406 while there is a consumer; gone once there is none."""
    queue = peer.queue()
    peer.ask(ChannelOpen(), ChannelOpenOk, 2)
    peer.consume(queue, channel=2)
    peer.refused(QueueDelete(queue=queue, if_unused=True), 406)
    assert peer.ask(QueueDeclare(queue=queue, passive=True), QueueDeclareOk).queue == queue
    peer.send_method(2, ChannelClose(reply_code=200))
    assert peer.answer() == (2, ChannelCloseOk())
    peer.ask(QueueDelete(queue=queue, if_unused=True), QueueDeleteOk)


@rule("queue.delete.if-empty.not-empty")
def test_queue_delete_if_empty_not_empty(peer: Peer, strict: bool) -> None:
    """406 while there is a message, or one that a client has not acknowledged (RabbitMQ: ready ones); then it goes."""
    queue, exchange = peer.queue(), peer.exchange()
    peer.bind(queue, exchange)
    peer.publish(b"m", exchange=exchange)
    peer.refused(QueueDelete(queue=queue, if_empty=True), 406)
    held = peer.get(queue, no_ack=False)
    assert held is not None
    assert held.body == b"m"
    if strict:
        # A fault closes the channel, and what it held is ready again: from another one.
        peer.ask(ChannelOpen(), ChannelOpenOk, 2)
        peer.refused(QueueDelete(queue=queue, if_empty=True), 406, 2)
        peer.ack(held.tag)
        peer.sync()
    peer.ask(QueueDelete(queue=queue, if_empty=True), QueueDeleteOk)
