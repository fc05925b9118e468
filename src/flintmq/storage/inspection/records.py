"""Iteration over the records in the blocks of journal and streams, and messages as JSON values."""

from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from flintmq.base.json_values import to_json
from flintmq.broker.message import ContentCodec, Message
from flintmq.storage.content import ContentReader, content_end
from flintmq.storage.journal.records import (
    ENTRIES_AT,
    ENTRY_BYTES,
    MOVED_ENTRY_BYTES,
    RANGE_BYTES,
    RANGES_AT,
    RECORD_MESSAGE,
    record_end,
)
from flintmq.storage.stream.encoder import BLOCK_FIELDS_BYTES, block_fields

_PROPERTIES: Final = (
    *("content_type", "content_encoding", "delivery_mode", "priority", "correlation_id", "reply_to", "expiration"),
    *("message_id", "timestamp", "type", "user_id", "app_id", "cluster_id"),
)


class BrokenBlock(Exception):
    """The records of a block do not fill it exactly, or are of an unknown kind. The checksum is correct, so the writer
    was wrong.
    """


def journal_records(data: bytes, start: i64, length: i64) -> Iterator[i64]:
    """Yield the positions of the records of a journal block. Raises BrokenBlock if they do not fill it exactly."""
    position = start
    end = start + length
    while position < end:
        try:
            following = record_end(data, position)
        except (IndexError, ValueError) as error:
            raise BrokenBlock from error
        if not position < following <= end:
            raise BrokenBlock
        yield position
        position = following


def entries_of(data: bytes, position: i64) -> Iterator[tuple[i64, i64]]:
    """The queue id and sequence number of each entry of the message record at `position`."""
    stride = ENTRY_BYTES if data[position] == RECORD_MESSAGE else MOVED_ENTRY_BYTES
    begin = position + ENTRIES_AT
    for at in range(begin, begin + stride * i64(read_i32_be(data, position + 1)), stride):
        yield read_i64_be(data, at), read_i64_be(data, at + 8)


def settled_ranges(data: bytes, position: i64) -> Iterator[tuple[i64, i64]]:
    """The first sequence number and the length of each range of the settlement record at `position`."""
    begin = position + RANGES_AT
    for at in range(begin, begin + RANGE_BYTES * i64(read_i32_be(data, position + 9)), RANGE_BYTES):
        yield read_i64_be(data, at), i64(read_i32_be(data, at + 8))


def queue_of(data: bytes, position: i64) -> i64:
    """The queue id of the settlement or return record at `position`."""
    return read_i64_be(data, position + 1)


def return_of(data: bytes, position: i64) -> tuple[i64, i64]:
    """The sequence number and the number of returns of the return record at `position`."""
    return read_i64_be(data, position + 9), i64(read_i32_be(data, position + 17))


def stream_records(data: bytes, start: i64, length: i64) -> Iterator[tuple[i64, i64]]:
    """The offset and the content position of each record of a stream block. Raises BrokenBlock."""
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
    """Converts messages to values that JSON can represent."""

    def __init__(self, codecs: dict[int, ContentCodec]) -> None:
        self._content = ContentReader(codecs)

    def describe(self, data: bytes, position: i64) -> dict[str, object]:
        """The message whose content begins at `position`, as a JSON object."""
        message = self._content.read(data, position)
        return {
            "exchange": message.address.exchange,
            "routing_key": message.address.routing_key,
            "persistent": message.options.persistent,
            "received": _time(message.timestamp_ms),
            "properties": _properties(message),
            "headers": to_json(message.codec.headers(message.properties)),
            **_body(message.body),
        }


def _properties(message: Message) -> dict[str, object]:
    """The properties that the message has, by name."""
    found = ((name, message.codec.property_value(message.properties, name)) for name in _PROPERTIES)
    return {name: to_json(value) for name, value in found if value is not None}


def _body(body: bytes) -> dict[str, object]:
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": b64encode(body).decode()}


def _time(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
