"""Lakes as everybody else reads them: by the libraries of their formats, not by what wrote them."""

from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

FORMATS: Final = ("parquet", "delta", "iceberg")


def read_lake(path: Path, format: str) -> pa.Table:
    if format == "delta":
        return DeltaTable(str(path)).to_pyarrow_table()
    if format == "iceberg":
        catalog = load_catalog("flintmq", type="sql", uri=f"sqlite:///{path / 'catalog.db'}", warehouse=path.as_uri())
        return catalog.load_table(f"flintmq.{path.name}").scan().to_arrow()
    return ds.dataset(path, format="parquet", partitioning="hive").to_table()


def rows(path: Path, format: str, *columns: str) -> list[tuple[Any, ...]]:
    """These columns of all rows, sorted."""
    table = read_lake(path, format).select(columns)
    return sorted(tuple(row.values()) for row in table.to_pylist())


def parquet_files(path: Path) -> set[Path]:
    """All that anybody wrote there, committed or not."""
    return {*path.rglob("*.parquet")}
