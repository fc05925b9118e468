"""The interface of a table in any format."""

from abc import abstractmethod
from dataclasses import dataclass

from pyspark.sql.types import StructType

from flintmq.spark.lake.data_file import Batch
from flintmq.spark.lake.manifest import Description
from flintmq.spark.lake.partition_filter import PartitionFilter


@dataclass(frozen=True)
class StoredFile:
    """A file to read.

    `partition` has, as texts, the values of partition columns that are not in the file. `staged` is its path before a
    commit moves it to `path`; "" if the format does not move files.
    """

    path: str
    rows: int
    partition: dict[str, str | None]
    staged: str = ""


@dataclass(frozen=True)
class Snapshot:
    """The selected files of one version, in the order of their first messages, in which a replay publishes them."""

    version: str
    schema: StructType
    files: list[StoredFile]


class Table:
    """The table of one lake. All methods raise FlintError."""

    def check(self, description: Description) -> None:
        """Raises ConfigurationError if another program created the table, and rows of this layout do not fit it."""

    @abstractmethod
    def create(self, description: Description) -> None:
        """Create the table unless it exists."""

    @abstractmethod
    def commit(self, batch: Batch) -> None:
        """Add the files of a batch, all at once, unless they were added before."""

    @abstractmethod
    def schema(self) -> StructType:
        """The schema of the latest version; files are opened only if nothing else has it."""

    @abstractmethod
    def snapshot(self, version: str | None, wanted: PartitionFilter) -> Snapshot:
        """A version, or the latest one for None, with the files that `wanted` selects; no others are opened.

        Raises FlintError if the version no longer exists, and ConfigurationError if the filter does not fit the table.
        """
