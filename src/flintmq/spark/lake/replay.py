"""Replay of a lake: its rows are published to an exchange again, in micro-batches, each of them exactly once."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.streaming.query import StreamingQuery

from flintmq.base.errors import ConfigurationError
from flintmq.spark.columns import HEADERS, HEADERS_TYPED, PROPERTIES
from flintmq.spark.lake.capture import LAKE, Transform

# Properties that a replay does not publish: a broker accepts a user_id only from that user.
_LEFT_OUT: Final = frozenset({"user_id"})
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
    """Publish a lake's messages again, and return the running query.

    `lake` are options of format("flintmq_lake"), and `target` options of format("flintmq"). Messages keep their
    exchange and routing key unless `target` has others. `where` and `body` are SQL: a condition on rows, and an
    expression for bodies instead of the column body. `transform` changes the data frame of rows, and `name` is the name
    of the query. The query ends when all messages are published. If it is started again with the same `checkpoint`, it
    continues. Raises ConfigurationError and errors of Spark.
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
    """The columns of rows that become messages. Raises ConfigurationError if there is no body or no exchange."""
    given = {option.lower() for option in target}
    if body:
        frame = frame.withColumn("body", F.expr(body))
    elif "body" not in frame.columns:
        raise ConfigurationError(
            f"the lake has no column body, which messages need: give an SQL expression for the body. The columns are "
            f"{', '.join(frame.columns)}"
        )
    if "exchange" not in given and "exchange" not in frame.columns:
        raise ConfigurationError("the lake has no column exchange: say where to publish, by the target's options")
    # An option of the target overrides the column for all rows.
    address = [
        name for name, option in (("exchange", "exchange"), ("routing_key", "routingkey")) if option not in given
    ]
    headers = HEADERS_TYPED if HEADERS_TYPED in frame.columns else HEADERS
    wanted = ["body", *address, *(column for column in PROPERTIES if column not in _LEFT_OUT), headers]
    return frame.select(*[column for column in wanted if column in frame.columns])


def _once(target: Mapping[str, str], checkpoint: str) -> dict[str, str]:
    """Options for exactly once, unless `target` has another mode. The checkpoint determines the transactional id."""
    options = dict(target)
    given = {option.lower(): value for option, value in target.items()}
    if "deliverymode" not in given:
        options["deliveryMode"] = EXACTLY_ONCE
    if given.get("deliverymode", EXACTLY_ONCE).lower() == EXACTLY_ONCE and "transactionalid" not in given:
        options["transactionalId"] = f"replay.{sha256(checkpoint.encode()).hexdigest()[:32]}"
    return options
