"""What the broker counts of things that come and go, whichever protocol brings them."""

from flintmq.wire.amqp091.methods import BasicConsume, BasicReject, QueueDeclare, QueueDelete
from tests.unit.gateway.amqp091.pair import Client, Server


def test_what_comes_and_goes_is_counted() -> None:
    """Connections, channels and queues; a declaration of what is there is one, and makes none."""
    server = Server()
    client = Client(server)
    channel = client.channel()
    channel.call(QueueDeclare(queue="q"), QueueDeclare(queue="q"), QueueDelete(queue="q"))
    client.channel()
    churn = server.broker.tick.churn
    assert (churn.connections_opened, churn.connections_closed) == (1, 0)
    assert (churn.channels_opened, churn.channels_closed) == (2, 0)
    assert (churn.queues_declared, churn.queues_created, churn.queues_deleted) == (2, 1, 1)
    client.connection.engine.lost(None)
    assert (churn.connections_closed, churn.channels_closed) == (1, 2)


def test_dead_letters_are_counted() -> None:
    """By the kind of their queue, by why they are some, and by whether there is where to go."""
    server = Server()
    client = Client(server)
    channel = client.channel()
    channel.call(QueueDeclare(queue="q", arguments={"x-dead-letter-exchange": "amq.fanout"}), QueueDeclare(queue="p"))
    for queue in ("q", "p"):
        channel.publish("m", queue)
        channel.call(BasicConsume(queue=queue, consumer_tag=queue))
    channel.call(BasicReject(delivery_tag=1, requeue=False), BasicReject(delivery_tag=2, requeue=False))
    assert server.broker.tick.churn.dead_letters == {("classic", "at_most_once", "rejected"): 1}
