"""Tables in Spark's catalog, `CREATE TABLE orders USING flintmq OPTIONS (...)`.

When a table is created, Spark asks the data source for its columns. It stores the columns but not the options. The data
source therefore stores the options as metadata of the first column, and a read finds them there. Spark copies metadata
with the rows, into files and into other tables: it must not contain a password, and a write ignores it.
"""

import json
from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import StructField, StructType

from flintmq.base.errors import ConfigurationError

# Spark adds these entries to the options of a table. It also repeats each option of the user as `option.name`.
_SPARKS_OWN: Final = frozenset(
    {"provider", "owner", "location", "comment", "external", "is_managed_location", "collation"}
)
_REPEATED: Final = "option."
_METADATA_KEY: Final = "flintmq.options"


def is_table(options: Mapping[str, str]) -> bool:
    """Whether Spark passed these options for a table in its catalog, and not for a query."""
    return "provider" in {name.lower() for name in options}


def user_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options that the user gave in CREATE TABLE, with names in lower case."""
    given = {name.lower(): value for name, value in options.items()}
    return {name: value for name, value in given.items() if name not in _SPARKS_OWN and not name.startswith(_REPEATED)}


def with_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Store a table's options in the metadata of its first column. Raises ConfigurationError for the option url."""
    if "url" in options:
        raise ConfigurationError(
            "a table stores its options with its columns, and Spark copies them with the rows: use the option urlEnv "
            "or urlFile for the address of the broker, because the option url would store the password"
        )
    first, *others = schema.fields
    metadata = {**first.metadata, _METADATA_KEY: json.dumps(dict(options))}
    return StructType([StructField(first.name, first.dataType, first.nullable, metadata), *others])


def read_options(options: Mapping[str, str], schema: StructType, example: str) -> dict[str, str]:
    """The options of the table that `schema` belongs to, overridden by those of the query; names in lower case.

    `example` is a query with options, for the error. Raises ConfigurationError if there are no options at all.
    """
    found: dict[str, str] = {}
    for field in schema.fields:
        found |= json.loads(field.metadata.get(_METADATA_KEY, "{}"))
    _check_some(options or found, example)
    return {**found, **{name.lower(): value for name, value in options.items()}}


def write_options(options: Mapping[str, str], example: str) -> Mapping[str, str]:
    """The options of the query, unchanged; `example` is a query with options, for the error.

    Raises ConfigurationError if there are none.
    """
    _check_some(options, example)
    return options


def _check_some(options: Mapping[str, str], example: str) -> None:
    if not options:
        raise ConfigurationError(
            "there are no options. Spark passes the options of a table only to reads, and only if the table was "
            f"created without columns: give them with the query, {example}, or use CREATE TEMPORARY VIEW, which keeps "
            "all options"
        )


def without_options(schema: StructType) -> StructType:
    """The columns without the options that `with_options` stored."""
    return StructType([_without_options(field) for field in schema.fields])


def _without_options(field: StructField) -> StructField:
    metadata = {name: value for name, value in field.metadata.items() if name != _METADATA_KEY}
    return StructField(field.name, field.dataType, field.nullable, metadata)
