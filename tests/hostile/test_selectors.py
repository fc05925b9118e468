"""Selectors that are made to take long: others are served, and the broker goes on."""

import pika

from tests.hostile.conftest import Bystander
from tests.servers import BrokerProcess


def test_patterns_that_match_late(broker: BrokerProcess, bystander: Bystander) -> None:
    """Long values through many bindings with LIKE are answered, one way or the other, and nobody else is kept."""
    connection = pika.BlockingConnection(pika.URLParameters(broker.url + "?heartbeat=0"))
    channel = connection.channel()
    channel.confirm_delivery()
    queue = channel.queue_declare("", exclusive=True).method.queue
    for number in range(200):
        pattern = "%a" * 40 + f"%b{number}"
        channel.queue_bind(queue, "amq.fanout", "", {"x-selector": f"h LIKE '{pattern}'"})
    properties = pika.BasicProperties(headers={"h": "a" * 110_000})
    for _ in range(6):
        channel.basic_publish("amq.fanout", "", b"", properties)
        bystander.is_served()
    method, _, _ = channel.basic_get(queue)
    assert method is None
    connection.close()
    assert not broker.faults
