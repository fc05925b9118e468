"""Tables of files: what a batch's commit is, and which files a version has, in each format."""

from flintmq.spark.lake.formats.table import Snapshot, StoredFile, Table
from flintmq.spark.lake.options import LakeFormat, LakeLocation

__all__ = ["Snapshot", "StoredFile", "Table", "open_table"]


def open_table(place: LakeLocation, format: LakeFormat) -> Table:
    """Libraries are imported by those who use them only. Raises ConfigurationError."""
    if format is LakeFormat.DELTA:
        from flintmq.spark.lake.formats.delta import DeltaLake

        return DeltaLake(place)
    if format is LakeFormat.ICEBERG:
        from flintmq.spark.lake.formats.iceberg import IcebergLake

        return IcebergLake(place)
    from flintmq.spark.lake.formats.plain import ParquetLake

    return ParquetLake(place)
