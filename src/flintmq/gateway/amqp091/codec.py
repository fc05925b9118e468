"""Reads and edits the properties of messages that came by AMQP 0-9-1."""

import re
from typing import Final, final

from mypy_extensions import i64

from flintmq.base.errors import AmqpError, LocalProtocolError, PreconditionFailed
from flintmq.base.limits import (
    DECODED_BYTES_PER_UNIT,
    DELAY_MAX_MS,
    EXPIRY_MAX_MS,
    FRAME_MAX_BYTES,
    FRAME_OVERHEAD_BYTES,
)
from flintmq.base.values import Timestamp
from flintmq.base.work import WORK
from flintmq.broker.message import FOREVER, PAUSE, RESUME, UNSTATED, ContentCodec, MessageOptions, Table
from flintmq.gateway.conversion.ids import id_to_10, reply_to_10
from flintmq.gateway.conversion.plain import plain
from flintmq.wire.amqp091.frames import CONTENT_HEADER_BYTES
from flintmq.wire.amqp091.properties import (
    Properties,
    Scan,
    decode_properties,
    encode_properties,
    headers,
    scan,
    short_at,
)
from flintmq.wire.amqp10.values import Uuid

_PERSISTENT: Final = 2
# The bytes that a delivery may add to properties: x-delivery-count or x-stream-offset.
_ADDED_BYTES: Final = 64
# An expiration: ASCII digits, and perhaps a sign.
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
# Headers that delay a message on its queues: for a number of milliseconds, or until a time.
DELAY_HEADER: Final = "x-delay"
DELIVER_AT_HEADER: Final = "x-deliver-at"
# The header that cancels the delayed message with this message-id. The message with the header is not delivered.
CANCEL_HEADER: Final = "x-delay-cancel"
# The header with the number of failed deliveries.
DELIVERY_COUNT: Final = "x-delivery-count"
_DELIVERY_COUNT: Final = DELIVERY_COUNT.encode()
_UINT_MAX: Final = 2**32 - 1
# Properties of AMQP 1.0 that AMQP 0-9-1 does not have, or has by another name.
_ONLY_IN_10: Final = (
    "to", "subject", "creation_time", "absolute_expiry_time", "group_id", "group_sequence", "reply_to_group_id",
)  # fmt: skip
# The header with a command for the queue that the message is published to. The message is not delivered.
COMMAND_HEADER: Final = "x-queue-command"


@final
class Codec091(ContentCodec):
    format = 1
    nothing = b"\x00\x00"
    # The room in a frame of the default size, less what a delivery may add.
    properties_max = FRAME_MAX_BYTES - FRAME_OVERHEAD_BYTES - CONTENT_HEADER_BYTES - _ADDED_BYTES

    def __init__(self) -> None:
        # The last properties, encoded and decoded: many selectors read the same message.
        self._encoded = b""
        self._decoded = Properties()

    def headers(self, properties: bytes) -> Table:
        WORK.spent += len(properties) // DECODED_BYTES_PER_UNIT
        return headers(properties)

    def property_text(self, properties: bytes, name: str) -> str:
        value = self.property_value(properties, name)
        return "" if value is None else str(value)

    def property_value(self, properties: bytes, name: str) -> object:
        if properties is not self._encoded:
            WORK.spent += len(properties) // DECODED_BYTES_PER_UNIT
            self._decoded = decode_properties(properties)
            self._encoded = properties
        decoded = self._decoded
        if name in _ONLY_IN_10:
            # These properties are mapped as in docs/conversions.md.
            if name == "group_id":
                return decoded.app_id
            return decoded.timestamp * 1000 if name == "creation_time" and decoded.timestamp is not None else None
        return getattr(decoded, name)

    def section_value(self, properties: bytes, name: str) -> object:
        value = self.property_value(properties, name)
        if isinstance(value, str):
            if name == "user_id":
                return value.encode()
            if name == "message_id" or name == "correlation_id":
                named = id_to_10(value)
                return named.raw if isinstance(named, Uuid) else value
            if name == "reply_to":
                return reply_to_10(value)
        return value

    def options(self, properties: bytes) -> MessageOptions:
        found = scan(properties)
        try:
            return options(properties, found)
        except AmqpError:
            # An earlier release stored the message without checking these properties.
            return MessageOptions(found.delivery_mode == _PERSISTENT)

    def edited(self, properties: bytes, headers: Table, keeps_expiration: bool) -> bytes:
        decoded = decode_properties(properties)
        decoded.headers = headers
        if not keeps_expiration:
            decoded.expiration = None
        return encode_properties(decoded)

    def failed(self, properties: bytes, times: int) -> bytes:
        """Add `times` to the header x-delivery-count (RabbitMQ)."""
        decoded = decode_properties(properties)
        decoded.headers = {**(decoded.headers or {}), DELIVERY_COUNT: failures(properties) + times}
        return encode_properties(decoded)

    def annotated(self, properties: bytes, annotations: Table) -> bytes:
        """Add annotations as headers. Those whose values no header can have, or that fit no frame, are left out."""
        decoded = decode_properties(properties)
        headers = dict(decoded.headers or {})
        for name, value in annotations.items():
            before = dict(headers)
            known = plain(value)
            if known is None and value is not None:
                continue
            headers[name] = known
            decoded.headers = headers
            try:
                encoded = encode_properties(decoded)
            except LocalProtocolError:
                headers = before
                continue
            if len(encoded) > self.properties_max:
                # With this header the message could not be sent to any client.
                headers = before
            else:
                properties = encoded
        return properties


CODEC_091: Final = Codec091()


def failures(properties: bytes) -> int:
    """The number of failed deliveries of a message before it was dead-lettered."""
    # A search that finds nothing is cheaper by far than decoding a table.
    if _DELIVERY_COUNT not in properties:
        return 0
    count = CODEC_091.headers(properties).get(DELIVERY_COUNT)
    return min(count, _UINT_MAX) if isinstance(count, int) and not isinstance(count, bool) and count > 0 else 0


def options(properties: bytes, found: Scan) -> MessageOptions:
    """The options for queues in scanned properties. Raises PreconditionFailed for invalid ones."""
    ttl_ms: i64 = FOREVER
    if found.expiration_at:
        ttl_ms = _expiration(short_at(properties, found.expiration_at))
    delay_ms: i64 = 0
    until_ms: i64 = 0
    cancels = ""
    command = ""
    # A search that finds nothing is cheaper by far than decoding a table.
    if found.headers_at and b"x-del" in properties[found.headers_at : found.headers_end]:
        table = headers(properties)
        delay = table.get(DELAY_HEADER)
        if isinstance(delay, int) and not isinstance(delay, bool) and delay > 0:
            if delay > DELAY_MAX_MS:
                raise PreconditionFailed(f"invalid header '{DELAY_HEADER}': {delay} ms is more than {DELAY_MAX_MS}")
            delay_ms = delay
        until_ms = _moment(table.get(DELIVER_AT_HEADER))
        cancels = _cancelled(table.get(CANCEL_HEADER))
    if found.headers_at and b"x-queue-command" in properties[found.headers_at : found.headers_end]:
        command = _command(headers(properties).get(COMMAND_HEADER))
    priority = UNSTATED if found.priority < 0 else found.priority
    return MessageOptions(found.delivery_mode == _PERSISTENT, priority, ttl_ms, delay_ms, until_ms, cancels, command)


def _cancelled(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or value == "":
        raise PreconditionFailed(f"invalid header '{CANCEL_HEADER}': the message-id of a delayed message is due")
    return value


def _command(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or value not in (PAUSE, RESUME):
        raise PreconditionFailed(f"invalid header '{COMMAND_HEADER}': {PAUSE} or {RESUME} is due")
    return value


def _expiration(text: str) -> i64:
    """Parse an expiration in milliseconds. Raises PreconditionFailed, in RabbitMQ's words, if it is invalid."""
    number = _INTEGER.match(text)
    if number is None:
        raise PreconditionFailed(f"invalid expiration '{text}': no_integer")
    rest = text[number.end() :]
    if rest:
        raise PreconditionFailed(f"invalid expiration '{text}': {{leftover_string,\"{rest}\"}}")
    ttl = int(text)
    if ttl < 0:
        raise PreconditionFailed(f"invalid expiration '{text}': {{value_negative,{ttl}}}")
    if ttl > EXPIRY_MAX_MS:
        raise PreconditionFailed(f"invalid expiration '{text}': {{value_too_large,{ttl}}}")
    return ttl


def _moment(value: object) -> i64:
    """Unix time in ms from a timestamp in seconds, or from a number in milliseconds; 0 for any other value."""
    if isinstance(value, Timestamp) and value.seconds < 2**50:
        return value.seconds * 1000
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**60:
        return value
    return 0
