"""Headers in two forms: as text, which is easy to query, and with their types, from which they can be made again.

A typed value is a pair of texts. Types: string; long; double; boolean (`true`, `false`); binary (base64); decimal;
timestamp (seconds since 1970); null (no value); table and array, whose value is JSON with [type, value] in place of
each value.
"""

import json
from base64 import b64decode, b64encode
from binascii import Error as NoBase64
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Final

from flintmq.base.errors import FlintError
from flintmq.base.values import Timestamp
from flintmq.wire.amqp091.tables import Table

Typed = tuple[str, str | None]


def text(value: object) -> str:
    """A header's value as text: nested ones as JSON."""
    if isinstance(value, str):
        return value
    plain = _plain(value)
    return plain if isinstance(plain, str) else json.dumps(plain, default=_plain)


def _plain(value: object) -> object:
    """What JSON has no type for, as the nearest that it has."""
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, Timestamp):
        return value.seconds
    if isinstance(value, (dict, list, bool, int, float)):
        return value
    return str(value)


def typed(value: object) -> Typed:
    """A header's value, or one within it, as its type and its text."""
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
    if isinstance(value, dict):
        return "table", json.dumps({key: typed(item) for key, item in value.items()}, ensure_ascii=False)
    if isinstance(value, list):
        return "array", json.dumps([typed(item) for item in value], ensure_ascii=False)
    return "decimal", str(value)


def table_of(entries: Iterable[tuple[str, Mapping[str, str | None] | None]]) -> Table:
    """Headers from a column `headers_typed`, as Arrow gives it. Raises FlintError for what is no such value."""
    return {key: _untyped(key, value) for key, value in entries}


def _untyped(key: str, value: Mapping[str, str | None] | None) -> object:
    if value is None:
        raise FlintError(
            f"the header {key} in the column headers_typed is null: leave it out, or give it the type 'null'"
        )
    return untyped(value["type"], value["value"])


def untyped(kind: object, value: object) -> object:
    """The value that `typed` made a pair of. Raises FlintError."""
    if kind == "null":
        return None
    read = _READERS.get(kind) if isinstance(kind, str) else None
    if read is None:
        raise FlintError(f"a header has the type {kind!r}: there are {', '.join(_READERS)} and null")
    try:
        if isinstance(value, str):
            return read(value)
    except (ValueError, InvalidOperation, NoBase64, TypeError):
        pass
    raise FlintError(f"a header of type {kind} cannot be {value!r}")


def _boolean(value: str) -> bool:
    if value not in ("true", "false"):
        raise ValueError(value)
    return value == "true"


def _table(value: str) -> object:
    return {key: untyped(*pair) for key, pair in json.loads(value).items()} if value.startswith("{") else _wrong(value)


def _array(value: str) -> object:
    return [untyped(*pair) for pair in json.loads(value)] if value.startswith("[") else _wrong(value)


def _wrong(value: str) -> object:
    raise ValueError(value)


_READERS: Final[dict[str, Callable[[str], object]]] = {
    "string": str,
    "long": int,
    "double": float,
    "boolean": _boolean,
    "binary": lambda value: b64decode(value, validate=True),
    "decimal": Decimal,
    "timestamp": lambda value: Timestamp(int(value)),
    "table": _table,
    "array": _array,
}
