"""At least once: every row is confirmed by the broker before its task is done, so none is lost."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

import flintmq.client as fc
from flintmq.spark.client import ReconnectingClient
from flintmq.spark.errors import user_errors
from flintmq.spark.writing.options import WriteOptions
from flintmq.spark.writing.rows import RowEncoder

# From the last write to its last confirm: a disk that takes longer has failed.
CONFIRM_SECONDS: Final = 60.0


@dataclass
class Published(WriterCommitMessage):
    """What one task published."""

    messages: int


def publish(options: WriteOptions, encoder: RowEncoder, batches: Iterator[pa.RecordBatch]) -> Published:
    """What a task does, on an executor. Raises FlintError when the broker did not take or route a message."""
    messages = 0
    endpoint = options.endpoint
    # While the broker writes one part down, the next is on its way.
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
    """Publishes part after part, and keeps the last one until its confirms came: if the connection is lost before that,
    it goes again, and the one in hand too. What of them had been confirmed arrives twice then.
    """

    def __init__(self, client: ReconnectingClient, encoder: RowEncoder) -> None:
        self._client = client
        self._encoder = encoder
        self._channel: fc.Channel | None = None
        self._unconfirmed: pa.RecordBatch | None = None
        # Its end on the channel that it went over.
        self._published = 0

    def publish(self, part: pa.RecordBatch) -> None:
        """Raises FlintError."""
        self._client.call(partial(self._publish, part))
        self._unconfirmed = part
        assert self._channel is not None
        self._published = self._channel.published

    def finish(self) -> None:
        """All is confirmed then. Raises FlintError."""
        if self._unconfirmed is not None:
            self._client.call(self._finish)

    def _publish(self, part: pa.RecordBatch, channel: fc.Channel) -> None:
        self._go_on(channel)
        channel.publish_ahead(self._encoder.rows(part), timeout=CONFIRM_SECONDS)

    def _finish(self, channel: fc.Channel) -> None:
        self._go_on(channel)
        channel.wait_for_confirms(timeout=CONFIRM_SECONDS)

    def _go_on(self, channel: fc.Channel) -> None:
        before = self._channel
        if channel is before:
            return
        if before is not None and before.confirmed >= self._published and not before.has_failures:
            # Whoever waits long for rows loses the connection, and has had its confirms by then. What was refused goes
            # again, since nobody was told: it is refused again, and then somebody is.
            self._unconfirmed = None
        if self._unconfirmed is not None:
            channel.publish_ahead(self._encoder.rows(self._unconfirmed), timeout=CONFIRM_SECONDS)
        self._channel = channel
        self._published = channel.published
