"""The main road on a cluster: readers and writers travel to executors that share nothing with the driver.

In the options stands nothing but a variable's name: driver and executors look up the URL for themselves.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from tests.spark.conftest import PATIENCE_SECONDS, Queues


def numbers(start: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, end)]


def test_read_in_parallel(cluster: SparkSession, queues: Queues) -> None:
    """Executors read ranges of one stream side by side, and miss nothing."""
    queue = queues.stream(*numbers(0, 5000))
    frame = cluster.read.format("flintmq").options(urlEnv="BROKER_URL", queue=queue, minPartitions="4").load()
    rows = frame.selectExpr("offset", "cast(body AS string) AS body", "spark_partition_id() AS part").collect()
    assert sorted((row.offset, row.body) for row in rows) == [(number, str(number)) for number in range(5000)]
    assert {row.part for row in rows} == {0, 1, 2, 3}


def test_a_task_that_runs_again(cluster: SparkSession, queues: Queues, tmp_path: Path) -> None:
    """An executor's Python that dies in the middle of its range costs a retry, and no message comes twice."""
    queue = queues.stream(*numbers(0, 1000))
    marker = str(tmp_path / "died")

    def die_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            try:
                os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            os._exit(1)

    frame = (
        cluster.read.format("flintmq")
        .options(urlEnv="BROKER_URL", queue=queue, minPartitions="2", fetchBytes="2000")
        .schema("offset long")
        .load()
    )
    rows = frame.mapInArrow(die_once, "offset long").collect()
    assert Path(marker).exists()
    assert sorted(row.offset for row in rows) == list(range(1000))


def test_round_trip(cluster: SparkSession, queues: Queues, tmp_path: Path) -> None:
    """Stream, transform with a shuffle, sink; twice, from one checkpoint."""
    source = queues.stream()
    exchange = queues.exchange()
    queue = queues.bound(exchange)
    for start, end in ((0, 1000), (1000, 1200)):
        queues.add(source, *numbers(start, end))
        stream = cluster.readStream.format("flintmq")
        frame = stream.options(urlEnv="BROKER_URL", queue=source, startingOffsets="earliest", minPartitions="2").load()
        query = (
            frame.select("body")
            .repartition(3)
            .writeStream.format("flintmq")
            .options(urlEnv="BROKER_URL", exchange=exchange, checkpointLocation=str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(PATIENCE_SECONDS)
    assert sorted(int(message.body) for message in queues.taken(queue)) == list(range(1200))
