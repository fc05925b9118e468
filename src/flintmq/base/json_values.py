"""Values of tables as JSON that keeps apart what AMQP keeps apart.

What JSON has no type for becomes an object of one key that begins with "$". A nested table with a key like that is
wrapped the same way, so every value comes back as it was; and what other programs wrote is read as it stands.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable
from decimal import Decimal

from flintmq.base.values import Timestamp


def to_json(value: object) -> object:
    """Raises TypeError for what no table can hold."""
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
    """Whether there are objects and lists within each other, more than `most`: writing those down ends in the stack."""
    level = _containers([value])
    for _ in range(most):
        if not level:
            return False
        level = [inner for each in level for inner in _containers(each.values() if isinstance(each, dict) else each)]
    return bool(level)


def _containers(values: Iterable[object]) -> list[dict[str, object] | list[object]]:
    return [value for value in values if isinstance(value, (dict, list))]


def from_json(value: object) -> object:
    """Raises ValueError, KeyError or TypeError when `to_json` did not write it."""
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
    return {key: from_json(item) for key, item in value.get("$table", value).items()}
