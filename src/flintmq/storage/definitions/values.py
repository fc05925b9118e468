"""Tables of arguments as JSON that keeps apart what AMQP keeps apart.

What JSON has no type for becomes an object of one key that begins with "$". A nested table with a key like that is
wrapped the same way, so every table comes back as it was.
"""

import json
from base64 import b64decode, b64encode
from decimal import Decimal

from flintmq.base.values import Timestamp
from flintmq.broker.message import Table


def dump_table(table: Table) -> str:
    """The same text for equal tables, in whatever order their keys are. Raises TypeError for what no table can hold."""
    return json.dumps({key: _tag(value) for key, value in table.items()}, separators=(",", ":"), sort_keys=True)


def load_table(text: str) -> Table:
    """Raises ValueError, KeyError or TypeError when `dump_table` did not write it."""
    fields = json.loads(text)
    if not isinstance(fields, dict):
        raise TypeError("arguments are not a table")
    return {key: _untag(value) for key, value in fields.items()}


def _tag(value: object) -> object:
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, (bytes, bytearray)):
        return {"$bytes": b64encode(value).decode()}
    if isinstance(value, Decimal):
        return {"$decimal": str(value)}
    if isinstance(value, Timestamp):
        return {"$timestamp": value.seconds}
    if isinstance(value, (list, tuple)):
        return [_tag(item) for item in value]
    if isinstance(value, dict):
        tagged = {key: _tag(item) for key, item in value.items()}
        return {"$table": tagged} if any(key.startswith("$") for key in tagged) else tagged
    raise TypeError(f"a table cannot hold {value!r} ({type(value).__name__})")


def _untag(value: object) -> object:
    if isinstance(value, list):
        return [_untag(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$bytes" in value:
        return b64decode(value["$bytes"], validate=True)
    if "$decimal" in value:
        return Decimal(value["$decimal"])
    if "$timestamp" in value:
        return Timestamp(value["$timestamp"])
    return {key: _untag(item) for key, item in value.get("$table", value).items()}
