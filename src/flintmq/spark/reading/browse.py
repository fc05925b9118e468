"""A look at an ordinary queue, for a batch: what is on it, oldest first. Nothing is taken."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from librt.strings import BytesWriter
from pyspark.sql.datasource import InputPartition

import flintmq.client as fc
from flintmq.base.errors import ConfigurationError
from flintmq.spark.client import ReconnectingClient
from flintmq.spark.reading.options import ReadOptions
from flintmq.wire.amqp091.chunk import REDELIVERED, push_record
from flintmq.wire.amqp091.tables import encode_address

# Without a message for so long, the rest of what was counted has been taken by others.
SILENCE_SECONDS: Final = 10.0


@dataclass
class BrowsePartition(InputPartition):
    """The first `count` messages of a queue."""

    queue: str
    partition: int
    count: int


def browse_partitions(
    client: ReconnectingClient, options: ReadOptions, queue: str, number: int
) -> list[BrowsePartition]:
    """One partition at most: a queue has no places to begin at. Raises FlintError."""
    if queue in options.starting or queue in options.ending:
        raise ConfigurationError(
            f"'{queue}' is not a stream: a batch shows all that is on it, and has no offsets to start and to end at"
        )
    count = client.call(lambda channel: channel.declare_queue(queue, passive=True)).message_count
    return [BrowsePartition(queue, number, count)] if count else []


def browse(client: ReconnectingClient, part: BrowsePartition, chunk_bytes: int) -> Iterator[bytes]:
    """The messages as chunks (see wire/amqp091/chunk.py), whose offsets count from 0. Raises FlintError."""
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
    # A delivery does not say when the broker received its message.
    address = encode_address(message.exchange, message.routing_key)
    push_record(w, number, 0, flags, address, message.encoded_properties, message.body)
