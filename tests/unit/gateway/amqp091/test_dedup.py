"""Deduplication as publishers see it: a duplicate is confirmed, once what it duplicates is safe, and goes nowhere."""

from flintmq.wire.amqp091.methods import BasicConsume, ConfirmSelect, QueueDeclare, TxCommit, TxRollback, TxSelect
from flintmq.wire.amqp091.properties import Properties, encode_properties
from tests.unit.gateway.amqp091.pair import Client, Server

ONCE = QueueDeclare(queue="q", durable=True, arguments={"x-dedup-window": 60_000})


def named(message_id: str) -> bytes:
    return encode_properties(Properties(delivery_mode=2, message_id=message_id))


def numbered(number: int) -> bytes:
    headers: dict[str, object] = {"x-producer-id": "p", "x-producer-seq": number}
    return encode_properties(Properties(delivery_mode=2, headers=headers))


def test_a_duplicate_waits_for_its_original() -> None:
    """It is confirmed with the batch that its original is in, by whatever channel it came, and not before."""
    client = Client(Server())
    first, second = client.channel(), client.channel()
    first.call(ONCE, ConfirmSelect())
    second.call(ConfirmSelect())
    first.publish("m", properties=named("a"))
    client.tick()
    second.publish("again", properties=named("a"), mandatory=True)
    client.tick()
    assert (first.acks, second.acks) == ([], [])
    client.durable()
    assert (first.acks, second.acks) == ([(1, False)], [(1, False)])
    first.call(BasicConsume(queue="q", no_ack=True))
    assert [body for _, _, body in first.contents] == ["m"]
    assert second.contents == []


def test_a_producer_that_repeats_itself() -> None:
    """After a lost connection it publishes all that was not confirmed once more: each comes once, in order."""
    client = Client(Server())
    channel = client.channel()
    channel.call(ONCE)
    for number in (1, 2, 3, 2, 3, 4, 1, 5):
        channel.publish(str(number), properties=numbered(number))
    client.tick()
    channel.call(BasicConsume(queue="q"))
    assert [body for _, body, _ in channel.deliveries()] == ["1", "2", "3", "4", "5"]


def test_a_transaction_with_duplicates() -> None:
    """Those of what was there before, and those within it; what is rolled back is not remembered."""
    client = Client(Server())
    channel = client.channel()
    channel.call(ONCE)
    channel.publish("first", properties=named("a"))
    channel.call(TxSelect())
    for name in ("a", "b", "b"):
        channel.publish(name, properties=named(name))
    assert len(channel.call(TxCommit())) == 1
    channel.publish("rolled back", properties=named("c"))
    channel.call(TxRollback())
    other = client.channel()
    for name in ("b", "c"):
        other.publish(name, properties=named(name))
    other.call(BasicConsume(queue="q"))
    assert [body for _, body, _ in other.deliveries()] == ["first", "b", "c"]
