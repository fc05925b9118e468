"""Clients that broker and connection may be taken from at any moment."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError

from tests.servers import BrokerProcess


@contextmanager
def opened(broker: BrokerProcess) -> Iterator[BlockingChannel]:
    """A channel with confirms."""
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    channel.confirm_delivery()
    yield channel
    # A broker that was killed meanwhile does not answer.
    with suppress(AMQPError):
        connection.close()
