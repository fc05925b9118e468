"""Refusal of Avro schemas with which a body of a few bytes could take any amount of memory or time."""

from typing import Any, Final

from flintmq.base.errors import ConfigurationError

# A parsed schema, or a part of one.
Avro = str | dict[str, Any] | list[Any]

_NULL: Final = "null"


def check_safety(schema: Avro) -> None:
    """Raises ConfigurationError for a recursive type and for an array whose items take no bytes.

    All names in the schema must be full.
    """
    _Walk().check(schema)


class _Walk:
    def __init__(self) -> None:
        self._named: dict[str, dict[str, Any]] = {}
        # Names of the types that contain the current one.
        self._within: list[str] = []

    def check(self, schema: Avro) -> None:
        if isinstance(schema, list):
            for kind in schema:
                self.check(kind)
        elif isinstance(schema, str):
            if schema in self._within:
                # A body could be nested more deeply than the stack of the library.
                raise ConfigurationError(f"the Avro type {schema} contains itself, for which Spark has no type")
        elif "name" in schema:
            self._named[schema["name"]] = schema
            self._within.append(schema["name"])
            for field in schema.get("fields", ()):
                self.check(field["type"])
            self._within.pop()
        elif schema["type"] == "array":
            self.check(schema["items"])
            if self._takes_nothing(schema["items"]):
                raise ConfigurationError(
                    "the Avro schema has an array whose items take no bytes: a body of ten bytes could have any number "
                    "of them"
                )
        else:
            self.check(schema.get("values") or schema["type"])

    def _takes_nothing(self, schema: Avro) -> bool:
        if isinstance(schema, str):
            schema = self._named.get(schema, schema)
        if isinstance(schema, str):
            return schema == _NULL
        if isinstance(schema, list):
            return False
        if schema["type"] == "fixed":
            return bool(schema["size"] == 0)
        if schema["type"] in ("record", "error"):
            return all(self._takes_nothing(field["type"]) for field in schema["fields"])
        return False if schema["type"] in ("array", "map", "enum") else self._takes_nothing(schema["type"])
