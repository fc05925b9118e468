"""The table formats of lakes: how a batch is committed, and which files a version has."""

from flintmq.spark.lake.formats.table import Snapshot, StoredFile, Table
from flintmq.spark.lake.options import LakeFormat, LakeLocation

__all__ = ["Snapshot", "StoredFile", "Table", "open_table"]


def open_table(place: LakeLocation, format: LakeFormat) -> Table:
    """The table of a lake. Only the library of its format is imported. Raises ConfigurationError."""
    if format is LakeFormat.DELTA:
        from flintmq.spark.lake.formats.delta import DeltaLake

        return DeltaLake(place)
    if format is LakeFormat.ICEBERG:
        from flintmq.spark.lake.formats.iceberg import IcebergLake

        return IcebergLake(place)
    from flintmq.spark.lake.formats.plain import ParquetLake

    return ParquetLake(place)
