"""Table values in the JSON of RabbitMQ's API. Types that JSON does not have are lost."""

from base64 import b64encode
from collections.abc import Callable
from decimal import Decimal

from flintmq.base.json_values import types_in
from flintmq.base.values import Timestamp, integer_type
from flintmq.broker.message import Table


def shown(value: object) -> object:
    if isinstance(value, dict):
        return {str(key): shown(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [shown(item) for item in value]
    if isinstance(value, (bytes, bytearray)):
        return text_of(bytes(value))
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, Timestamp):
        return value.seconds
    if isinstance(value, float) and value != value:  # noqa: PLR0124 - not a number, which JSON has no word for
        return None
    if isinstance(value, int) and integer_type(value):
        # `types_in` reports the type of an integer where it matters.
        return int(value)
    return value if value is None or isinstance(value, (str, bool, int, float)) else str(value)


def text_of(value: bytes) -> str:
    """Bytes as text if they are UTF-8, otherwise in base64."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return b64encode(value).decode()


def arguments_shown(value: Table, encode: Callable[[object], object] = shown) -> dict[str, object]:
    """The arguments of an object as JSON fields, with values as `encode` writes them.

    Integers are plain numbers, as RabbitMQ reads them; `argument_types` has the types of those that are not `long`.
    """
    types = types_in(value)
    fields: dict[str, object] = {"arguments": {name: encode(item) for name, item in value.items()}}
    return {**fields, "argument_types": types} if types else fields


def table(value: Table) -> dict[str, object]:
    return {name: shown(item) for name, item in value.items()}
