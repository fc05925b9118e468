"""Ranges of rows of a snapshot, one for each task. Rows are numbered from 0 on, in the order of the files."""

from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from flintmq.spark.lake.formats import StoredFile


@dataclass(frozen=True)
class FileRows:
    """The rows of one file from `first` up to, not including, `end`."""

    file: StoredFile
    first: int
    end: int


@dataclass
class RowRange(InputPartition):
    """The rows that one task reads, in this order."""

    files: list[FileRows]


def split(files: list[StoredFile], start: int, end: int, parts: int) -> list[RowRange]:
    """Divide the rows from `start` up to, not including, `end` into `parts` ranges of nearly the same size, in order.

    There are fewer ranges if there are fewer rows.
    """
    count = end - start
    parts = min(parts, count)
    edges = [start + count * part // parts for part in range(parts + 1)] if parts > 0 else []
    return [RowRange(_rows_of(files, first, last)) for first, last in pairwise(edges)]


def _rows_of(files: list[StoredFile], start: int, end: int) -> list[FileRows]:
    found = []
    base = 0
    for file in files:
        first, last = max(start - base, 0), min(end - base, file.rows)
        if first < last:
            found.append(FileRows(file, first, last))
        base += file.rows
    return found
