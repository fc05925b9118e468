"""Rows of a snapshot by number: the first row of its first file is 0. A range of them is what a task reads."""

from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from flintmq.spark.lake.formats import StoredFile


@dataclass(frozen=True)
class Piece:
    """Rows `first` up to, not including, `end` of one file."""

    file: StoredFile
    first: int
    end: int


@dataclass
class RowRange(InputPartition):
    """What one task reads, in this order."""

    pieces: list[Piece]


def split(files: list[StoredFile], start: int, end: int, parts: int) -> list[RowRange]:
    """Ranges of nearly the same number of rows, in order; `parts` so many as far as there are rows."""
    count = end - start
    parts = min(parts, count)
    edges = [start + count * part // parts for part in range(parts + 1)] if parts > 0 else []
    return [RowRange(_pieces(files, first, last)) for first, last in pairwise(edges)]


def _pieces(files: list[StoredFile], start: int, end: int) -> list[Piece]:
    found = []
    base = 0
    for file in files:
        first, last = max(start - base, 0), min(end - base, file.rows)
        if first < last:
            found.append(Piece(file, first, last))
        base += file.rows
    return found
