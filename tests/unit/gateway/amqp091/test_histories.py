"""Histories of deaths that clients publish, as those do who send on what they got with all its headers."""

from flintmq.broker.message import Table
from flintmq.wire.amqp091.methods import ConfirmSelect, QueueDeclare
from flintmq.wire.amqp091.properties import Properties, decode_properties, encode_properties
from tests.unit.broker.memory import got
from tests.unit.gateway.amqp091.pair import Client, Server

TO_DEAD: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


def history(queue: str) -> bytes:
    death: Table = {"queue": queue, "reason": "expired", "count": 7, "exchange": "", "routing-keys": [queue]}
    headers: Table = {"x-death": [death], "x-first-death-queue": queue}
    return encode_properties(Properties(delivery_mode=2, message_id="m", headers=headers))


def test_a_history_from_a_client_does_not_count() -> None:
    """It makes no cycle of a first death, and the broker's own history begins with that."""
    client = Client(Server())
    channel = client.channel()
    channel.call(
        QueueDeclare(queue="dead", durable=True),
        QueueDeclare(queue="q", durable=True, arguments={**TO_DEAD, "x-message-ttl": 0}),
    )
    channel.publish("m", properties=history("dead"))
    client.tick()
    queue = client.server.vhost.queues["dead"]
    entry = got(queue)
    assert entry is not None
    headers = decode_properties(entry.message.properties).headers
    assert headers is not None
    deaths = headers["x-death"]
    assert isinstance(deaths, list)
    assert [(death["queue"], death["reason"], death["count"]) for death in deaths] == [("q", "expired", 1)]
    assert headers["x-first-death-queue"] == "q"


def test_a_history_from_a_client_is_no_way_around_deduplication() -> None:
    """Who sends a message again with the headers it came with sends a duplicate all the same."""
    client = Client(Server())
    channel = client.channel()
    channel.call(QueueDeclare(queue="q", durable=True, arguments={"x-dedup-size": 10}), ConfirmSelect())
    for _ in range(3):
        channel.publish("m", properties=history("q"))
    client.tick()
    client.durable()
    assert channel.acks[-1][0] == 3
    assert client.server.vhost.queues["q"].message_count == 1
