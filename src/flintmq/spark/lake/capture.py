"""Queues to the lake: a query that reads one, decodes bodies, and adds files in windows of a size or a time."""

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
    """A batch is made when so many messages are there, or so long after the first of them came: what is first."""

    messages: int = 500_000
    seconds: int = 60

    def options(self) -> dict[str, str]:
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
    """Start to capture: `source` are options of format("flintmq"), `lake` those of format("flintmq_lake").

    All columns there are of a message are captured, from its queue's oldest message on, unless `source` says
    otherwise. With `available_now`, what is there is captured, and the query ends. Raises ConfigurationError, and what
    Spark raises.
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
    said = {option.lower() for option in source}
    found = {}
    if said.isdisjoint({"columns", "includeproperties", "includeheaders"}):
        left_out = {GENERATION} - _columns(spark, lake)
        found["columns"] = ",".join(name for name in READABLE if name not in left_out)
    if said.isdisjoint({"startingoffsets", "startingoffsetsbytimestamp"}):
        found["startingOffsets"] = "earliest"
    return found


def _columns(spark: SparkSession, lake: Mapping[str, str]) -> set[str]:
    """Those of the lake, which keeps them: earlier versions knew fewer columns. A lake that is to be made has all."""
    names = {name.lower() for name in READ_NAMES}
    options = {name: value for name, value in lake.items() if name.lower() in names}
    try:
        return set(spark.read.format(LAKE).options(**options).load().columns)
    except PySparkException:
        return set(READABLE)
