"""The option `partitions` of format("flintmq_lake"), which selects files by the values of partition columns.

The option looks like the directories of a lake: `day=2026-11-01/routing_key=a`. Each part is a condition, and files
have to meet all of them. Escapes are those of directories: `%2F` is a slash in a value.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import date
from operator import ge, gt, le, lt
from typing import Final
from urllib.parse import unquote

from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
)

from flintmq.base.errors import ConfigurationError
from flintmq.spark.lake.data_file import NULL_PARTITION

_CONDITION: Final = re.compile(r"\s*([^=<>]*[^=<>\s])\s*(<=|>=|=|<|>)(.*)", re.DOTALL)
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_BOOLEANS: Final = {"true": True, "false": False}

Value = bool | int | str | date
Partition = Mapping[str, str | None]
_COMPARISONS: Final[Mapping[str, Callable[[Value, Value], bool]]] = {"<": lt, "<=": le, ">": gt, ">=": ge}


@dataclass(frozen=True)
class Condition:
    """One condition. `values` are texts, or None for null; operators other than `=` have one value that is not null."""

    column: str
    operator: str
    values: tuple[str | None, ...]


@dataclass(frozen=True)
class PartitionFilter:
    """All conditions of the option, whose text is `text`. Without conditions, every file is selected."""

    text: str
    conditions: tuple[Condition, ...]

    def predicate(self, columns: Collection[str], schema: StructType) -> Callable[[Partition], bool]:
        """A function that tells whether a file with this partition is selected, for a lake partitioned by `columns`.

        Raises ConfigurationError for a condition on any other column, or with a value that its column cannot have.
        """
        tests = [_test(condition, columns, schema) for condition in self.conditions]
        return lambda partition: all(test(partition) for test in tests)


def parse_partition_filter(text: str) -> PartitionFilter:
    """Parse the option. Raises ConfigurationError."""
    parts = text.split("/") if text else []
    return PartitionFilter(text, tuple(_parse_condition(part) for part in parts))


def _parse_condition(text: str) -> Condition:
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise ConfigurationError(
            f"the option partitions has {text!r}: it must be column=value, as in day=2026-11-01, with several values "
            "separated by commas, or one of column<value, column<=value, column>value and column>=value. Several "
            "conditions are separated by /; in a value, / is written %2F, a comma %2C, and % itself %25"
        )
    column, operator, values = found.groups()
    condition = Condition(unquote(column), operator, tuple(_value(part) for part in values.split(",")))
    if operator != "=" and (len(condition.values) > 1 or condition.values[0] is None):
        raise ConfigurationError(
            f"the option partitions has {text!r}: {operator} compares with one value that is not null. Several values "
            "are written column=value,value"
        )
    return condition


def _value(text: str) -> str | None:
    text = text.strip()
    return None if text == NULL_PARTITION else unquote(text)


def _test(condition: Condition, columns: Collection[str], schema: StructType) -> Callable[[Partition], bool]:
    column = condition.column
    if column not in columns:
        raise ConfigurationError(
            f"the option partitions names the column {column}, by which the lake is not partitioned: "
            + (f"choose from {', '.join(columns)}" if columns else "leave the option out, and select rows by WHERE")
        )
    kind = schema[column].dataType
    wanted = [None if value is None else _typed(value, column, kind) for value in condition.values]

    def equals(partition: Partition) -> bool:
        there = partition.get(column)
        return (None if there is None else _typed(there, column, kind)) in wanted

    if condition.operator == "=":
        return equals
    compare = _COMPARISONS[condition.operator]
    (limit,) = wanted
    assert limit is not None

    def compares(partition: Partition) -> bool:
        there = partition.get(column)
        return there is not None and compare(_typed(there, column, kind), limit)

    return compares


def _typed(text: str, column: str, kind: DataType) -> Value:
    """Convert the text of a value to the type of its column. Raises ConfigurationError."""
    if isinstance(kind, StringType):
        return text
    if isinstance(kind, (ByteType, ShortType, IntegerType, LongType)):
        if _INTEGER.fullmatch(text):
            return int(text)
        expected = "an integer"
    elif isinstance(kind, BooleanType):
        if text.lower() in _BOOLEANS:
            return _BOOLEANS[text.lower()]
        expected = "true or false"
    elif isinstance(kind, DateType):
        try:
            found = date.fromisoformat(text)
        except ValueError:
            found = None
        # Python also reads other forms of ISO 8601, which are not values of a date column in other programs.
        if found is not None and found.isoformat() == text:
            return found
        expected = "a date as 2026-11-01"
    else:
        raise ConfigurationError(
            f"the option partitions names the column {column}, which is {kind.simpleString()}: partitions are chosen "
            "by strings, integers, dates and truth values. Select its rows by WHERE"
        )
    raise ConfigurationError(
        f"the option partitions compares the column {column}, which is {kind.simpleString()}, with {text!r}: write "
        f"{expected}"
    )
