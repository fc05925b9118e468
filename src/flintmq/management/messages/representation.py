"""Representation of messages in JSON: RabbitMQ's names of properties, and payloads as text or in base64."""

import re
from base64 import b64decode, b64encode
from binascii import Error as BadBase64
from codecs import getincrementaldecoder
from collections.abc import Iterator
from typing import Any, Final

from msgspec import Raw, json

from flintmq.base.errors import AmqpError, DecodeError, LocalProtocolError
from flintmq.base.json_values import typed_table
from flintmq.broker.bounds import value_fault
from flintmq.broker.message import Message, Table
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.gateway.conversion.converted import TO_091
from flintmq.management.errors import BadRequest
from flintmq.management.http.call import TableGiven
from flintmq.management.slices import Slice
from flintmq.management.values import shown, table
from flintmq.wire.amqp091.properties import Properties, decode_properties, encode_properties

_TEXTS: Final = (
    *("content_type", "content_encoding", "correlation_id", "reply_to", "expiration", "message_id", "type"),
    *("user_id", "app_id", "cluster_id"),
)
_NUMBERS: Final = ("delivery_mode", "priority", "timestamp")
_INT64: Final = range(-(2**63), 2**63)
ENCODINGS: Final = ("auto", "base64")
# So many bytes of a payload are encoded at once; a multiple of three, so that parts of base64 can be joined.
_PART_BYTES: Final = 48 * 1024
_BASE64: Final = re.compile(r"\s+")
# Longer numbers fit into no property, and Python refuses numbers with thousands of digits.
_DIGITS: Final = re.compile("[0-9]{1,20}")


def in_091(message: Message) -> tuple[Properties, bytes]:
    """The properties and the body of a message, converted to AMQP 0-9-1 if necessary."""
    encoded, body = message.properties, message.body
    if message.codec is not CODEC_091:
        encoded, body = TO_091.in_091(message)
    try:
        return decode_properties(encoded), body
    except (AmqpError, DecodeError):
        return Properties(), body


def properties_shown(properties: Properties) -> dict[str, object]:
    """The properties that are set, as JSON fields."""
    shown_ = {name: getattr(properties, name) for name in (*_TEXTS, *_NUMBERS)}
    found: dict[str, object] = {name: shown(value) for name, value in shown_.items() if value is not None}
    if properties.headers is not None:
        found["headers"] = table(properties.headers)
    return found


def payload_shown(body: bytes, encoding: str, truncate: int | None) -> dict[str, object]:
    """A payload as JSON fields. `encoding` is one of ENCODINGS; at most `truncate` bytes of the body are shown."""
    part = body if truncate is None else body[: max(truncate, 0)]
    facts: dict[str, object] = {"payload_bytes": len(body), "payload_encoding": "string"}
    if encoding == "auto":
        try:
            # A body that is cut within a character still counts as text.
            facts["payload"] = part.decode() if len(part) == len(body) else _text_before(part)
        except UnicodeDecodeError:
            encoding = "base64"
    if encoding == "base64":
        facts["payload"] = b64encode(part).decode()
        facts["payload_encoding"] = "base64"
    return facts


async def payload_in_slices(body: bytes, encoding: str, truncate: int | None) -> dict[str, object]:
    """A payload as JSON fields, encoded in slices, because a large one would delay other work."""
    part = body if truncate is None else body[: max(truncate, 0)]
    if len(part) <= _PART_BYTES:
        return payload_shown(body, encoding, truncate)
    facts: dict[str, object] = {"payload_bytes": len(body), "payload_encoding": "string"}
    if encoding == "auto":
        try:
            facts["payload"] = await _written(_texts(part, is_whole=len(part) == len(body)))
        except UnicodeDecodeError:
            encoding = "base64"
    if encoding == "base64":
        starts = range(0, len(part), _PART_BYTES)
        facts["payload"] = await _written(b64encode(part[start : start + _PART_BYTES]).decode() for start in starts)
        facts["payload_encoding"] = "base64"
    return facts


def _texts(part: bytes, *, is_whole: bool) -> Iterator[str]:
    """Decode a body in parts; a character that is cut at the end is left out unless `is_whole`. Raises
    UnicodeDecodeError.
    """
    decoder = getincrementaldecoder("utf-8")()
    for start in range(0, len(part), _PART_BYTES):
        is_last = is_whole and start + _PART_BYTES >= len(part)
        yield decoder.decode(part[start : start + _PART_BYTES], is_last)


async def _written(texts: Iterator[str]) -> Raw:
    """Encode parts of a text as one JSON string."""
    written = bytearray(b'"')
    now = Slice()
    for text in texts:
        written += json.encode(text)[1:-1]
        if now.is_over:
            await now.pause()
    written += b'"'
    return Raw(written)


def _text_before(part: bytes) -> str:
    for missing in range(4):
        try:
            return part[: len(part) - missing].decode()
        except UnicodeDecodeError:
            if missing == 3 or len(part) <= missing:
                raise
    return ""


def payload_of(payload: str, encoding: str) -> bytes:
    """Decode the payload of a request. Raises BadRequest."""
    if encoding == "string":
        return payload.encode()
    if encoding != "base64":
        raise BadRequest(f"payload_encoding '{encoding}' is unknown: there are string and base64")
    try:
        return b64decode(_BASE64.sub("", payload), validate=True)
    except (BadBase64, ValueError) as error:
        raise BadRequest("the payload is not in base64, as payload_encoding says") from error


def properties_of(given: TableGiven) -> bytes:
    """Encode the properties of a request; names that are not properties of AMQP 0-9-1 are ignored (RabbitMQ). Raises
    BadRequest.
    """
    properties = Properties()
    for name, value in dict(given).items():
        if value is None:
            continue
        if name == "headers":
            if not isinstance(value, dict) and value != []:
                raise BadRequest(f"the property headers is an object, not {_described(value)}")
            properties.headers = checked_table(value, "headers")
        elif name in _TEXTS:
            setattr(properties, name, _text(name, value))
        elif name in _NUMBERS:
            setattr(properties, name, _number(name, value))
    try:
        return encode_properties(properties)
    except (LocalProtocolError, AmqpError, OverflowError) as error:
        raise BadRequest(f"the properties cannot be sent: {error}") from error


def _text(name: str, value: object) -> str:
    """A property as text; a number is converted, because many scripts write `expiration` as a number. Raises
    BadRequest.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadRequest(f"the property {name} is a string, not {_described(value)}")
    return str(value)


def _number(name: str, value: object) -> int:
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadRequest(f"the property {name} is a number, not {_described(value)}")
    return value


def _described(value: object) -> str:
    """Describe a wrong value for an error message; objects and lists only by their kind, because they may be large."""
    return "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else f"{value!r:.100}"


def checked_table(given: TableGiven, what: str, types: dict[str, Any] | None = None) -> Table:
    """A table from a request, with integers of the given `types`, as the API shows them. `what` names the table in
    errors. Raises BadRequest for values that AMQP or a frame cannot hold.
    """
    checked: Table = dict(given)
    fault = value_fault(what, checked)
    if fault:
        raise BadRequest(fault)
    todo: list[object] = [checked]
    while todo:
        each = todo.pop()
        if isinstance(each, dict):
            todo += each.values()
        elif isinstance(each, list):
            todo += each
        elif isinstance(each, int) and not isinstance(each, bool) and each not in _INT64:
            raise BadRequest(f"{what}: {each} has more than 64 bits")
    try:
        return typed_table(checked, types or {})
    except (ValueError, TypeError) as error:
        raise BadRequest(f"{what}: {error}") from error
