"""What every format of a lake can do."""

from abc import abstractmethod
from dataclasses import dataclass

from pyspark.sql.types import StructType

from flintmq.spark.lake.data_file import Batch
from flintmq.spark.lake.manifest import Description
from flintmq.spark.lake.partition_filter import PartitionFilter


@dataclass(frozen=True)
class StoredFile:
    """A file to read. `partition` has the values that are not in it, as texts. `staged` is where it is before it gets
    into its place, "" where there is no such place.
    """

    path: str
    rows: int
    partition: dict[str, str | None]
    staged: str = ""


@dataclass(frozen=True)
class Snapshot:
    """Files of one version, in the order in which messages are published again: that of their first ones."""

    version: str
    schema: StructType
    files: list[StoredFile]


class Table:
    def check(self, description: Description) -> None:
        """Raises ConfigurationError where others began a table that lacks what rows of this kind have."""

    @abstractmethod
    def create(self, description: Description) -> None:
        """Make the table unless it is there. Raises FlintError."""

    @abstractmethod
    def commit(self, batch: Batch) -> None:
        """Add the files of a batch, all at once, unless they were added before. Raises FlintError."""

    @abstractmethod
    def schema(self) -> StructType:
        """Of the latest version, without a look at its files where it is said elsewhere. Raises FlintError."""

    @abstractmethod
    def snapshot(self, version: str | None, wanted: PartitionFilter) -> Snapshot:
        """The version, or the latest for None, with the files that are wanted; no other one is opened.

        Raises FlintError if the version is not there, and ConfigurationError if the filter is not for this table.
        """
