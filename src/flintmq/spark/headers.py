"""Headers in two forms: as text, which is easy to query, and with types, which can be published again unchanged.

A typed value is a pair of texts. Types: string; long; double; boolean (`true`, `false`); binary (base64); decimal;
timestamp (seconds since 1970); null (no value); table and array, whose value is JSON with [type, value] in place of
each value. The value of a nested table or array is JSON too, and not a text that contains JSON: each level would double
its quotes and backslashes. Earlier versions wrote such texts, and they can still be read.

The type `encoded` is for a table or array whose JSON would be too long. Its value is the base64 of an AMQP 0-9-1 field
table that contains the table or array under an empty key.
"""

import json
from base64 import b64decode, b64encode
from binascii import Error as NoBase64
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Final

from librt.strings import BytesWriter

from flintmq.base.errors import FlintError, SyntaxFault
from flintmq.base.limits import TABLE_DEPTH_MAX
from flintmq.base.values import Timestamp
from flintmq.wire.amqp091.tables import Table, decode_table, encode_table

# The longest JSON of one header. Only headers that are short in AMQP and long in JSON exceed it in a usual frame.
TEXT_MAX_CHARACTERS: Final = 1024 * 1024
# The number of characters of a wrong value that an error quotes.
_QUOTED_CHARACTERS: Final = 200

Typed = tuple[str, str | None]


def text(value: object) -> str:
    """A header's value as text; tables and arrays as JSON."""
    if isinstance(value, str):
        return value
    plain = _plain(value)
    return plain if isinstance(plain, str) else json.dumps(plain, default=_plain)


def _plain(value: object) -> object:
    """The nearest value that JSON can represent."""
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, Timestamp):
        return value.seconds
    if isinstance(value, (dict, list, bool, int, float)):
        return value
    return str(value)


def typed(value: object) -> Typed:
    """The type and the text of a header's value, or of a value in a table or array."""
    if isinstance(value, str):
        return "string", value
    if isinstance(value, bool):
        return "boolean", "true" if value else "false"
    if isinstance(value, int):
        return "long", str(value)
    if isinstance(value, float):
        return "double", repr(value)
    if value is None:
        return "null", None
    if isinstance(value, bytes):
        return "binary", b64encode(value).decode()
    if isinstance(value, Timestamp):
        return "timestamp", str(value.seconds)
    if isinstance(value, (dict, list)):
        kind, nested = _nested(value)
        encoded = json.dumps(nested, ensure_ascii=False)
        return (kind, encoded) if len(encoded) <= TEXT_MAX_CHARACTERS else ("encoded", _encoded(value))
    return "decimal", str(value)


def _nested(value: object) -> tuple[str, object]:
    if isinstance(value, dict):
        return "table", {key: _nested(item) for key, item in value.items()}
    if isinstance(value, list):
        return "array", [_nested(item) for item in value]
    return typed(value)


def _encoded(value: object) -> str:
    w = BytesWriter()
    encode_table(w, {"": value})
    return b64encode(w.getvalue()).decode()


def table_of(entries: Iterable[tuple[str, Mapping[str, str | None] | None]]) -> Table:
    """The headers in a value of the column `headers_typed`, as Arrow yields it. Raises FlintError for a wrong value."""
    return {key: _untyped(key, value) for key, value in entries}


def _untyped(key: str, value: Mapping[str, str | None] | None) -> object:
    if value is None:
        raise FlintError(
            f"the header {key} in the column headers_typed is null: leave it out, or give it the type 'null'"
        )
    return untyped(value["type"], value["value"])


def untyped(kind: object, value: object) -> object:
    """The inverse of `typed`: the value of a type and a text. Raises FlintError for a wrong type or text."""
    return _value(kind, value, 1)


def _value(kind: object, value: object, depth: int) -> object:
    """`depth` counts the tables and arrays that contain the value, plus itself if it is one. Raises FlintError."""
    if kind == "null":
        return None
    if depth > TABLE_DEPTH_MAX:
        raise FlintError(f"a header nests more than {TABLE_DEPTH_MAX} tables and arrays")
    try:
        if kind in ("table", "array"):
            return _container(kind, json.loads(value) if isinstance(value, str) else value, depth)
        read = _READERS.get(kind) if isinstance(kind, str) else None
        if read is None:
            known = ", ".join([*_READERS, "table", "array"])
            raise FlintError(f"a header has the unknown type {kind!r}: use {known} or null")
        if isinstance(value, str):
            return read(value)
    except (ValueError, InvalidOperation, NoBase64, TypeError, RecursionError, SyntaxFault):
        pass
    raise FlintError(f"a header of type {kind} cannot be {_quoted(value)}")


def _container(kind: object, found: object, depth: int) -> object:
    """A table or array from its parsed JSON. Raises TypeError or ValueError if it is neither."""
    if kind == "table" and isinstance(found, dict):
        return {key: _value(inner, value, depth + 1) for key, (inner, value) in found.items()}
    if kind == "array" and isinstance(found, list):
        return [_value(inner, value, depth + 1) for inner, value in found]
    raise TypeError(kind)


def _quoted(value: object) -> str:
    quoted = repr(value)
    return quoted if len(quoted) <= _QUOTED_CHARACTERS else f"{quoted[:_QUOTED_CHARACTERS]} ..."


def _boolean(value: str) -> bool:
    if value not in ("true", "false"):
        raise ValueError(value)
    return value == "true"


def _decoded(value: str) -> object:
    table, _ = decode_table(b64decode(value, validate=True), 0)
    if [*table] != [""]:
        raise ValueError(value)
    return table[""]


_READERS: Final[dict[str, Callable[[str], object]]] = {
    "string": str,
    "long": int,
    "double": float,
    "boolean": _boolean,
    "binary": lambda value: b64decode(value, validate=True),
    "decimal": Decimal,
    "timestamp": lambda value: Timestamp(int(value)),
    "encoded": _decoded,
}
