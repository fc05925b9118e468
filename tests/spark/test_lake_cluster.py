"""A queue to the lake and back on a cluster, whose executors share a file system with the driver and nothing else."""

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from flintmq.spark.lake.capture import capture
from flintmq.spark.lake.replay import replay
from tests.spark.conftest import PATIENCE_SECONDS, Queues
from tests.spark.lakes import parquet_files, rows


def test_there_and_back(cluster: SparkSession, queues: Queues, tmp_path: Path) -> None:
    """An ordinary queue is in a Delta table, and from there on another queue: each message once, though a task dies in
    the middle and runs again elsewhere, after a shuffle.
    """
    source = f"{queues.stream()}.ordinary"
    queues.channel.declare_queue(source)
    queues.add(source, *[b"%d" % number for number in range(3000)])
    lake = {"path": str(tmp_path / "lake"), "lakeFormat": "delta"}
    marker = str(tmp_path / "died")

    def die_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            try:
                os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            os._exit(1)

    def spread(frame: DataFrame) -> DataFrame:
        return frame.repartition(3).mapInArrow(die_once, frame.schema)

    options = {"urlEnv": "BROKER_URL", "queue": source, "consumerName": "lake", "maxMessagesPerTrigger": "2000"}
    query = capture(
        cluster, options, lake, checkpoint=str(tmp_path / "capturing"), transform=spread, available_now=True
    )
    assert query.awaitTermination(PATIENCE_SECONDS)
    assert Path(marker).exists()
    expected = [(b"%d" % number,) for number in sorted(range(3000), key=str)]
    assert rows(tmp_path / "lake", "delta", "body") == expected
    assert len(parquet_files(tmp_path / "lake")) == 6
    exchange = queues.exchange()
    queue = queues.bound(exchange)
    target = {"urlEnv": "BROKER_URL", "exchange": exchange}
    checkpoint = str(tmp_path / "replaying")
    for _ in range(2):
        query = replay(cluster, {**lake, "minPartitions": "3"}, target, checkpoint=checkpoint)
        assert query.awaitTermination(PATIENCE_SECONDS)
    assert sorted((message.body,) for message in queues.taken(queue)) == expected
