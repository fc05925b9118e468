"""Messages that a full queue does not take: where they go, and what their publishers hear."""

from flintmq.wire.amqp091.methods import (
    BasicConsume,
    BasicNack,
    BasicReject,
    ConfirmSelect,
    QueueDeclare,
    TxCommit,
    TxSelect,
)
from flintmq.wire.amqp091.tables import Table
from tests.unit.gateway.amqp091.pair import Client, Server

# More than the letters of queues that are published in one tick.
MANY = 5_000


def full_queue(**more: object) -> Table:
    return {"x-max-length": 0, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", **more}


def test_confirm_covers_every_letter() -> None:
    """However many messages a queue discards in one tick: what is confirmed is in the journal, as a dead letter."""
    client = Client(Server())
    channel = client.channel()
    channel.call(
        QueueDeclare(queue="dead", durable=True),
        QueueDeclare(queue="q", durable=True, arguments=full_queue()),
        ConfirmSelect(),
    )
    for number in range(MANY):
        channel.publish(str(number))
    client.tick()
    client.durable()
    assert channel.acks[-1] == (MANY, True)
    assert len(client.server.storage.memory_journal.kept) == MANY
    assert not client.server.broker.tick.discarded


def test_at_least_once_takes_no_promise_it_cannot_keep() -> None:
    """A letter that has to wait would be nowhere after a crash: the publisher of a message without room is told no."""
    client = Client(Server())
    channel = client.channel()
    arguments = full_queue(**{"x-dead-letter-strategy": "at-least-once"})
    channel.call(QueueDeclare(queue="q", durable=True, arguments=arguments), ConfirmSelect())
    channel.publish("m")
    client.tick()
    client.durable()
    assert channel.acks == []
    (nack,) = channel.came()
    assert isinstance(nack, BasicNack)
    assert nack.delivery_tag == 1


def test_commit_publishes_letters_of_its_own_alone() -> None:
    """What dies elsewhere in the same tick is not part of the transaction, whose size is limited."""
    server = Server()
    client, another = Client(server), Client(server)
    channel, elsewhere = client.channel(), another.channel()
    channel.call(
        QueueDeclare(queue="dead", durable=True),
        QueueDeclare(queue="other", durable=True, arguments=full_queue(**{"x-max-length": 1})),
        QueueDeclare(queue="q", durable=True, arguments=full_queue(**{"x-max-length": 10})),
    )
    channel.publish("rejected", key="q")
    channel.call(TxSelect(), BasicConsume(queue="q"))
    elsewhere.publish("first", key="other")
    elsewhere.publish("second", key="other")
    another.connection.engine.receive(another.side.sent(), 0.0)
    channel.send(BasicReject(delivery_tag=1, requeue=False), TxCommit())
    client.connection.engine.receive(client.side.sent(), 0.0)
    assert server.storage.memory_journal.appends[-1][0] == b"rejected"
    assert len(server.broker.tick.dead_letters) == 1
    client.tick()
    assert server.storage.memory_journal.appends[-1][0] == b"first"
