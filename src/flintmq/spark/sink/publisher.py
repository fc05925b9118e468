"""The delivery modes at-least-once and dedup: a task ends after the broker has confirmed each of its rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

import flintmq.client as fc
from flintmq.spark.client import ReconnectingClient
from flintmq.spark.errors import user_errors
from flintmq.spark.sink.options import WriteOptions
from flintmq.spark.sink.rows import RowEncoder

# The longest wait for confirms. A disk that needs longer for its syncs has failed.
CONFIRM_SECONDS: Final = 60.0


@dataclass
class Published(WriterCommitMessage):
    """The number of messages that one task published."""

    messages: int


def publish(options: WriteOptions, encoder: RowEncoder, batches: Iterator[pa.RecordBatch]) -> Published:
    """Publish the rows of a task. Raises FlintError if the broker refuses a message or returns it as unroutable."""
    messages = 0
    endpoint = options.endpoint
    # The task sends one part while the broker syncs the part before.
    step = max(options.batch_size // 2, 1)
    with user_errors(endpoint), ReconnectingClient(endpoint, confirms=True, patient=True) as client:
        publisher = Publisher(client, encoder)
        for batch in batches:
            for start in range(0, batch.num_rows, step):
                publisher.publish(batch.slice(start, step))
            messages += batch.num_rows
        publisher.finish()
    return Published(messages)


class Publisher:
    """Publishes parts in order, and keeps the last one until it is confirmed.

    If the connection is lost before that, the last part is published again, and then the current one. Messages of them
    that the broker had already confirmed arrive twice.
    """

    def __init__(self, client: ReconnectingClient, encoder: RowEncoder) -> None:
        self._client = client
        self._encoder = encoder
        self._channel: fc.Channel | None = None
        self._unconfirmed: pa.RecordBatch | None = None
        # The number of messages that the channel had published at the end of that part.
        self._published = 0

    def publish(self, part: pa.RecordBatch) -> None:
        """Publish a part of the rows; its confirms may come later. Raises FlintError."""
        self._client.call(partial(self._publish, part))
        self._unconfirmed = part
        assert self._channel is not None
        self._published = self._channel.published

    def finish(self) -> None:
        """Wait until all parts are confirmed. Raises FlintError."""
        if self._unconfirmed is not None:
            self._client.call(self._finish)

    def _publish(self, part: pa.RecordBatch, channel: fc.Channel) -> None:
        self._resend_if_reconnected(channel)
        channel.publish_ahead(self._encoder.rows(part), timeout=CONFIRM_SECONDS)

    def _finish(self, channel: fc.Channel) -> None:
        self._resend_if_reconnected(channel)
        channel.wait_for_confirms(timeout=CONFIRM_SECONDS)

    def _resend_if_reconnected(self, channel: fc.Channel) -> None:
        before = self._channel
        if channel is before:
            return
        if before is not None and before.confirmed >= self._published and not before.has_failures:
            # A task that waits long for its rows may lose the connection after all confirms have come. Refused messages
            # are published again, because their error was not raised: the broker refuses them again, and it is raised.
            self._unconfirmed = None
        if self._unconfirmed is not None:
            channel.publish_ahead(self._encoder.rows(self._unconfirmed), timeout=CONFIRM_SECONDS)
        self._channel = channel
        self._published = channel.published
