"""At least once: every row is confirmed by the broker before its task is done, so none is lost."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

import flintmq.client as fc
from flintmq.spark.connecting import Connecting
from flintmq.spark.failures import told
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
    with told(endpoint), Connecting(endpoint, confirms=True, patient=True) as connecting:
        for batch in batches:
            for start in range(0, batch.num_rows, options.batch_size):
                part = batch.slice(start, options.batch_size)
                # After a loss of connection all of it goes again: what had been confirmed arrives twice.
                messages += connecting.call(partial(_publish_all, encoder, part))
    return Published(messages)


def _publish_all(encoder: RowEncoder, rows: pa.RecordBatch, channel: fc.Channel) -> int:
    return channel.publish_batch(encoder.rows(rows), timeout=CONFIRM_SECONDS)
