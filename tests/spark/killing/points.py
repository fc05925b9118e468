"""Places at which all of a driver's processes end, at once, however rarely a random kill would meet them.

A point is armed by a file of its name, which says how often it is passed before. Whoever comes to it kills the process
group that the driver started: the driver, its JVM and its executors.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import InputPartition, WriterCommitMessage
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from flintmq.spark.data_source import FlintMQDataSource
from flintmq.spark.lake.data_file import Batch
from flintmq.spark.lake.manifest import Manifest
from flintmq.spark.lake.options import LakeWriteOptions, lake_write_options
from flintmq.spark.lake.source import LakeDataSource
from flintmq.spark.lake.writer import LakeStreamWriter
from flintmq.spark.sink.options import write_options
from flintmq.spark.sink.writer import StreamWriter
from flintmq.spark.source.offsets import Offset
from flintmq.spark.source.options import stream_read_options
from flintmq.spark.source.reader import StreamReader

GROUP = "KILLING_GROUP"
POINTS = "KILLING_POINTS"

# What Spark asked for is leased, and its write-ahead log does not know.
LEASED = "leased"
# The write-ahead log knows the batch, and no task has begun.
PLANNED = "planned"
# A task is in the middle of its range.
READING = "reading"
# A task has staged a part of its rows.
STAGING = "staging"
# All tasks have staged theirs, or written their files, and nothing has been committed.
STAGED = "staged"
# A lake's manifest has the batch, and its table has not.
DECIDED = "decided"
# The broker, or the lake, has committed the batch, and Spark has not.
COMMITTED = "committed"


def arm(directory: Path, point: str, passes: int = 0) -> None:
    directory.mkdir(exist_ok=True)
    (directory / point).write_text(str(passes))


def is_armed(directory: Path, point: str) -> bool:
    return (directory / point).exists()


def passing(point: str) -> None:
    """Die here, if that is armed."""
    file = Path(os.environ[POINTS]) / point
    try:
        passes = int(file.read_text() or "0")
    except FileNotFoundError:
        return
    if passes:
        file.write_text(str(passes - 1))
        return
    file.unlink(missing_ok=True)
    os.killpg(int(os.environ[GROUP]), signal.SIGKILL)
    # Its workers have groups of their own.
    os.kill(os.getpid(), signal.SIGKILL)


class DyingSource(FlintMQDataSource):
    @classmethod
    def name(cls) -> str:
        return "dying"

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        return DyingReader(stream_read_options(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 - Spark's name
        return DyingWriter(write_options(self.options), schema)


class DyingReader(StreamReader):
    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        end = super().latestOffset(start, limit)
        if end != start:
            passing(LEASED)
        return end

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        found = super().partitions(start, end)
        passing(PLANNED)
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for batch in super().read(partition):
            yield batch
            passing(READING)


class DyingWriter(StreamWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return super().write(_dying(iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        passing(STAGED)
        super().commit(messages, batchId)
        passing(COMMITTED)


class DyingLakeSource(LakeDataSource):
    @classmethod
    def name(cls) -> str:
        return "dying_lake"

    def streamWriter(self, schema: StructType, overwrite: bool) -> LakeStreamWriter:  # noqa: N802 - Spark's name
        return DyingLakeWriter(lake_write_options(self.options), schema)


class DyingLakeWriter(LakeStreamWriter):
    def __init__(self, options: LakeWriteOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._lake._manifest = DyingManifest(options.place.root)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return super().write(_dying(iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        passing(STAGED)
        super().commit(messages, batchId)
        passing(COMMITTED)


class DyingManifest(Manifest):
    def decide(self, batch: Batch) -> Batch:
        decided = super().decide(batch)
        passing(DECIDED)
        return decided


def _dying(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Cut small, so that some of a task's rows are staged when it dies."""
    for batch in batches:
        half = batch.num_rows // 2
        yield batch.slice(0, half)
        yield batch.slice(half)
        passing(STAGING)
