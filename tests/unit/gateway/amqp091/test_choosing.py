"""Consumers that choose, as clients ask for them: no-local, and groups."""

from flintmq.wire.amqp091.methods import BasicAck, BasicConsume, BasicGet, BasicGetOk, QueueDeclare
from flintmq.wire.amqp091.properties import Properties, encode_properties
from tests.unit.gateway.amqp091.pair import Client, Server


def test_no_local_consumer_gets_nothing_of_its_own_connection() -> None:
    """amqp-0-9-1 basic.consume.no-local: what came by any channel of the connection is for others."""
    server = Server()
    mine, other = Client(server), Client(server)
    consuming, publishing, foreign = mine.channel(), mine.channel(), other.channel()
    consuming.call(QueueDeclare(queue="q"), BasicConsume(queue="q", no_local=True, no_ack=True))
    publishing.publish("own1")
    foreign.publish("foreign1")
    publishing.publish("own2")
    foreign.publish("foreign2")
    other.tick()
    mine.tick()
    other.tick()
    mine.tick()
    assert [body for _, _, body in consuming.contents] == ["foreign1", "foreign2"]
    foreign.call(BasicConsume(queue="q", no_local=True, no_ack=True))
    assert [body for _, _, body in foreign.contents] == ["own1", "own2"]


def test_what_is_local_can_be_had_otherwise() -> None:
    """no-local is the consumer's, not the queue's: basic.get gets what it leaves."""
    client = Client(Server())
    channel = client.channel()
    channel.call(QueueDeclare(queue="q"), BasicConsume(queue="q", no_local=True))
    channel.publish("own")
    client.tick()
    assert channel.contents == []
    channel.call(BasicGet(queue="q", no_ack=True))
    ((answer, _, body),) = channel.contents
    assert isinstance(answer, BasicGetOk)
    assert body == "own"


def test_group_waits_for_acknowledgement() -> None:
    """A group's next messages go to the channel that has not acknowledged the ones before."""
    client = Client(Server())
    first, second = client.channel(), client.channel()
    first.call(
        QueueDeclare(queue="q", arguments={"x-group-header": "properties.correlation_id"}), BasicConsume(queue="q")
    )
    second.call(BasicConsume(queue="q"))
    for body in ("a1", "b1", "a2", "b2"):
        first.publish(body, properties=encode_properties(Properties(correlation_id=body[0])))
    client.tick()
    assert [[text for _, _, text in channel.contents] for channel in (first, second)] == [["a1", "a2"], ["b1", "b2"]]
    second.call(BasicAck(delivery_tag=2, multiple=True))
    first.publish("b3", properties=encode_properties(Properties(correlation_id="b")))
    client.tick()
    assert [body for _, _, body in first.contents][2:] == ["b3"]
