"""Tables in Spark's catalog, `CREATE TABLE orders USING flintmq OPTIONS (...)`.

Spark asks for a table's columns when it is made, and then keeps the columns and none of the options. So what a table is
made with is kept with its first column, as metadata, for those who read it. Metadata goes with the rows, into files and
into other tables: no password may be in it, and nobody who writes goes by it.
"""

import json
from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import StructField, StructType

from flintmq.base.errors import ConfigurationError

# What Spark says of a table beside the options of its user, each of which it says once more, as `option.name`.
_SPARKS_OWN: Final = frozenset(
    {"provider", "owner", "location", "comment", "external", "is_managed_location", "collation"}
)
_AGAIN: Final = "option."
_KEPT: Final = "flintmq.options"


def is_table(options: Mapping[str, str]) -> bool:
    """Whether they are those of a table in the catalog, and not of a query."""
    return "provider" in {name.lower() for name in options}


def of_user(options: Mapping[str, str]) -> dict[str, str]:
    """A table's options as its user gave them."""
    said = {name.lower(): value for name, value in options.items()}
    return {name: value for name, value in said.items() if name not in _SPARKS_OWN and not name.startswith(_AGAIN)}


def keeping(schema: StructType, options: Mapping[str, str]) -> StructType:
    """A table's columns with its options. Raises ConfigurationError for a password among them."""
    if "url" in options:
        raise ConfigurationError(
            "a table keeps its options with its columns, which go wherever its rows go: say where the broker is with "
            "the option urlEnv or urlFile, and not with a URL that has a password"
        )
    first, *others = schema.fields
    kept = {**first.metadata, _KEPT: json.dumps(dict(options))}
    return StructType([StructField(first.name, first.dataType, first.nullable, kept), *others])


def reading(options: Mapping[str, str], schema: StructType, example: str) -> dict[str, str]:
    """Those of a query, and those that its table keeps. Raises ConfigurationError where there are none."""
    found: dict[str, str] = {}
    for field in schema.fields:
        found |= json.loads(field.metadata.get(_KEPT, "{}"))
    _check_some(options or found, example)
    return {**found, **{name.lower(): value for name, value in options.items()}}


def writing(options: Mapping[str, str], example: str) -> Mapping[str, str]:
    """Those of a query. Raises ConfigurationError where there are none."""
    _check_some(options, example)
    return options


def _check_some(options: Mapping[str, str], example: str) -> None:
    if not options:
        raise ConfigurationError(
            "there are no options. Spark does not hand on the options of a table, but for reading from one that was "
            f"made without columns: give them with the query, {example}, or make a CREATE TEMPORARY VIEW instead, "
            "which has them all"
        )


def plain(schema: StructType) -> StructType:
    """The columns without what was kept with them."""
    return StructType([_plain(field) for field in schema.fields])


def _plain(field: StructField) -> StructField:
    metadata = {name: value for name, value in field.metadata.items() if name != _KEPT}
    return StructField(field.name, field.dataType, field.nullable, metadata)
