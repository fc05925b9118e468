"""What a broker has on it while its pages are looked at, made by an ordinary client."""

import json
from typing import Final

import flintmq.client as fc
from tests.servers import BrokerProcess

# A name and a text that would run, were they ever taken for markup.
MARKUP: Final = '<img src="x" onerror="document.title=1">'
BODIES: Final = tuple(
    json.dumps({"order": number, "customer": f"customer {number}"}).encode() for number in range(1, 6)
)


def properties(headers: dict[str, object] | None = None) -> bytes:
    return fc.encode_properties(
        fc.Properties(content_type="application/json", delivery_mode=2, headers=headers or {"tenant": "acme"})
    )


def publish(broker: BrokerProcess, queue: str, *bodies: bytes, arguments: dict[str, object] | None = None) -> None:
    """Declares the queue, and sends it these messages."""
    with fc.connect(broker.url) as connection, connection.channel(confirms=True) as channel:
        channel.declare_queue(queue, arguments=arguments)
        channel.publish_batch([("", queue, body, properties()) for body in bodies])


def taken(broker: BrokerProcess, queue: str) -> list[bytes]:
    """All bodies that wait on a queue, which is empty then."""
    bodies = []
    with fc.connect(broker.url) as connection, connection.channel() as channel:
        while (message := channel.get(queue, no_ack=True)) is not None:
            bodies.append(message.body)
    return bodies


def reject(broker: BrokerProcess, queue: str) -> None:
    """Takes all messages of a queue, and wants none of them."""
    with fc.connect(broker.url) as connection, connection.channel() as channel:
        while (message := channel.get(queue)) is not None:
            channel.nack(message.delivery_tag, requeue=False)


def furnish(broker: BrokerProcess) -> None:
    """Something for every page to show."""
    publish(broker, "orders", *BODIES, arguments={"x-message-ttl": 3_600_000})
    publish(broker, "events", *BODIES, arguments={"x-queue-type": "stream"})
    publish(broker, "fragile", *BODIES, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "grave"})
    publish(broker, "grave")
    reject(broker, "fragile")
    with fc.connect(broker.url) as connection, connection.channel() as channel:
        channel.declare_exchange("shop", "topic")
        channel.declare_exchange("audit", "fanout")
        channel.bind("orders", "shop", "order.#")
        channel.bind("events", "audit")
