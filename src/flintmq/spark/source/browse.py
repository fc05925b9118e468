"""Browse an ordinary queue for a batch query: its messages, oldest first, all of which stay on the queue."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from librt.strings import BytesWriter
from pyspark.sql.datasource import InputPartition

import flintmq.client as fc
from flintmq.base.errors import ConfigurationError
from flintmq.spark.client import ReconnectingClient
from flintmq.spark.source.options import ReadOptions
from flintmq.wire.amqp091.chunk import REDELIVERED, push_record
from flintmq.wire.amqp091.tables import encode_address

# If no message comes for this long, other consumers have taken the rest of the counted messages.
SILENCE_SECONDS: Final = 10.0


@dataclass
class BrowsePartition(InputPartition):
    """The first `count` messages of a queue, which one task reads. `partition` is the queue's place in the option."""

    queue: str
    partition: int
    count: int


def browse_partitions(
    client: ReconnectingClient, options: ReadOptions, queue: str, number: int
) -> list[BrowsePartition]:
    """One partition with all messages of the queue, or none if it is empty: a task cannot begin in its middle.

    `number` is the queue's place in the option queue. Raises FlintError; ConfigurationError if an option sets offsets.
    """
    if queue in options.starting or queue in options.ending:
        raise ConfigurationError(
            f"'{queue}' is not a stream: a batch reads all its messages. Remove the options that set starting or "
            "ending offsets"
        )
    count = client.call(lambda channel: channel.declare_queue(queue, passive=True)).message_count
    return [BrowsePartition(queue, number, count)] if count else []


def browse(client: ReconnectingClient, part: BrowsePartition, chunk_bytes: int) -> Iterator[bytes]:
    """The messages as chunks of `chunk_bytes` (see wire/amqp091/chunk.py), with offsets from 0 on.

    Raises FlintError.
    """
    batches = client.call(
        lambda channel: channel.consume(part.queue, no_ack=True, timeout=SILENCE_SECONDS, arguments={"x-browse": True})
    )
    w = BytesWriter()
    count = 0
    for batch in batches:
        for message in batch.messages[: part.count - count]:
            _push(w, count, message)
            count += 1
            if len(w) >= chunk_bytes:
                yield w.getvalue()
                w = BytesWriter()
        if count == part.count:
            break
    if len(w):
        yield w.getvalue()


def _push(w: BytesWriter, number: int, message: fc.Delivery) -> None:
    flags = REDELIVERED if message.redelivered else 0
    # The timestamp is 0, because a delivery does not say when the broker received its message.
    address = encode_address(message.exchange, message.routing_key)
    push_record(w, number, 0, flags, address, message.encoded_properties, message.body)
