"""Decode bodies in JSON, Avro or text into columns, and handle bodies that do not match."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import DataType, StructType

from flintmq.base.errors import ConfigurationError
from flintmq.spark.lake.json_bodies import decoded_json
from flintmq.spark.pipelines.definition import check_schema_ids

VALUE: Final = "value"
MISMATCH: Final = "mismatch"
_DECODED: Final = "_unfit"


class Kind(StrEnum):
    """The format of bodies."""

    BINARY = "binary"
    TEXT = "text"
    JSON = "json"
    AVRO = "avro"


class OnMismatch(StrEnum):
    """The handling of a body that does not match.

    FAIL: the query fails and names the message. QUARANTINE: the column mismatch has the reason, and the body stays.
    """

    FAIL = "fail"
    QUARANTINE = "quarantine"


class Framing(StrEnum):
    """The prefix of a body in Avro: none, the fingerprint of its schema, or its schema's id in a Confluent registry."""

    NONE = "none"
    SINGLE_OBJECT = "single-object"
    CONFLUENT = "confluent"


@dataclass(frozen=True)
class Body:
    """How bodies are decoded.

    `schema` is a schema of Spark for JSON ("id BIGINT NOT NULL, name STRING"), and the JSON text of a schema for Avro.

    With the framing CONFLUENT, `schema_id` is the id of `schema`, and `writers` has the schemas of other ids. Bodies of
    these are read as `schema` by Avro's rules of schema resolution. Bodies of unknown ids do not match.

    With `keep`, the column body keeps its bytes, so that a replay publishes the same body.
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
        """The schema of each known id."""
        return {**({} if self.schema_id is None else {self.schema_id: self.schema}), **self.writers}


def decode_bodies(frame: DataFrame, body: Body) -> DataFrame:
    """Add the column value, and with QUARANTINE the column mismatch, which is null if the body matches.

    Raises ConfigurationError for a wrong schema, or if the data has such columns already. With FAIL, a body that does
    not match fails the query when it is read.
    """
    if body.kind is Kind.BINARY:
        return frame
    for name in (VALUE, MISMATCH):
        if name in frame.columns:
            raise ConfigurationError(f"the data has a column {name} already, which decoding adds: rename it")
    if "body" not in frame.columns:
        raise ConfigurationError("the data has no column body to decode")
    decoded = frame.withColumn(_DECODED, _decoded(body))
    value, reason = F.col(f"{_DECODED}.value"), F.col(f"{_DECODED}.mismatch")
    if body.on_mismatch is OnMismatch.FAIL:
        decoded = decoded.withColumn(
            VALUE, F.when(reason.isNull(), value).otherwise(F.raise_error(_error_text(frame, reason)))
        )
    else:
        decoded = decoded.withColumn(VALUE, value).withColumn(MISMATCH, reason)
    if not body.keep:
        decoded = decoded.withColumn("body", F.when(reason.isNotNull(), F.col("body")))
    return decoded.drop(_DECODED)


def _decoded(body: Body) -> Column:
    """A struct column with the decoded value and the mismatch: the reason if a body cannot be decoded, else null."""
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
        raise ConfigurationError(f"the schema {schema!r} of bodies in JSON has no fields: write 'name TYPE, ...'")
    return found


def _error_text(frame: DataFrame, reason: Column) -> Column:
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
            ". To continue, and keep such bodies together with the reason, choose quarantine for bodies that do not fit"
        ),
    )
