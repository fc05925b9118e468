"""Packing: entries of a queue as bytes. It never accesses the disk.

An entry that is like the one before takes up to three bytes beside its body.

Consecutive entries are alike: they have the same address and properties, and consecutive numbers. A bit in the first
byte of an entry says for each of these that it is as in the entry before. The others follow in this order: address
(format u8, origin and length varints, the two names), properties (varint, bytes), seq and position (i64), segment and
slot (i64). Then come the time since the entry before (varint, sign in the lowest bit), the expiry time (i64) and the
number of returns (i32) if there are any, the length of the body (varint), and the body. Large bodies stay separate
objects.

Entries that also have the time, the flag of a redelivery and the length of the body of the one before, and neither an
expiry nor returns, follow it as a repetition: a byte, their number (u16), and their bodies.
"""

from typing import Final, final

from librt.strings import BytesWriter, read_i16_be, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i64, u8

from flintmq.base.limits import ROUTE_CACHE_ENTRIES
from flintmq.broker.message import TRANSIENT, Address, ContentCodec, Entry, Message
from flintmq.broker.ports import JournalRanges, Page
from flintmq.storage.content import encode_address

# Bodies of at least this size are not copied while they stay in memory: a message may be on many queues.
_LARGE_BYTES: Final = 2_048

_SAME_ADDRESS: Final = 1
_SAME_PROPERTIES: Final = 2
_NEXT_NUMBER: Final = 4
_NEXT_SLOT: Final = 8
_REDELIVERED: Final = 16
_EXPIRES: Final = 32
_RETURNED: Final = 64
# Not an entry, but a repetition of the one before.
_REPEATED: Final = 128

_ALIKE: Final = _SAME_ADDRESS | _SAME_PROPERTIES | _NEXT_NUMBER | _NEXT_SLOT
_REPETITION_MAX: Final = 0xFFFF


@final
class Content:
    """The content of a page: in `parts` (the packed entries, and the large bodies), or in a file.

    `file` is the number of the file that has the content, or will have it; 0 for none. `parts` becomes None once the
    content is written, which another thread may do at any time. Sizes and positions are in bytes.
    """

    def __init__(self, packed: bytes, large: list[bytes]) -> None:
        self.parts: tuple[bytes, list[bytes]] | None = (packed, large)
        self.packed_size: i64 = len(packed)
        self.size: i64 = self.packed_size
        for body in large:
            self.size += len(body)
        self.file: i64 = 0
        self.position: i64 = 0
        self.checksum: i64 = 0


@final
class PackedPage(Page):
    """A packed page. `is_run` says that its entries have consecutive seqs, and consecutive slots of one segment or no
    slots.
    """

    def __init__(self) -> None:
        super().__init__()
        self.content = Content(b"", [])
        self.is_run = True
        self.segment: i64 = 0
        self.first_slot: i64 = 0


@final
class Packer:
    def __init__(self, codecs: dict[int, ContentCodec]) -> None:
        self._codecs = codecs
        self._writer = BytesWriter()
        # Decoded addresses: one object for all messages with the same address.
        self._addresses: dict[bytes, Address] = {}

    def pack(self, entries: list[Entry], page: PackedPage) -> None:
        """Pack entries, and make them the content of a page."""
        writer = self._writer
        writer.truncate(0)
        large: list[bytes] = []
        size: i64 = 0
        expires_ms: i64 = 0
        is_run = True
        is_sequence = True
        address = Address("", "")
        codec: ContentCodec | None = None
        properties = b""
        origin: i64 = 0
        seq: i64 = -1
        shift: i64 = 0
        segment: i64 = 0
        slot: i64 = -1
        timestamp_ms: i64 = 0
        redelivered: i64 = 0
        unkept: i64 = 0
        unkept_bytes: i64 = 0
        # The flags and the body's size of an entry that repeats the last one; -1 if none does.
        alike: i64 = -1
        alike_size: i64 = 0
        # Where the number of repetitions is; 0 if the last entry is not one.
        count_at: i64 = 0
        count: i64 = 0
        for entry in entries:
            message = entry.message
            body = message.body
            body_size: i64 = len(body)
            flags: i64 = 0
            if message.address is address and message.codec is codec and message.origin == origin:
                flags = _SAME_ADDRESS
            # Publishers often repeat one properties object; after a restart they are equal objects.
            if message.properties is properties or message.properties == properties:
                flags |= _SAME_PROPERTIES
            if entry.seq == seq + 1 and entry.position - entry.seq == shift:
                flags |= _NEXT_NUMBER
            elif seq >= 0:
                is_sequence = False
            # An entry without a segment has no slot.
            if entry.segment == segment and (segment == 0 or entry.slot == slot + 1):
                flags |= _NEXT_SLOT
            elif seq >= 0:
                is_run = False
            if entry.segment == 0:
                unkept += 1
                unkept_bytes += body_size
            if entry.redelivered:
                flags |= _REDELIVERED
                redelivered += 1
            if entry.expires_ms != 0:
                flags |= _EXPIRES
                if expires_ms == 0 or entry.expires_ms < expires_ms:
                    expires_ms = entry.expires_ms
            if entry.returns != 0:
                flags |= _RETURNED
            if flags == alike and message.timestamp_ms == timestamp_ms and body_size == alike_size:
                if count_at == 0 or count == _REPETITION_MAX:
                    writer.append(_REPEATED)
                    count_at = len(writer)
                    count = 0
                    writer.append(0)
                    writer.append(0)
                count += 1
                writer[count_at] = u8(count >> 8)
                writer[count_at + 1] = u8(count & 255)
                writer.write(body)
                seq += 1
                slot = entry.slot
                size += body_size
                continue
            count_at = 0
            alike = _ALIKE | flags & _REDELIVERED if body_size < _LARGE_BYTES else -1
            alike_size = body_size
            writer.append(u8(flags))
            if not flags & _SAME_ADDRESS:
                address = message.address
                codec = message.codec
                origin = message.origin
                _write_address(writer, codec.format, origin, encode_address(address))
            if not flags & _SAME_PROPERTIES:
                properties = message.properties
                _write_varint(writer, len(properties))
                writer.write(properties)
            seq = entry.seq
            if not flags & _NEXT_NUMBER:
                shift = entry.position - seq
                write_i64_be(writer, seq)
                write_i64_be(writer, entry.position)
            slot = entry.slot
            if not flags & _NEXT_SLOT:
                segment = entry.segment
                write_i64_be(writer, segment)
                write_i64_be(writer, slot)
            later = message.timestamp_ms - timestamp_ms
            timestamp_ms = message.timestamp_ms
            _write_varint(writer, later * 2 if later >= 0 else -later * 2 - 1)
            if flags & _EXPIRES:
                write_i64_be(writer, entry.expires_ms)
            if flags & _RETURNED:
                write_i32_be(writer, entry.returns)
            _write_varint(writer, body_size)
            if body_size >= _LARGE_BYTES:
                large.append(body)
            else:
                writer.write(body)
            size += body_size
        first = entries[0] if entries else None
        page.first_seq = 0 if first is None else first.seq
        page.segment = 0 if first is None else first.segment
        page.first_slot = 0 if first is None else first.slot
        page.first = 0 if first is None else first.position
        page.is_sequence = is_sequence
        page.is_run = is_run and is_sequence
        page.count = len(entries)
        page.body_bytes = size
        page.expires_ms = expires_ms
        page.redelivered = redelivered
        page.unkept = unkept
        page.unkept_bytes = unkept_bytes
        page.content = Content(writer.getvalue(), large)

    def unpack(self, data: bytes, packed_size: i64, large: list[bytes] | None) -> list[Entry]:
        """Unpack all entries. `large` has the large bodies; if it is None, they are in `data` after the packed
        entries.
        """
        entries: list[Entry] = []
        address = Address("", "")
        codec: ContentCodec | None = None
        properties = b""
        options = TRANSIENT
        # True if `options` belongs to the present properties and codec.
        is_known = False
        origin: i64 = 0
        seq: i64 = -1
        shift: i64 = 0
        segment: i64 = 0
        slot: i64 = -1
        timestamp_ms: i64 = 0
        large_count: i64 = 0
        large_at = packed_size
        redelivered = False
        length: i64 = 0
        position: i64 = 0
        while position < packed_size:
            flags: i64 = data[position]
            position += 1
            if flags == _REPEATED:
                assert codec is not None
                count = i64(read_i16_be(data, position)) & 0xFFFF
                position += 2
                while count > 0:
                    body = data[position : position + length]
                    position += length
                    seq += 1
                    slot += 1
                    entry = Entry(Message(address, codec, properties, body, options, timestamp_ms, origin), seq)
                    entry.position = seq + shift
                    entry.segment = segment
                    if segment != 0:
                        entry.slot = slot
                    entry.redelivered = redelivered
                    entries.append(entry)
                    count -= 1
                continue
            if not flags & _SAME_ADDRESS:
                codec = self._codecs[data[position]]
                is_known = False
                position += 1
                origin = _varint_at(data, position)
                position = _varint_end(data, position)
                length = _varint_at(data, position)
                position = _varint_end(data, position)
                address = self._address(data[position : position + length])
                position += length
            if not flags & _SAME_PROPERTIES:
                length = _varint_at(data, position)
                position = _varint_end(data, position)
                properties = data[position : position + length]
                position += length
                is_known = False
            assert codec is not None
            if not is_known:
                options = codec.options(properties)
                is_known = True
            if flags & _NEXT_NUMBER:
                seq += 1
            else:
                seq = read_i64_be(data, position)
                shift = read_i64_be(data, position + 8) - seq
                position += 16
            if flags & _NEXT_SLOT:
                slot += 1
            else:
                segment = read_i64_be(data, position)
                slot = read_i64_be(data, position + 8)
                position += 16
            later = _varint_at(data, position)
            position = _varint_end(data, position)
            timestamp_ms += -((later + 1) >> 1) if later & 1 else later >> 1
            expires_ms: i64 = 0
            if flags & _EXPIRES:
                expires_ms = read_i64_be(data, position)
                position += 8
            returns_at = position
            if flags & _RETURNED:
                position += 4
            length = _varint_at(data, position)
            position = _varint_end(data, position)
            if length < _LARGE_BYTES:
                body = data[position : position + length]
                position += length
            elif large is not None:
                body = large[large_count]
                large_count += 1
            else:
                body = data[large_at : large_at + length]
                large_at += length
            entry = Entry(Message(address, codec, properties, body, options, timestamp_ms, origin), seq)
            entry.position = seq + shift
            entry.segment = segment
            if segment != 0:
                entry.slot = slot
            entry.expires_ms = expires_ms
            redelivered = flags & _REDELIVERED != 0
            entry.redelivered = redelivered
            if flags & _RETURNED:
                entry.returns = read_i32_be(data, returns_at)
            entries.append(entry)
        return entries

    def _address(self, encoded: bytes) -> Address:
        address = self._addresses.get(encoded)
        if address is None:
            if len(self._addresses) >= ROUTE_CACHE_ENTRIES:
                self._addresses.clear()
            key_at: i64 = 2 + i64(read_i16_be(encoded, 0))
            address = Address(encoded[2:key_at].decode(), encoded[key_at + 2 :].decode())
            self._addresses[encoded] = address
        return address


def ranges_of_run(page: PackedPage) -> JournalRanges:
    if page.segment == 0:
        return JournalRanges([], [])
    return JournalRanges(
        [int(page.first_seq), int(page.count)], [int(page.segment), int(page.first_slot), int(page.count)]
    )


def _write_address(writer: BytesWriter, message_format: i64, origin: i64, encoded: bytes) -> None:
    writer.append(u8(message_format))
    _write_varint(writer, origin)
    _write_varint(writer, len(encoded))
    writer.write(encoded)


def _write_varint(writer: BytesWriter, value: i64) -> None:
    while value >= 128:
        writer.append(u8(value & 127 | 128))
        value >>= 7
    writer.append(u8(value))


def _varint_at(data: bytes, position: i64) -> i64:
    value: i64 = data[position]
    if value < 128:
        return value
    value &= 127
    shift: i64 = 7
    while True:
        position += 1
        more: i64 = data[position]
        value |= (more & 127) << shift
        if more < 128:
            return value
        shift += 7


def _varint_end(data: bytes, position: i64) -> i64:
    while data[position] >= 128:
        position += 1
    return position + 1
