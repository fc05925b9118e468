"""Dead letters in a lake: columns with the reasons, a summary, and the redrive of a selection."""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from flintmq.base.errors import ConfigurationError
from flintmq.spark.columns import HEADERS, HEADERS_TYPED
from flintmq.spark.lake.bodies import Body
from flintmq.spark.lake.capture import Window, capture
from flintmq.spark.lake.replay import replay

# The header with the history of a dead letter: one entry for each pair of queue and reason, the latest first.
_DEATHS: Final = "x-death"
_DEATH: Final = StructType(
    [
        StructField("reason", StringType()),
        StructField("queue", StringType()),
        StructField("exchange", StringType()),
        StructField("routing-keys", ArrayType(StringType())),
        StructField("count", LongType()),
        StructField("time", LongType()),
    ]
)
DEATH_COLUMNS: Final = (
    "death_reason",
    "death_queue",
    "death_exchange",
    "death_routing_key",
    "death_count",
    "death_time",
    "deaths",
)
# Headers of brokers about deaths and deliveries. A redriven message does not keep them.
_HISTORY: Final = (
    _DEATHS,
    "x-first-death-reason",
    "x-first-death-queue",
    "x-first-death-exchange",
    "x-last-death-reason",
    "x-last-death-queue",
    "x-last-death-exchange",
    "x-delivery-count",
    "x-acquired-count",
)
# Headers with further addresses. A message that returns to one queue does not keep them, because the others had it.
_FURTHER: Final = ("CC", "BCC")


def with_deaths(frame: DataFrame) -> DataFrame:
    """Add DEATH_COLUMNS: those of the latest death, and `deaths` with all of them.

    Raises ConfigurationError if the data has no column headers.
    """
    if HEADERS not in frame.columns:
        raise ConfigurationError(
            f"the data has no column {HEADERS}, which has the reasons of dead letters: read it, too"
        )
    found = F.from_json(F.col(HEADERS)[_DEATHS], ArrayType(_DEATH))
    deaths = F.transform(found, _death)
    latest = F.get(deaths, F.lit(0))
    columns = {
        "death_reason": latest["reason"],
        "death_queue": latest["queue"],
        "death_exchange": latest["exchange"],
        "death_routing_key": F.get(latest["routing_keys"], F.lit(0)),
        "death_count": latest["count"],
        "death_time": latest["time"],
        "deaths": deaths,
    }
    return frame.withColumns(columns)


def _death(entry: Column) -> Column:
    return F.struct(
        entry["reason"].alias("reason"),
        entry["queue"].alias("queue"),
        entry["exchange"].alias("exchange"),
        entry["routing-keys"].alias("routing_keys"),
        entry["count"].alias("count"),
        F.timestamp_seconds(entry["time"]).alias("time"),
    )


def capture_dead_letters(
    spark: SparkSession,
    source: Mapping[str, str],
    lake: Mapping[str, str],
    *,
    checkpoint: str,
    body: Body | None = None,
    window: Window | None = None,
    available_now: bool = False,
    name: str | None = None,
) -> StreamingQuery:
    """Start to capture a queue of dead letters, with DEATH_COLUMNS, and return the running query.

    The lake is partitioned by day and reason unless `lake` has the option partitionBy. The parameters are those of
    `capture`. Raises ConfigurationError and errors of Spark.
    """
    options = {"partitionBy": "day,death_reason", **lake}
    return capture(
        spark,
        source,
        options,
        checkpoint=checkpoint,
        body=body,
        window=window,
        transform=with_deaths,
        available_now=available_now,
        name=name,
    )


def summary(frame: DataFrame) -> DataFrame:
    """Count dead letters: a row for each reason, queue and address, the most frequent first."""
    counted = (
        _known(frame)
        .groupBy("death_reason", "death_queue", "death_exchange", "death_routing_key")
        .agg(
            F.count(F.lit(1)).alias("letters"),
            F.max("death_count").alias("most_times"),
            F.min("death_time").alias("first"),
            F.max("death_time").alias("last"),
        )
    )
    return counted.orderBy(F.desc("letters"), "death_reason", "death_queue", "death_exchange", "death_routing_key")


def redrive(
    spark: SparkSession,
    lake: Mapping[str, str],
    target: Mapping[str, str],
    *,
    checkpoint: str,
    where: str,
    to_exchange: bool = False,
    name: str | None = None,
) -> StreamingQuery:
    """Publish a selection of a lake's dead letters again, and return the running query.

    Each message goes to the queue where it died, and to no other. With `to_exchange`, it goes to its original exchange
    with its original routing key, and so to all queues that are bound now. `where` is SQL over all columns, including
    DEATH_COLUMNS. Messages without a history are not published. The other parameters are those of `replay`; each
    selection needs a checkpoint of its own. Raises ConfigurationError and errors of Spark.
    """
    if not where.strip():
        raise ConfigurationError("say which dead letters go back, in SQL, such as \"death_reason = 'rejected'\"")

    def back(frame: DataFrame) -> DataFrame:
        known = _known(frame).where("death_queue IS NOT NULL").where(where)
        if to_exchange:
            known = known.withColumns({"exchange": F.col("death_exchange"), "routing_key": F.col("death_routing_key")})
            return _without(known, _HISTORY)
        known = known.withColumns({"exchange": F.lit(""), "routing_key": F.col("death_queue")})
        return _without(known, (*_HISTORY, *_FURTHER))

    return replay(spark, lake, target, checkpoint=checkpoint, transform=back, name=name)


def _known(frame: DataFrame) -> DataFrame:
    return frame if set(DEATH_COLUMNS) <= set(frame.columns) else with_deaths(frame)


def _without(frame: DataFrame, headers: tuple[str, ...]) -> DataFrame:
    for column in (HEADERS, HEADERS_TYPED):
        if column in frame.columns:
            kept = F.map_filter(F.col(column), lambda key, _: ~key.isin(*headers))
            frame = frame.withColumn(column, kept)
    return frame
