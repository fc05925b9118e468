"""The encoding of a message in journal and stream records.

format u8, flags u8, received i64 (Unix ms), exchange u16 + UTF-8, routing key u16 + UTF-8, properties u32 + bytes,
body u32 + bytes; all numbers big-endian.
"""

from typing import Final, final

from librt.strings import BytesWriter, read_i16_be, read_i32_be, read_i64_be, write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i16, i32, i64

from flintmq.base.errors import StorageError
from flintmq.base.limits import ROUTE_CACHE_ENTRIES
from flintmq.broker.message import PERSISTENT, Address, ContentCodec, Message
from flintmq.broker.notes import NOTE_CODEC

FLAG_PERSISTENT: Final = 1
# A block ends when it reaches this size. It is one sector, so that damage destroys little. It is below 5 KiB, from
# where zlib releases the interpreter lock for a checksum that takes one microsecond. A body of this size ends a block
# by itself and is written without a copy.
BLOCK_BYTES: Final = 4_096


@final
class AddressEncoder:
    """Encodes addresses and caches the last one, because publishers send runs of messages to one address."""

    def __init__(self) -> None:
        self._address = Address("", "")
        self._encoded = encode_address(self._address)

    def encode(self, address: Address) -> bytes:
        if address is not self._address:
            self._encoded = encode_address(address)
            self._address = address
        return self._encoded


def encode_address(address: Address) -> bytes:
    exchange = address.exchange.encode()
    routing_key = address.routing_key.encode()
    if len(exchange) > 0x7FFF or len(routing_key) > 0x7FFF:
        raise StorageError("an exchange name or routing key is longer than 32,767 bytes: no record can hold it")
    writer = BytesWriter()
    write_i16_be(writer, i16(len(exchange)))
    writer.write(exchange)
    write_i16_be(writer, i16(len(routing_key)))
    writer.write(routing_key)
    return writer.getvalue()


def write_content_head(writer: BytesWriter, message: Message, address: bytes) -> None:
    """Write the encoding of a message up to its body; the caller writes the body's bytes. `address` is the encoded
    address.
    """
    writer.append(message.codec.format)
    writer.append(FLAG_PERSISTENT if message.options.persistent else 0)
    write_i64_be(writer, message.timestamp_ms)
    writer.write(address)
    properties = message.properties
    write_i32_be(writer, i32(len(properties)))
    writer.write(properties)
    write_i32_be(writer, i32(len(message.body)))


def content_end(data: bytes, position: i64) -> i64:
    """The position after the content that begins at `position`."""
    key_at: i64 = position + 14 + i64(read_i16_be(data, position + 10))
    properties_at: i64 = key_at + i64(read_i16_be(data, key_at - 2)) + 4
    body_at: i64 = properties_at + i64(read_i32_be(data, properties_at - 4)) + 4
    return body_at + i64(read_i32_be(data, body_at - 4))


def _is_at(data: bytes, position: i64, wanted: bytes) -> bool:
    """Tell whether `data` has the bytes `wanted` at this position, without an object for the part to compare."""
    size: i64 = len(wanted)
    at: i64 = 0
    while at + 8 <= size:
        if read_i64_be(data, position + at) != read_i64_be(wanted, at):
            return False
        at += 8
    while at < size:
        if data[position + at] != wanted[at]:
            return False
        at += 1
    return True


@final
class ContentReader:
    """Decodes messages from blocks with a correct checksum. `position` is the position after the last message."""

    def __init__(self, codecs: dict[int, ContentCodec]) -> None:
        self.position: i64 = 0
        self._codecs = codecs
        self._codec: ContentCodec | None = None
        self._format: i64 = -1
        self._addresses: dict[bytes, Address] = {}
        # The last address and its encoding are cached: messages come in runs.
        self._encoded = b""
        self._address_read = Address("", "")
        # The options of the last properties are cached: messages of one publisher often have equal properties.
        self._properties: bytes | None = None
        self._handling = PERSISTENT

    def read(self, data: bytes, position: i64) -> Message:
        message_format: i64 = data[position]
        timestamp_ms = read_i64_be(data, position + 2)
        exchange_at: i64 = position + 12
        key_at: i64 = exchange_at + i64(read_i16_be(data, position + 10)) + 2
        properties_at: i64 = key_at + i64(read_i16_be(data, key_at - 2)) + 4
        address = self._address(data, exchange_at, key_at, properties_at - 4)
        body_at: i64 = properties_at + i64(read_i32_be(data, properties_at - 4)) + 4
        end: i64 = body_at + i64(read_i32_be(data, body_at - 4))
        codec = self._codec
        if codec is None or message_format != self._format:
            codec = self._codec_of(message_format)
        properties = self._properties
        # Reuse the object: otherwise a deep queue would hold many equal copies.
        if (
            properties is None
            or len(properties) != body_at - 4 - properties_at
            or not _is_at(data, properties_at, properties)
        ):
            properties = data[properties_at : body_at - 4]
            self._handling = codec.options(properties)
            self._properties = properties
        self.position = end
        return Message(address, codec, properties, data[body_at:end], self._handling, timestamp_ms)

    def skip(self, data: bytes, position: i64) -> None:
        self.position = content_end(data, position)

    def _address(self, data: bytes, exchange_at: i64, key_at: i64, end: i64) -> Address:
        """The decoded address, one object per distinct address, so that deep queues do not hold many equal copies."""
        known = self._encoded
        if len(known) == end - exchange_at + 2 and _is_at(data, exchange_at - 2, known):
            return self._address_read
        encoded = data[exchange_at - 2 : end]
        address = self._addresses.get(encoded)
        if address is None:
            if len(self._addresses) >= ROUTE_CACHE_ENTRIES:
                self._addresses.clear()
            address = Address(data[exchange_at : key_at - 2].decode(), data[key_at:end].decode())
            self._addresses[encoded] = address
        self._encoded = encoded
        self._address_read = address
        return address

    def _codec_of(self, message_format: i64) -> ContentCodec:
        codec = NOTE_CODEC if message_format == NOTE_CODEC.format else self._codecs.get(message_format)
        if codec is None:
            raise StorageError(
                f"a stored message has content format {message_format}, which this version does not know: "
                "start the release that wrote it"
            )
        self._codec = codec
        self._properties = None
        self._format = message_format
        return codec
