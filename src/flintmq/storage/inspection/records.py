"""The records in the blocks of journal and streams, as inspection sees them: one after the other, in order."""

from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from librt.strings import read_i16_be, read_i32_be, read_i64_be
from mypy_extensions import i64

from flintmq.base.json_values import to_json
from flintmq.broker.message import ContentCodec, Message
from flintmq.storage.content import ContentReader
from flintmq.storage.journal.records import RECORD_MESSAGE, RECORD_MOVED, RECORD_RETURN, RECORD_SETTLEMENT
from flintmq.storage.stream.encoder import BLOCK_FIELDS_BYTES, block_fields

_PROPERTIES: Final = (
    *("content_type", "content_encoding", "delivery_mode", "priority", "correlation_id", "reply_to", "expiration"),
    *("message_id", "timestamp", "type", "user_id", "app_id", "cluster_id"),
)


class BrokenBlock(Exception):
    """The records of a block do not fill it, or are of no known kind: its checksum was right, its writer was not."""


def content_end(data: bytes, position: i64) -> i64:
    key_at: i64 = position + 14 + i64(read_i16_be(data, position + 10))
    properties_at: i64 = key_at + i64(read_i16_be(data, key_at - 2)) + 4
    body_at: i64 = properties_at + i64(read_i32_be(data, properties_at - 4)) + 4
    return body_at + i64(read_i32_be(data, body_at - 4))


def content_position(data: bytes, position: i64) -> i64:
    """Where the content of the message record at `position` begins."""
    count = i64(read_i32_be(data, position + 1))
    return position + 5 + (16 * count if data[position] == RECORD_MESSAGE else 20 * count + 8)


def _record_end(data: bytes, position: i64) -> i64:
    kind = data[position]
    if kind in (RECORD_MESSAGE, RECORD_MOVED):
        return content_end(data, content_position(data, position))
    if kind == RECORD_SETTLEMENT:
        return position + 13 + 12 * i64(read_i32_be(data, position + 9))
    if kind == RECORD_RETURN:
        return position + 21
    raise BrokenBlock


def journal_records(data: bytes, start: i64, length: i64) -> Iterator[i64]:
    """Where the records of a journal block begin. Raises BrokenBlock."""
    position = start
    end = start + length
    while position < end:
        try:
            following = _record_end(data, position)
        except (IndexError, ValueError) as error:
            raise BrokenBlock from error
        if not position < following <= end:
            raise BrokenBlock
        yield position
        position = following


def places_of(data: bytes, position: i64) -> Iterator[tuple[i64, i64]]:
    """The queues, and the places on them, of the message record at `position`."""
    stride = 16 if data[position] == RECORD_MESSAGE else 20
    for at in range(position + 5, position + 5 + stride * i64(read_i32_be(data, position + 1)), stride):
        yield read_i64_be(data, at), read_i64_be(data, at + 8)


def settled_by(data: bytes, position: i64) -> Iterator[tuple[i64, i64]]:
    """The first places and the lengths of the runs that the settlement record at `position` settles."""
    for at in range(position + 13, position + 13 + 12 * i64(read_i32_be(data, position + 9)), 12):
        yield read_i64_be(data, at), i64(read_i32_be(data, at + 8))


def queue_of(data: bytes, position: i64) -> i64:
    """Of a settlement or a return."""
    return read_i64_be(data, position + 1)


def returned_by(data: bytes, position: i64) -> tuple[i64, i64]:
    """The place, and how often its message came back to it."""
    return read_i64_be(data, position + 9), i64(read_i32_be(data, position + 17))


def stream_records(data: bytes, start: i64, length: i64) -> Iterator[tuple[i64, i64]]:
    """The offsets of the records of a stream block, and where their contents begin. Raises BrokenBlock."""
    try:
        offset, _, count = block_fields(data, start)
        position = start + BLOCK_FIELDS_BYTES
        for number in range(count):
            following = content_end(data, position)
            if following > start + length:
                raise BrokenBlock
            yield offset + number, position
            position = following
    except (IndexError, ValueError) as error:
        raise BrokenBlock from error
    if position != start + length:
        raise BrokenBlock


class Describer:
    """Messages as values that JSON can hold."""

    def __init__(self, codecs: dict[int, ContentCodec]) -> None:
        self._content = ContentReader(codecs)

    def describe(self, data: bytes, position: i64) -> dict[str, object]:
        """The message whose content is at `position`."""
        message = self._content.read(data, position)
        return {
            "exchange": message.address.exchange,
            "routing_key": message.address.routing_key,
            "persistent": message.handling.persistent,
            "received": _time(message.timestamp_ms),
            "properties": _properties(message),
            "headers": to_json(message.codec.headers(message.properties)),
            **_body(message.body),
        }


def _properties(message: Message) -> dict[str, object]:
    """Those that are there."""
    found = ((name, message.codec.property_value(message.properties, name)) for name in _PROPERTIES)
    return {name: to_json(value) for name, value in found if value is not None}


def _body(body: bytes) -> dict[str, object]:
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": b64encode(body).decode()}


def _time(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
