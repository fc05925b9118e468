"""Files and batches of a lake, as its manifest has them."""

from dataclasses import dataclass, field
from typing import Final

# Spark's and Hive's text for null in the name of a partition directory.
NULL_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class DataFile:
    """A Parquet file with rows of one queue (if rows have that column) and one value of each partition column.

    `path` is relative to the lake. The bounds are the lowest and the highest values of the columns offset and
    timestamp, the latter in microseconds since 1970. `generation` is the highest value of that column. A field is None
    if rows do not have the column.
    """

    path: str
    rows: int
    size_bytes: int
    partition: dict[str, str | None] = field(default_factory=dict)
    queue: str | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    first_timestamp_us: int | None = None
    last_timestamp_us: int | None = None
    generation: int | None = None

    def order(self) -> tuple[int, str, int, str]:
        """The sort key of files: older messages first, and messages of a queue in their order."""
        return self.first_timestamp_us or 0, self.queue or "", self.first_offset or 0, self.path


@dataclass(frozen=True)
class Batch:
    """The files that one micro-batch, or one batch query, adds to a lake: all of them or none.

    With `goes_on`, the query repeats a failed batch, and its later batches have higher numbers.
    """

    query: str
    number: int
    files: tuple[DataFile, ...]
    goes_on: bool = False
