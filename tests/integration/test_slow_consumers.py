"""A consumer that reads late holds up nobody, and then gets everything."""

import time

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import Basic, BasicProperties

from flintmq.embedded import Broker

COUNT = 100
BODY = bytes(256 * 1024)


def ready(channel: BlockingChannel) -> int:
    """The number of messages that stay on the queue, once it does not change any more."""
    before = -1
    while True:
        count = int(channel.queue_declare("q", passive=True).method.message_count)
        if count == before:
            return count
        before = count
        time.sleep(0.3)


def test_a_consumer_that_reads_late_gets_everything() -> None:
    """Deliveries stop while its output is full, and go on without any other event when it reads again."""
    with Broker() as broker:
        slow = pika.BlockingConnection(pika.URLParameters(broker.url))
        other = pika.BlockingConnection(pika.URLParameters(broker.url))
        reading, publishing = slow.channel(), other.channel()
        reading.queue_declare("q")
        got: list[int] = []

        def take(_channel: BlockingChannel, _method: Basic.Deliver, _properties: BasicProperties, body: bytes) -> None:
            got.append(len(body))

        reading.basic_consume("q", take, auto_ack=True)
        publishing.confirm_delivery()
        for _ in range(COUNT):
            publishing.basic_publish("", "q", BODY)
        assert 0 < ready(publishing) < COUNT
        deadline = time.monotonic() + 60
        while len(got) < COUNT and time.monotonic() < deadline:
            slow.process_data_events(0.1)
        assert got == [len(BODY)] * COUNT
        slow.close()
        other.close()
