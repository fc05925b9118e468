"""The Spark side: one stream read by two queries, one into Parquet files, one into statistics that go back."""

import json
from contextlib import AbstractContextManager
from pathlib import Path

from dataset import LATE_MINUTES
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr
from pyspark.sql.streaming.query import StreamingQuery

from flintmq.spark.pipelines.session import session

# Small enough that a run takes several micro-batches, and that a stop comes in the middle.
MESSAGES_PER_TRIGGER = 50_000

STATISTICS = [
    "count(*) AS flights",
    "count_if(dep_time IS NULL) AS cancelled",
    "avg(dep_delay) AS departure_delay",
    "avg(arr_delay) AS arrival_delay",
    # A flight that never arrived is neither late nor on time: of null, avg takes no notice.
    f"avg(CAST(arr_delay > {LATE_MINUTES} AS INT)) AS late",
]


def spark_in(directory: Path) -> AbstractContextManager[SparkSession]:
    """Spark within this process and its children; what it writes, its log too, goes below `directory`."""
    scratch = directory / "scratch"
    scratch.mkdir()
    settings = {
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={scratch}",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
    }
    return session("flights", "local[2]", settings, directory / "spark.log")


class Pipeline:
    """`url_file` holds the broker's URL: in Spark's plans and checkpoints stands the file's name, and no password."""

    def __init__(self, spark: SparkSession, url_file: Path, directory: Path, schema: str) -> None:
        self.lake = directory / "lake"
        self._spark = spark
        self._url_file = str(url_file)
        self._checkpoints = directory / "checkpoints"
        self._schema = schema

    def _flights(self, queue: str) -> DataFrame:
        messages = (
            self._spark.readStream.format("flintmq")
            .option("urlFile", self._url_file)
            .option("queue", queue)
            .option("startingOffsets", "earliest")
            .option("includeProperties", "true")
            .option("maxMessagesPerTrigger", str(MESSAGES_PER_TRIGGER))
            .load()
        )
        parsed = f"from_json(CAST(body AS STRING), '{self._schema}') AS flight"
        return messages.selectExpr("offset", "message_id", parsed).select("offset", "message_id", "flight.*")

    def capture(self, queue: str) -> StreamingQuery:
        """Every event into the lake. Started again, it goes on from its checkpoint."""
        return (
            self._flights(queue)
            .writeStream.queryName("capture")
            .format("parquet")
            .option("path", str(self.lake))
            .option("checkpointLocation", str(self._checkpoints / "capture"))
            .trigger(processingTime="1 second")
            .start()
        )

    def statistics(self, queue: str, exchange: str) -> StreamingQuery:
        """Delays per carrier so far, published by every micro-batch: as JSON, with the carrier as routing key."""
        by_carrier = self._flights(queue).groupBy("carrier").agg(*map(expr, STATISTICS))
        return (
            by_carrier.selectExpr("carrier AS routing_key", "to_json(struct(*)) AS body")
            .writeStream.queryName("statistics")
            .format("flintmq")
            .option("urlFile", self._url_file)
            .option("exchange", exchange)
            .option("contentType", "application/json")
            .option("mandatory", "true")
            .option("checkpointLocation", str(self._checkpoints / "statistics"))
            .outputMode("complete")
            .trigger(processingTime="1 second")
            .start()
        )

    def captured(self) -> DataFrame:
        """What is in the lake."""
        return self._spark.read.parquet(str(self.lake))


def messages_read(query: StreamingQuery) -> int:
    """How far a query has come. Raises what ended it, if something did."""
    failure = query.exception()
    if failure is not None:
        # Its text is the JVM's, which ends before anybody reads it.
        raise RuntimeError(str(failure))
    progress = query.lastProgress
    end = json.loads(progress.sources[0].endOffset) if progress is not None else None
    return sum(end["offsets"].values()) if end else 0
