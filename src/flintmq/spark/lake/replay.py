"""The lake back to an exchange: rows become messages again, in micro-batches, each published exactly once."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.streaming.query import StreamingQuery

from flintmq.base.errors import ConfigurationError
from flintmq.spark.columns import HEADERS, HEADERS_TYPED, PROPERTIES
from flintmq.spark.lake.capture import LAKE, Transform

# Of a message's properties, what is not said again: a broker takes a user_id from that user only.
_NOT_AGAIN: Final = frozenset({"user_id"})
EXACTLY_ONCE: Final = "exactly-once"


def replay(
    spark: SparkSession,
    lake: Mapping[str, str],
    target: Mapping[str, str],
    *,
    checkpoint: str,
    where: str = "",
    body: str = "",
    transform: Transform | None = None,
    name: str | None = None,
) -> StreamingQuery:
    """Publish a lake's messages again: `lake` are options of format("flintmq_lake"), `target` those of
    format("flintmq").

    They go where they went the first time, unless `target` has another exchange or routing key. `where` and `body` are
    SQL: which rows, and what a message's body is, if not the column body. The query ends when all are published, and
    one that is started again with the same checkpoint goes on. Raises ConfigurationError, and what Spark raises.
    """
    frame = spark.readStream.format(LAKE).options(**lake).load()
    if where:
        frame = frame.where(where)
    if transform is not None:
        frame = transform(frame)
    writer = messages(frame, target, body).writeStream.format("flintmq").options(**_once(target, checkpoint))
    if name is not None:
        writer = writer.queryName(name)
    return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()


def messages(frame: DataFrame, target: Mapping[str, str], body: str = "") -> DataFrame:
    """The columns of which messages are made. Raises ConfigurationError where there is no body, and no address."""
    said = {option.lower() for option in target}
    if body:
        frame = frame.withColumn("body", F.expr(body))
    elif "body" not in frame.columns:
        raise ConfigurationError(
            f"the lake has no column body, which messages are made of: say what their body is, in SQL. It has "
            f"{', '.join(frame.columns)}"
        )
    if "exchange" not in said and "exchange" not in frame.columns:
        raise ConfigurationError("the lake has no column exchange: say where to publish, by the target's options")
    # What the target says for all is not for a row to say.
    address = [name for name, option in (("exchange", "exchange"), ("routing_key", "routingkey")) if option not in said]
    headers = HEADERS_TYPED if HEADERS_TYPED in frame.columns else HEADERS
    wanted = ["body", *address, *(column for column in PROPERTIES if column not in _NOT_AGAIN), headers]
    return frame.select(*[column for column in wanted if column in frame.columns])


def _once(target: Mapping[str, str], checkpoint: str) -> dict[str, str]:
    """Exactly once, unless another mode is asked for; whoever has the checkpoint is the one writer of these
    messages.
    """
    options = dict(target)
    said = {option.lower(): value for option, value in target.items()}
    if "deliverymode" not in said:
        options["deliveryMode"] = EXACTLY_ONCE
    if said.get("deliverymode", EXACTLY_ONCE).lower() == EXACTLY_ONCE and "transactionalid" not in said:
        options["transactionalId"] = f"replay.{sha256(checkpoint.encode()).hexdigest()[:32]}"
    return options
