"""A file of a lake, as its manifest keeps it."""

from dataclasses import dataclass, field
from typing import Final

# Spark's and Hive's way to say null in the name of a directory.
NULL_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class DataFile:
    """A Parquet file with rows of one queue (if rows have one) and one value of each partition column.

    `path` is below the lake's own; times are microseconds since 1970, as the column `timestamp` has them. First and
    last are the lowest and highest, and `generation` is the highest value of that column. What rows do not have is
    None.
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
        """Older messages come first; within a queue, in its order."""
        return self.first_timestamp_us or 0, self.queue or "", self.first_offset or 0, self.path


@dataclass(frozen=True)
class Batch:
    """What one micro-batch of a query (or one whole batch query) adds to a lake, all of it or nothing.

    With `goes_on`, there will be others of this query, with higher numbers.
    """

    query: str
    number: int
    files: tuple[DataFile, ...]
    goes_on: bool = False
