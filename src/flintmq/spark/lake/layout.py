"""The layout of a lake's rows: columns of the data, and partition columns that are computed from a timestamp."""

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from flintmq.base.errors import ConfigurationError

_OF_TIME: Final[dict[str, tuple[DataType, Callable[[pa.Array], pa.Array]]]] = {
    "year": (IntegerType(), lambda time: pc.year(time).cast(pa.int32())),
    "month": (StringType(), lambda time: pc.strftime(time, "%Y-%m")),
    "day": (DateType(), lambda time: time.cast(pa.date32())),
    "hour": (IntegerType(), lambda time: pc.hour(time).cast(pa.int32())),
}
_PARTITION_TYPES: Final = (BooleanType, ByteType, DateType, IntegerType, LongType, ShortType, StringType)


class Layout:
    """The schema of a lake, for Spark and for Arrow, and the conversion of rows to it."""

    def __init__(self, schema: StructType, partition_by: tuple[str, ...], time_column: str) -> None:
        """Raises ConfigurationError for a partition column that does not exist or has an unsuitable type."""
        self.partition_by = partition_by
        self._time_column = time_column
        self._made = [name for name in partition_by if name not in schema.names]
        for name in self._made:
            self._check_made(name, schema)
        made = [StructField(name, _OF_TIME[name][0]) for name in self._made]
        # All columns of a lake are nullable, because later data may have nulls.
        came = [StructField(field.name, field.dataType) for field in schema.fields]
        self.schema = StructType([*came, *made])
        for name in partition_by:
            kind = self.schema[name].dataType
            if not isinstance(kind, _PARTITION_TYPES):
                raise ConfigurationError(
                    f"the column {name} is {kind.simpleString()}, by which a lake cannot be partitioned: cast it to "
                    "a string, a date or an integer"
                )
        if len(partition_by) == len(self.schema.names):
            raise ConfigurationError("a lake needs a column that it is not partitioned by")
        self.arrow: pa.Schema = to_arrow_schema(self.schema, timezone="UTC")

    def _check_made(self, name: str, schema: StructType) -> None:
        if name not in _OF_TIME:
            raise ConfigurationError(
                f"there is no column {name} to partition by: the data has {', '.join(schema.names)}, and "
                f"{', '.join(_OF_TIME)} are computed from its time"
            )
        time = self._time_column
        if time not in schema.names or not isinstance(schema[time].dataType, TimestampType):
            raise ConfigurationError(
                f"{name} is computed from the column {time}, which the data does not have as a timestamp: name another "
                "one with the option timeColumn"
            )

    def kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows with their partition columns, cast to the types of the lake."""
        columns = [
            batch.column(place).cast(field.type)
            for place, field in zip(range(batch.num_columns), self.arrow, strict=False)
        ]
        if self._made:
            time = columns[self.arrow.get_field_index(self._time_column)]
            columns += [_OF_TIME[name][1](time).cast(self.arrow.field(name).type) for name in self._made]
        return pa.RecordBatch.from_arrays(columns, schema=self.arrow)


def partition_text(value: object) -> str | None:
    """The text of a partition column's value in Delta's log and in Hive's directories."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
