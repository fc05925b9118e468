"""Encodes messages for a link: the broker's header, the broker's annotations, and the bare message as it came.

The bare message is what its publisher sent, byte for byte (amqp-1.0 part 3 §3.2). Header and annotations are the same
for most messages of a link, so they are cached.
"""

from typing import Final, final

from librt.strings import BytesWriter, read_i32_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from flintmq.base.errors import DecodeError
from flintmq.broker.message import Address, Entry
from flintmq.broker.queue.base import Queue
from flintmq.broker.tick import Tick
from flintmq.gateway.amqp091.codec import CODEC_091, failures
from flintmq.gateway.amqp10.codec import CODEC_10
from flintmq.gateway.conversion import names
from flintmq.gateway.conversion.converted import TO_10
from flintmq.wire.amqp10.properties import Header
from flintmq.wire.amqp10.sections import (
    ABSENT,
    decode_header,
    decode_message_annotations,
    encode_header,
    scan,
    section_at,
)
from flintmq.wire.amqp10.sections import encode_message_annotations as encode_annotations
from flintmq.wire.amqp10.spec import MESSAGE_ANNOTATIONS, PROPERTIES
from flintmq.wire.amqp10.types import DESCRIBED, MAP8, MAP32, SMALLULONG, ULONG
from flintmq.wire.amqp10.writer import write_string, write_symbol

# Annotations: the address of a message, and its offset in a stream (RabbitMQ's names).
_EXCHANGE: Final = "x-exchange"
_ROUTING_KEY: Final = "x-routing-key"
_STREAM_OFFSET: Final = "x-stream-offset"

_NO_HEADER: Final = Header()
_NO_ADDRESS: Final = Address("", "")
_DEATHS: Final = names.DEATHS.encode()
_UINT_MAX: Final = 0xFFFF_FFFF
_DESCRIPTION_BYTES: Final = 3


@final
class MessageEncoder:
    """Encodes the messages of one link. `body` is the body of the message whose `head` was encoded last."""

    def __init__(self, tick: Tick) -> None:
        self.body = b""
        self._tick = tick
        # The cached head: it is valid for these sections and this address.
        self._sections = b""
        self._address = _NO_ADDRESS
        self._head = b""
        # The part of the cached head before the bare message, and the published sections that it was made of.
        self._led = b""
        self._lead = b""
        # Further caches: the decoded header, and the annotations before and after those of the address were added.
        self._encoded_header = b""
        self._header = _NO_HEADER
        self._annotations = b""
        self._added: Address = _NO_ADDRESS
        self._addition = b""
        self._annotated = b""

    def head(self, queue: Queue, entry: Entry) -> bytes:
        """Encode all sections before the body, as they are sent with this delivery of the entry."""
        message = entry.message
        if message.codec is CODEC_10:
            sections = message.properties
            self.body = message.body
        else:
            sections, self.body = TO_10.in_10(message)
        address = message.address
        is_first = not entry.redelivered and entry.returns == 0 and not queue.keeps_all
        if is_first and address is self._address and (sections is self._sections or sections == self._sections):
            return self._head
        if is_first and address is self._address and self._leads(sections):
            return self._led + sections[len(self._lead) :]
        found = scan(sections)
        bare = found.bare
        header_end: i64 = 0
        if found.header != ABSENT:
            header_end = bare if found.message_annotations == ABSENT else found.message_annotations
        header = self._read_header(sections[:header_end])
        ttl = header.ttl
        if ttl is not None:
            ttl = max(0, ttl - int(self._tick.now_ms - message.timestamp_ms))
        annotations = self._with_address(sections[header_end:bare], address)
        returns = header.delivery_count + int(entry.returns)
        is_new = not entry.redelivered
        if message.origin == 0 and _DEATHS in annotations:
            # A dead letter may have been acquired before it was dead-lettered, so first-acquirer is false (RabbitMQ).
            is_new = False
            if message.codec is CODEC_091:
                returns += failures(message.properties)
        encoded = encode_header(header.durable, header.priority, ttl, is_new, min(returns, _UINT_MAX))
        if queue.keeps_all:
            annotations = _added(annotations, _offset(entry.seq), 2)
        led = encoded + annotations
        head = led + sections[bare:]
        if is_first and ttl is None:
            self._sections = sections
            self._address = address
            self._head = head
            self._led = led
            self._lead = sections[:bare]
        return head

    def _leads(self, sections: bytes) -> bool:
        """Whether the sections begin as the cached ones, and only those of the bare message differ."""
        size: i64 = len(self._lead)
        if not sections.startswith(self._lead):
            return False
        if len(sections) == size:
            return True
        return (
            len(sections) - size > _DESCRIPTION_BYTES
            and sections[size] == DESCRIBED
            and sections[size + 1] == SMALLULONG
            and sections[size + 2] >= PROPERTIES
        )

    def _read_header(self, encoded: bytes) -> Header:
        if not encoded:
            return _NO_HEADER
        if encoded != self._encoded_header:
            self._encoded_header = encoded
            try:
                self._header = decode_header(encoded, 0)
            except DecodeError:
                # A malformed header counts as an empty one, as it did at publishing: it must not block the queue.
                self._header = _NO_HEADER
        return self._header

    def _with_address(self, annotations: bytes, address: Address) -> bytes:
        if address is self._added and annotations == self._annotations:
            return self._annotated
        if address is not self._added:
            self._added = address
            self._addition = _entries(address)
        self._annotations = annotations
        self._annotated = _added(_without_address(annotations), self._addition, 4)
        return self._annotated


def _entries(address: Address) -> bytes:
    w = BytesWriter()
    write_symbol(w, _EXCHANGE)
    write_string(w, address.exchange)
    write_symbol(w, _ROUTING_KEY)
    write_string(w, address.routing_key)
    return w.getvalue()


def _offset(offset: i64) -> bytes:
    w = BytesWriter()
    write_symbol(w, _STREAM_OFFSET)
    w.append(ULONG)
    write_i64_be(w, offset)
    return w.getvalue()


def _without_address(annotations: bytes) -> bytes:
    """Remove annotations about the address: a publisher or another broker wrote them for another address."""
    if b"x-exchange" not in annotations and b"x-routing-key" not in annotations:
        return annotations
    decoded = decode_message_annotations(annotations, 0)
    decoded.pop(_EXCHANGE, None)
    decoded.pop(_ROUTING_KEY, None)
    return encode_annotations(decoded)


def _added(annotations: bytes, entries: bytes, count: i64) -> bytes:
    """Append `entries`, an encoded list of map entries, to a section of annotations.

    `count` is the number of keys and values in them. None of their keys may be in the section already.
    """
    content = b""
    had: i64 = 0
    if annotations:
        at = _value_at(annotations)
        if annotations[at] == MAP8:
            had = annotations[at + 2]
            content = annotations[at + 3 :]
        else:
            had = i64(read_i32_be(annotations, at + 5))
            content = annotations[at + 9 :]
    w = BytesWriter()
    w.append(DESCRIBED)
    w.append(SMALLULONG)
    w.append(MESSAGE_ANNOTATIONS)
    size: i64 = len(content) + len(entries)
    had += count
    if size + 1 < 256 and had < 256:
        w.append(MAP8)
        w.append(size + 1)
        w.append(had)
    else:
        w.append(MAP32)
        write_i32_be(w, i32(size + 4))
        write_i32_be(w, i32(had))
    w.write(content)
    w.write(entries)
    return w.getvalue()


def _value_at(section: bytes) -> i64:
    """The position of the map in an encoded section."""
    return section_at(section, 0, len(section))[1]
