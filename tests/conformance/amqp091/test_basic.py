"""basic.*, but for how messages are delivered and settled: as a client finds the server."""

import time

from flintmq.wire.amqp091.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicReturn,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionUnblocked,
    QueueDelete,
    QueueDeleteOk,
)
from flintmq.wire.amqp091.properties import Properties, decode_properties, encode_properties
from tests.conformance.amqp091.conftest import Connect
from tests.conformance.amqp091.peer import PERSISTENT, Peer, fresh
from tests.conformance.amqp091.pressure import BODY, Flood, take_until
from tests.conformance.amqp091.rules import rule
from tests.conformance.brokers import ProcessBroker
from tests.servers import BrokerProcess
from tests.sockets import NO_PROPERTIES
from tests.waiting import WAIT_SECONDS


def _priority(priority: int, mode: int = 1) -> bytes:
    return encode_properties(Properties(priority=priority, delivery_mode=mode))


@rule("basic.01")
def test_basic_01(process: ProcessBroker, connect: Connect) -> None:
    """A persistent message in a durable queue, a restart, and it is there as it was."""
    before = connect()
    queue = before.queue(fresh("q"), durable=True, exclusive=False)
    before.confirms()
    properties = encode_properties(Properties(delivery_mode=2, message_id="1", headers={"a": 1}))
    before.publish(b"m", queue, properties=properties)
    before.confirmed(1)
    process.restart()
    found = connect().get(queue)
    assert found is not None
    assert (found.body, found.properties) == (b"m", properties)


def _overflow(tight: BrokerProcess, peer: Peer, properties: bytes, count: int) -> str:
    """A queue with so many messages of 4 KB, numbered, of which the first are in files: there is no memory for them."""
    queue = peer.queue(fresh("q"), durable=True, exclusive=False)
    peer.confirms()
    for number in range(count):
        peer.publish(number.to_bytes(4_096, "big"), queue, properties=properties)
    peer.confirmed(count)
    deadline = time.monotonic() + WAIT_SECONDS
    while not any((tight.data / "pages").glob("*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert any((tight.data / "pages").glob("*"))
    return queue


def _numbers(peer: Peer, queue: str, count: int) -> list[int]:
    peer.consume(queue, no_ack=True)
    return [int.from_bytes(body, "big") for body in peer.bodies(count)]


@rule("basic.02")
def test_basic_02(tight: BrokerProcess) -> None:
    """20 MB of persistent messages, of which one fits the memory: all are there, in order, and after a restart."""
    count = 5_000
    with Peer(tight.port) as before:
        queue = _overflow(tight, before.start(), PERSISTENT, count)
    with Peer(tight.port) as taker:
        # A tenth of them, to the end of what had to go to the disk and come back.
        taker.start().prefetch(count // 10)
        taker.consume(queue)
        assert [int.from_bytes(body, "big") for body in taker.bodies(count // 10)] == list(range(count // 10))
    tight.restart()
    with Peer(tight.port) as after:
        assert after.start().count(queue) == count
        assert _numbers(after, queue, count) == list(range(count))


@rule("basic.03")
def test_basic_03(small_memory: BrokerProcess, strict: bool) -> None:
    """When memory runs low the publisher is paused by flow; when a consumer has made room it is resumed."""
    hears = {} if strict else {"connection.blocked": True}
    with Peer(small_memory.port, **hears) as publisher, Peer(small_memory.port) as consumer:
        queue = publisher.start().queue(fresh("q"), exclusive=False)
        # Now, because a client that does not log in for ten seconds is hung up on.
        consumer.start()
        flood = Flood(lambda: publisher.publish(BODY, queue))
        said = publisher.read_frame().method

        def last() -> None:
            if strict:
                publisher.send_method(1, ChannelFlowOk(active=False))
            publisher.publish(b"last", queue)

        flood.end(last)
        assert said == ChannelFlow(active=False) if strict else isinstance(said, ConnectionBlocked)
        take_until(consumer, queue, b"last")
        if strict:
            assert publisher.waits(ChannelFlow).active is True
        else:
            publisher.waits(ConnectionUnblocked)


@rule("basic.04")
def test_basic_04(tight: BrokerProcess) -> None:
    """20 MB of transient messages, of which one fits the memory: they are in files, and come in order."""
    with Peer(tight.port) as peer:
        queue = _overflow(tight, peer.start(), NO_PROPERTIES, 5_000)
        assert _numbers(peer, queue, 5_000) == list(range(5_000))


@rule("basic.05")
def test_basic_05(peer: Peer) -> None:
    """A queue of three: the oldest ones are dead-lettered."""
    dead = peer.queue()
    arguments = {"x-max-length": 3, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    queue = peer.queue(arguments=arguments)
    for number in range(5):
        peer.publish(bytes([number]), queue)
    peer.sync()
    assert [peer.body(queue) for _ in range(4)] == [b"\2", b"\3", b"\4", None]
    assert [peer.body(dead) for _ in range(3)] == [b"\0", b"\1", None]


def _ranking(peer: Peer, strict: bool) -> str:
    """A queue that tells priorities apart: any by the specification, one that was declared so in RabbitMQ."""
    return peer.queue(arguments={} if strict else {"x-max-priority": 9})


def _in_order(peer: Peer, count: int) -> bool:
    """Whether what was published with rising priorities to a queue that was declared like any comes as it came."""
    queue = peer.queue()
    for priority in range(count):
        peer.publish(bytes([priority]), queue, properties=_priority(priority))
    peer.consume(queue, no_ack=True)
    return peer.bodies(count) == [bytes([priority]) for priority in range(count)]


@rule("basic.06")
def test_basic_06(peer: Peer, strict: bool) -> None:
    """Five messages of priority 0, and one of priority 9: that one comes first; in RabbitMQ where the queue says so."""
    assert _in_order(peer, 2) is not strict
    queue = _ranking(peer, strict)
    for number in range(5):
        peer.publish(bytes([number]), queue, properties=_priority(0))
    peer.publish(b"nine", queue, properties=_priority(9))
    peer.consume(queue, no_ack=True)
    assert peer.bodies(6) == [b"nine", b"\0", b"\1", b"\2", b"\3", b"\4"]


@rule("basic.07")
def test_basic_07(peer: Peer, strict: bool) -> None:
    """One message of each priority, low to high: they come high to low; in RabbitMQ where the queue says so."""
    assert _in_order(peer, 10) is not strict
    queue = _ranking(peer, strict)
    for priority in range(10):
        peer.publish(bytes([priority]), queue, properties=_priority(priority))
    peer.consume(queue, no_ack=True)
    assert peer.bodies(10) == [bytes([priority]) for priority in reversed(range(10))]


@rule("basic.08")
def test_basic_08(peer: Peer) -> None:
    """Persistent and transient ones in turn, all of one priority: they come as they were published."""
    ranking = {"x-max-priority": 9}
    queue = peer.queue(fresh("q"), durable=True, exclusive=False, auto_delete=True, arguments=ranking)
    for number in range(100):
        peer.publish(bytes([number]), queue, properties=_priority(3, 1 + number % 2))
    peer.consume(queue, no_ack=True)
    assert peer.bodies(100) == [bytes([number]) for number in range(100)]


@rule("basic.09")
def test_basic_09(peer: Peer, connect: Connect) -> None:
    """Messages to a consumer without acknowledgements are done with when they are sent."""
    queue = peer.queue(fresh("q"), exclusive=False)
    consumer = connect()
    consumer.consume(queue, no_ack=True)
    for number in range(10):
        peer.publish(bytes([number]), queue)
    consumer.deliveries(10)
    consumer.send_method(0, ConnectionClose(reply_code=200))
    consumer.answer()
    assert peer.count(queue) == 0
    peer.ask(QueueDelete(queue=queue), QueueDeleteOk)


@rule("basic.10")
def test_basic_10(peer: Peer, connect: Connect) -> None:
    """Half of the messages are acknowledged; after a reconnect the other half come, flagged."""
    queue = peer.queue(fresh("q"), exclusive=False)
    consumer = connect()
    consumer.consume(queue)
    for number in range(10):
        peer.publish(bytes([number]), queue)
    for delivery in consumer.deliveries(10)[::2]:
        consumer.ack(delivery.tag)
    consumer.send_method(0, ConnectionClose(reply_code=200))
    assert consumer.answer() == (0, ConnectionCloseOk())
    again = connect()
    again.consume(queue)
    came = again.deliveries(5)
    assert [(delivery.body, delivery.redelivered) for delivery in came] == [
        (bytes([number]), True) for number in range(1, 10, 2)
    ]
    again.ack(came[-1].tag, multiple=True)
    assert again.silent()
    again.ask(QueueDelete(queue=queue), QueueDeleteOk)


# -- consumers --------------------------------------------------------------------------------------------------------


@rule("basic.consume.01")
def test_basic_consume_01(peer: Peer) -> None:
    """256 of them: each gets its share."""
    queue = peer.queue()
    tags = [peer.consume(queue) for _ in range(256)]
    for number in range(256):
        peer.publish(bytes([number]), queue)
    came = peer.deliveries(256)
    assert {delivery.delivery.consumer_tag for delivery in came} == set(tags)


@rule("basic.consume.consumer-tag.01")
def test_basic_consume_consumer_tag_01(peer: Peer) -> None:
    """The second consumer of that tag ends the connection."""
    queue = peer.queue()
    peer.consume(queue, "tag")
    again = BasicConsume(queue=queue, consumer_tag="tag")
    assert peer.ended(again, 530) == "NOT_ALLOWED - attempt to reuse consumer tag 'tag'"


@rule("basic.consume.consumer-tag.02")
def test_basic_consume_consumer_tag_02(peer: Peer, strict: bool) -> None:
    """Two channels may have the same tag, and mean their own; a tag of the other channel only is no tag at all."""
    queue = peer.queue()
    peer.ask(ChannelOpen(), ChannelOpenOk, 2)
    peer.consume(queue, "same", channel=1)
    peer.consume(queue, "same", channel=2)
    peer.ask(BasicCancel(consumer_tag="same"), BasicCancelOk, 2)
    peer.publish(b"m", queue)
    assert [delivery.channel for delivery in peer.deliveries(1)] == [1]
    peer.consume(queue, "mine", channel=1)
    if strict:
        peer.ended(BasicCancel(consumer_tag="mine"), 530, 2)
    else:
        peer.ask(BasicCancel(consumer_tag="mine"), BasicCancelOk, 2)
        for _ in range(2):
            peer.publish(b"m", queue)
        tags = {delivery.delivery.consumer_tag for delivery in peer.deliveries(2)}
        assert tags == {"same", "mine"}


@rule("basic.consume.exclusive.01")
def test_basic_consume_exclusive_01(peer: Peer, connect: Connect) -> None:
    """Another connection has a consumer: 403. The other way round as well."""
    queue = peer.queue(fresh("q"), exclusive=False, auto_delete=True)
    tag = peer.consume(queue)
    other = connect()
    other.refused(BasicConsume(queue=queue, exclusive=True), 403)
    keeper = connect()
    keeper.consume(queue)
    peer.ask(BasicCancel(consumer_tag=tag), BasicCancelOk)
    keeper.close()
    lonely = peer.queue()
    peer.consume(lonely, exclusive=True)
    peer.refused(BasicConsume(queue=lonely), 403)


@rule("basic.cancel.01")
def test_basic_cancel_01(peer: Peer, connect: Connect, strict: bool) -> None:
    """Another connection deleted the queue; the cancel is answered, and the channel goes on; in strict it is once."""
    queue = peer.queue(fresh("q"), exclusive=False)
    tag = peer.consume(queue)
    connect().ask(QueueDelete(queue=queue), QueueDeleteOk)
    cancel = BasicCancel(consumer_tag=tag)
    assert peer.ask(cancel, BasicCancelOk).consumer_tag == tag
    assert peer.silent()
    if strict:
        peer.ended(cancel, 530)
    else:
        peer.ask(cancel, BasicCancelOk)


# -- publishing -------------------------------------------------------------------------------------------------------


@rule("basic.publish.exchange.must-exist")
def test_basic_publish_exchange_must_exist(peer: Peer) -> None:
    """404, and the text names the exchange."""
    name = fresh("absent")
    peer.publish(b"m", "key", name)
    assert peer.refused(None, 404) == f"NOT_FOUND - no exchange '{name}' in vhost '/'"


@rule("basic.publish.exchange.default-exchange")
def test_basic_publish_exchange_default_exchange(peer: Peer) -> None:
    """A message to no exchange goes to the queue that its key names, and says that it came by none."""
    queue = peer.queue()
    peer.publish(b"m", queue)
    peer.consume(queue)
    (delivery,) = peer.deliveries(1)
    assert (delivery.delivery.exchange, delivery.delivery.routing_key) == ("", queue)


@rule("basic.publish.exchange.02")
def test_basic_publish_exchange_02(peer: Peer) -> None:
    """403, and nothing gets through."""
    exchange, queue = peer.exchange("fanout", internal=True), peer.queue()
    peer.bind(queue, exchange)
    peer.publish(b"m", exchange=exchange)
    assert f"internal exchange '{exchange}'" in peer.refused(None, 403)
    assert peer.count(queue) == 0


@rule("basic.publish.exchange.03")
def test_basic_publish_exchange_03(peer: Peer) -> None:
    """No exchange here refuses content, of whatever type it is."""
    for type in ("direct", "fanout", "topic", "headers"):
        exchange, queue = peer.exchange(type, auto_delete=True), peer.queue()
        peer.bind(queue, exchange, "key")
        peer.publish(b"m", "key", exchange)
        peer.sync()
        assert peer.body(queue) == b"m"


@rule("basic.publish.mandatory.01")
def test_basic_publish_mandatory_01(peer: Peer) -> None:
    """Returned whole with 312 where there is no route; not returned where there is one, or where nobody asked."""
    queue, properties = peer.queue(), encode_properties(Properties(message_id="1"))
    peer.publish(b"routed", queue, mandatory=True)
    peer.publish(b"lost", "nowhere", "amq.direct")
    peer.publish(b"m", "nowhere", "amq.direct", properties, mandatory=True)
    peer.sync()
    (came,) = peer.returned
    assert came.method == BasicReturn(
        reply_code=312, reply_text="NO_ROUTE", exchange="amq.direct", routing_key="nowhere"
    )
    assert (decode_properties(came.properties).message_id, came.body) == ("1", b"m")
    assert [peer.body(queue), peer.body(queue)] == [b"routed", None]


@rule("basic.publish.immediate.01")
def test_basic_publish_immediate_01(peer: Peer) -> None:
    """Returned with 313, and on no queue, where no consumer can take it now; delivered where one can."""
    queue = peer.queue()
    peer.publish(b"early", queue, immediate=True)
    peer.sync()
    peer.prefetch(1)
    peer.consume(queue)
    assert peer.silent()
    peer.publish(b"in time", queue, immediate=True)
    assert peer.bodies(1) == [b"in time"]
    # The consumer holds as much as it may.
    peer.publish(b"too much", queue, immediate=True)
    peer.sync()
    assert [(came.method, came.body) for came in peer.returned] == [
        (BasicReturn(reply_code=313, reply_text="NO_CONSUMERS", exchange="", routing_key=queue), body)
        for body in (b"early", b"too much")
    ]
    assert peer.count(queue) == 0
