"""What queues, channels, sessions, exchanges and virtual hosts count of what passes, whichever protocol it comes by."""

from flintmq.broker.counters.traffic import Outflow
from flintmq.broker.queue.base import Queue
from flintmq.wire.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicQos,
    BasicReject,
    ConfirmSelect,
    QueueDeclare,
    QueueDelete,
)
from flintmq.wire.amqp10.performatives import Attach
from flintmq.wire.amqp10.spec import SND_SETTLED
from flintmq.wire.amqp10.states import ACCEPTED
from tests.unit.gateway.amqp091.pair import Client, ClientChannel, Server
from tests.unit.gateway.amqp10 import pair as pair10


def outflow(counted: Outflow) -> dict[str, int]:
    """What is not nothing."""
    names = ("delivered", "delivered_no_ack", "got", "got_no_ack", "got_empty", "acked", "redelivered")
    return {name: int(getattr(counted, name)) for name in names if getattr(counted, name)}


def held(queue: Queue) -> tuple[int, int, int, int]:
    """Messages that are ready, and in clients' hands, each with the bytes of their bodies."""
    return queue.message_count, queue.ready_bytes, int(queue.unacked), int(queue.unacked_bytes)


def opened(server: Server) -> tuple[ClientChannel, Outflow, Queue]:
    client = Client(server)
    channel = client.channel()
    channel.call(QueueDeclare(queue="q", durable=True))
    (theirs,) = client.connection.channels.values()
    return channel, theirs.deliveries, server.vhost.queues["q"]


def test_consuming_is_counted_where_it_happens() -> None:
    """Deliveries, acknowledgements and what comes back are counted by the queue and by the channel alike."""
    server = Server()
    channel, deliveries, queue = opened(server)
    for body in ("one", "three", "fifteen"):
        channel.publish(body)
    channel.call(BasicQos(prefetch_count=2))
    assert held(queue) == (3, 15, 0, 0)
    channel.call(BasicConsume(queue="q", consumer_tag="c"))
    assert held(queue) == (1, 7, 2, 8)
    channel.call(BasicAck(delivery_tag=1))
    assert held(queue) == (0, 0, 2, 12)
    channel.call(BasicNack(delivery_tag=2, requeue=True))
    channel.call(BasicReject(delivery_tag=3, requeue=False))
    assert held(queue) == (0, 0, 1, 5)
    assert outflow(queue) == outflow(deliveries) == {"delivered": 4, "acked": 1, "redelivered": 1}
    assert queue.published == 3


def test_what_needs_no_acknowledgement_has_its_own_count() -> None:
    """Automatic acknowledgement and basic.get have theirs, and none of it is in anybody's hands."""
    server = Server()
    channel, deliveries, queue = opened(server)
    for body in ("a", "b", "c", "d"):
        channel.publish(body)
    channel.call(BasicGet(queue="q"), BasicGet(queue="q", no_ack=True))
    channel.call(BasicConsume(queue="q", consumer_tag="c", no_ack=True))
    channel.call(BasicGet(queue="q"))
    assert held(queue) == (0, 0, 1, 1)
    counts = {"got": 1, "got_no_ack": 1, "got_empty": 1, "delivered_no_ack": 2}
    assert outflow(queue) == outflow(deliveries) == counts


def test_publishing_is_counted_by_exchange_and_virtual_host() -> None:
    """What came to an exchange and how many queues it went to; what was confirmed, returned, or went nowhere."""
    server = Server()
    client = Client(server)
    channel = client.channel()
    channel.call(ConfirmSelect(), QueueDeclare(queue="q", durable=True))
    channel.publish("one")
    channel.publish("two", key="nowhere")
    channel.publish("three", key="nowhere", mandatory=True)
    client.tick()
    client.durable()
    (theirs,) = client.connection.channels.values()
    publisher = theirs.publisher
    of_exchange = server.vhost.exchanges.by_name[""].traffic
    traffic = server.vhost.traffic
    assert (of_exchange.published_in, of_exchange.published_out) == (3, 1)
    assert (publisher.published, publisher.returned, publisher.dropped, theirs.confirms.confirmed) == (3, 1, 1, 3)
    assert (server.vhost.router.published, traffic.confirmed, traffic.returned, traffic.dropped) == (3, 3, 1, 1)


def test_counts_of_a_queue_outlive_it() -> None:
    """What went out of a queue that is deleted stays in the sums of its virtual host."""
    server = Server()
    channel, _, _ = opened(server)
    channel.publish("one")
    channel.call(BasicGet(queue="q", no_ack=True), QueueDelete(queue="q"))
    assert outflow(server.vhost.traffic.gone) == {"got_no_ack": 1}


def test_amqp_10_counts_the_same() -> None:
    """A session counts as a channel does, and its links' deliveries count on the queue."""
    server = pair10.Server()
    server.queue("q")
    client = pair10.Client(server)
    client.sender().publish("one", "two", "three")
    queue = server.vhost.queues["q"]
    receiver = client.receiver(credit=1)
    (delivery, _), _ = receiver.take()
    assert delivery is not None
    # What AMQP 1.0 calls a data section is a body here: five octets more.
    assert held(queue) == (1, 10, 2, 16)
    receiver.settle(delivery, ACCEPTED)
    client.receiver(attach=Attach(name="settled", snd_settle_mode=SND_SETTLED)).take()
    (session,) = client.connection.sessions
    assert held(queue) == (0, 0, 1, 8)
    assert outflow(queue) == outflow(session.outflow) == {"delivered": 2, "delivered_no_ack": 1, "acked": 1}
    assert session.publisher.published == server.vhost.router.published == 3
    assert server.vhost.traffic.confirmed == 3
