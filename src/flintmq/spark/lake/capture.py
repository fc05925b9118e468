"""Capture a queue to a lake: a streaming query reads it, decodes bodies, and adds files batch by batch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from flintmq.base.errors import ConfigurationError
from flintmq.spark.columns import GENERATION, READABLE
from flintmq.spark.lake.bodies import Body, decode_bodies
from flintmq.spark.lake.options import READ_NAMES

LAKE: Final = "flintmq_lake"
Transform = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True)
class Window:
    """The trigger of a batch: it has `messages` messages, or `seconds` have passed since its first message came."""

    messages: int = 500_000
    seconds: int = 60

    def options(self) -> dict[str, str]:
        """The window as options of format("flintmq"). Raises ConfigurationError."""
        if self.messages < 1 or self.seconds < 1:
            raise ConfigurationError("a window has at least one message and one second")
        return {
            "minMessagesPerTrigger": str(self.messages),
            "maxMessagesPerTrigger": str(self.messages),
            "maxTriggerDelay": f"{self.seconds}s",
        }


def capture(
    spark: SparkSession,
    source: Mapping[str, str],
    lake: Mapping[str, str],
    *,
    checkpoint: str,
    body: Body | None = None,
    window: Window | None = None,
    transform: Transform | None = None,
    available_now: bool = False,
    name: str | None = None,
) -> StreamingQuery:
    """Start to capture a queue to a lake, and return the running query.

    `source` are options of format("flintmq"), and `lake` options of format("flintmq_lake"). Unless `source` has other
    options, the query captures all columns of messages, from the oldest message of the queue on. `checkpoint` is the
    directory of the query's progress. `body` decodes bodies, and `transform` changes the decoded data frame. With
    `available_now`, the query captures the messages that exist, and ends; if not, `window` limits its batches. `name`
    is the name of the query. Raises ConfigurationError and errors of Spark.
    """
    options = {
        **_defaults(spark, source, lake),
        **((window or Window()).options() if not available_now else {}),
        **source,
    }
    frame = decode_bodies(spark.readStream.format("flintmq").options(**options).load(), body or Body())
    if transform is not None:
        frame = transform(frame)
    writer = frame.writeStream.format(LAKE).options(**lake).option("checkpointLocation", checkpoint)
    if name is not None:
        writer = writer.queryName(name)
    return (writer.trigger(availableNow=True) if available_now else writer).start()


def _defaults(spark: SparkSession, source: Mapping[str, str], lake: Mapping[str, str]) -> dict[str, str]:
    given = {option.lower() for option in source}
    found = {}
    if given.isdisjoint({"columns", "includeproperties", "includeheaders"}):
        left_out = {GENERATION} - _columns(spark, lake)
        found["columns"] = ",".join(name for name in READABLE if name not in left_out)
    if given.isdisjoint({"startingoffsets", "startingoffsetsbytimestamp"}):
        found["startingOffsets"] = "earliest"
    return found


def _columns(spark: SparkSession, lake: Mapping[str, str]) -> set[str]:
    """The columns of the lake, which never change; earlier versions had fewer. All columns if there is no lake yet."""
    names = {name.lower() for name in READ_NAMES}
    options = {name: value for name, value in lake.items() if name.lower() in names}
    try:
        return set(spark.read.format(LAKE).options(**options).load().columns)
    except PySparkException:
        return set(READABLE)
