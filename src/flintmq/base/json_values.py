"""JSON encoding of table values that preserves AMQP's types.

A value without a JSON type becomes an object with one key that begins with "$". A nested table with such a key is
wrapped in the same way, so every value is restored exactly. JSON that other programs wrote is read unchanged.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable
from decimal import Decimal
from typing import cast

from flintmq.base.values import INTEGER_TYPES, Timestamp, integer_type, typed


def to_json(value: object) -> object:
    """Encode a value. Raises TypeError for values that a table cannot hold."""
    name = integer_type(value)
    if name:
        return {f"${name}": int(cast(int, value))}
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, (bytes, bytearray)):
        return {"$bytes": b64encode(value).decode()}
    if isinstance(value, Decimal):
        return {"$decimal": str(value)}
    if isinstance(value, Timestamp):
        return {"$timestamp": value.seconds}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if isinstance(value, dict):
        fields = {key: to_json(item) for key, item in value.items()}
        return {"$table": fields} if any(key.startswith("$") for key in fields) else fields
    raise TypeError(f"a table cannot hold {value!r} ({type(value).__name__})")


def is_nested_deeper(value: object, most: int) -> bool:
    """Tell whether objects and lists are nested more than `most` levels deep; encoding them would exhaust the stack."""
    level = _containers([value])
    for _ in range(most):
        if not level:
            return False
        level = [inner for each in level for inner in _containers(each.values() if isinstance(each, dict) else each)]
    return bool(level)


def _containers(values: Iterable[object]) -> list[dict[str, object] | list[object]]:
    return [value for value in values if isinstance(value, (dict, list))]


def from_json(value: object) -> object:
    """Decode a value. Raises ValueError, KeyError or TypeError if `to_json` did not encode it."""
    if isinstance(value, list):
        return [from_json(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$bytes" in value:
        return b64decode(value["$bytes"], validate=True)
    if "$decimal" in value:
        return Decimal(value["$decimal"])
    if "$timestamp" in value:
        return Timestamp(value["$timestamp"])
    if len(value) == 1:
        (name,) = value
        if name[1:] in INTEGER_TYPES and name.startswith("$"):
            return typed(name[1:], value[name])
    return {key: from_json(item) for key, item in value.get("$table", value).items()}


# Types of the integers in a table: maps a field's name, or an item's index, to a type's name or to nested types.
Types = dict[str, object]


def without_types(value: object) -> object:
    """A copy of the value with plain integers, for programs that do not know the types."""
    if integer_type(value):
        return int(cast(int, value))
    if isinstance(value, dict):
        return {key: without_types(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_types(item) for item in value]
    return value


def types_in(value: object) -> Types:
    """The types that `without_types` removes; empty if there are none."""
    found: Types = {}
    for name, item in _items(value):
        kind = integer_type(item)
        inner = {} if kind else types_in(item)
        if kind:
            found[name] = kind
        elif inner:
            found[name] = inner
    return found


def typed_table(table: dict[str, object], types: Types) -> dict[str, object]:
    """A copy of the table with integers of these types. Raises ValueError or TypeError for unknown types, or for types
    that do not match the table.
    """
    found = _with_types(table, types) if types else table
    assert isinstance(found, dict)
    return found


def _with_types(value: object, types: object) -> object:
    if isinstance(types, str):
        return typed(types, value)
    if not isinstance(types, dict):
        raise TypeError(f"the types of integers are names, and objects of them, not {types!r:.100}")
    there = dict(_items(value))
    for name in types:
        if name not in there:
            raise ValueError(f"there is no '{name}' that could be of a type")
    changed = {name: _with_types(item, types[name]) if name in types else item for name, item in there.items()}
    return list(changed.values()) if isinstance(value, list) else changed if isinstance(value, dict) else value


def _items(value: object) -> list[tuple[str, object]]:
    if isinstance(value, dict):
        return [(str(name), item) for name, item in value.items()]
    if isinstance(value, (list, tuple)):
        return [(str(at), item) for at, item in enumerate(value)]
    return []
