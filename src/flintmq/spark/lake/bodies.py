"""Bodies as columns: what JSON, Avro or text says, and what becomes of a body that says something else."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import DataType, StructType

from flintmq.base.errors import ConfigurationError
from flintmq.spark.lake.json_bodies import decoded_json
from flintmq.spark.pipelines.definition import check_schema_ids

VALUE: Final = "value"
MISMATCH: Final = "mismatch"
_UNFIT: Final = "_unfit"


class Kind(StrEnum):
    BINARY = "binary"
    TEXT = "text"
    JSON = "json"
    AVRO = "avro"


class OnMismatch(StrEnum):
    """FAIL: the query fails, and says which message it was. QUARANTINE: a column says why, and the body stays."""

    FAIL = "fail"
    QUARANTINE = "quarantine"


class Framing(StrEnum):
    """What stands before a body in Avro: nothing, its schema's fingerprint, or the id that a Confluent registry gave
    its schema.
    """

    NONE = "none"
    SINGLE_OBJECT = "single-object"
    CONFLUENT = "confluent"


@dataclass(frozen=True)
class Body:
    """`schema` is Spark's for JSON ("id BIGINT NOT NULL, name STRING"), and the JSON text of Avro's for Avro.

    With the framing CONFLUENT, `schema_id` is the id of `schema`, and `writers` has schemas of other ids: what was
    written by one of these is read as `schema`, as far as Avro's rules allow it. Bodies of other ids do not fit.

    With `keep`, the column body stays as it came: what is published again is the same, byte by byte.
    """

    kind: Kind = Kind.BINARY
    schema: str = ""
    on_mismatch: OnMismatch = OnMismatch.FAIL
    keep: bool = True
    framing: Framing = Framing.NONE
    schema_id: int | None = None
    writers: Mapping[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_schema_ids(self.framing, self.schema_id, self.writers)

    @property
    def by_id(self) -> dict[int, str]:
        """The schema that each known id stands for."""
        return {**({} if self.schema_id is None else {self.schema_id: self.schema}), **self.writers}


def decode_bodies(frame: DataFrame, body: Body) -> DataFrame:
    """Add the column value, and with QUARANTINE the column mismatch: null where the body fits.

    Raises ConfigurationError. A body that does not fit fails the query when it is read.
    """
    if body.kind is Kind.BINARY:
        return frame
    for name in (VALUE, MISMATCH):
        if name in frame.columns:
            raise ConfigurationError(f"the data has a column {name} already, which decoding adds: rename it")
    if "body" not in frame.columns:
        raise ConfigurationError("the data has no column body to decode")
    decoded = frame.withColumn(_UNFIT, _decoded(body))
    value, reason = F.col(f"{_UNFIT}.value"), F.col(f"{_UNFIT}.mismatch")
    if body.on_mismatch is OnMismatch.FAIL:
        decoded = decoded.withColumn(
            VALUE, F.when(reason.isNull(), value).otherwise(F.raise_error(_said(frame, reason)))
        )
    else:
        decoded = decoded.withColumn(VALUE, value).withColumn(MISMATCH, reason)
    if not body.keep:
        decoded = decoded.withColumn("body", F.when(reason.isNotNull(), F.col("body")))
    return decoded.drop(_UNFIT)


def _decoded(body: Body) -> Column:
    """A struct of the value and, where there is none, why not."""
    if body.kind is Kind.AVRO:
        from flintmq.spark.lake.avro import decoded_avro  # noqa: PLC0415 - needs a library that others do not

        return decoded_avro(body.schema, body.framing, body.by_id)
    text = F.try_validate_utf8(F.col("body").cast("string"))
    if body.kind is Kind.TEXT:
        return F.struct(text.alias("value"), F.when(text.isNull(), F.lit("it is not UTF-8")).alias("mismatch"))
    return decoded_json(text, _fields(body.schema))


def _fields(schema: str) -> StructType:
    if not schema.strip():
        raise ConfigurationError("bodies in JSON need a schema, like 'id BIGINT NOT NULL, name STRING'")
    try:
        found: DataType = DataType.fromDDL(schema)
    except PySparkException as error:
        said = str(error).strip().partition("\n")[0]
        raise ConfigurationError(f"the schema {schema!r} of bodies in JSON is not understood: {said}") from error
    if not isinstance(found, StructType):
        raise ConfigurationError(f"the schema {schema!r} of bodies in JSON has no fields: say 'name TYPE, ...'")
    return found


def _said(frame: DataFrame, reason: Column) -> Column:
    where = [F.lit("a message")]
    if "offset" in frame.columns:
        where = [F.lit("the message at offset "), F.col("offset").cast("string")]
    if "queue" in frame.columns:
        where += [F.lit(" of queue '"), F.col("queue"), F.lit("'")]
    return F.concat(
        *where,
        F.lit(" does not fit: "),
        reason,
        F.lit(
            ". To go on, and keep such bodies beside the others with the reason, say quarantine for what does not fit"
        ),
    )
