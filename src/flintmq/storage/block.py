"""The format of journal and stream files: a header of 64 bytes, then blocks.

A block is the unit of damage and of atomicity: magic, length, CRC, type, payload. It holds many small records or one
large one, and is valid as a whole or not at all. A checksum per block, not per message, costs a message almost nothing;
and disks lose sectors of 4 KiB, not single messages.

Each file has its own random magic. A file is overwritten once everything in it is settled. Blocks from its earlier use
have another magic, so the end of the valid blocks is known. After damage, the next block is found by searching for four
bytes that no publisher can know.

This module does no I/O: it gets bytes and returns bytes.
"""

import re
import struct
from collections import Counter
from collections.abc import Sequence
from typing import Final, final

from isal.isal_zlib import crc32
from librt.strings import read_i32_be
from mypy_extensions import i64

from flintmq.base.errors import StorageError

FORMAT_VERSION: Final = 4
# Older versions are read, too: version 2 only lacks checkpoints; version 3 lacks the journal's records about
# definitions and about undelivered messages.
_FORMAT_VERSION_READ: Final = 2
HEADER_BYTES: Final = 64
BLOCK_HEAD_BYTES: Final = 13

KIND_JOURNAL: Final = 1
KIND_STREAM: Final = 2
KIND_STREAM_INDEX: Final = 16

# A MARK block holds the position up to which the file was synced before the blocks after the mark were written. A
# broken block before that position was damaged later; a broken block after the last mark may have been torn by a
# crash. A mark also holds the file's number, and each file begins with a mark: if the header is lost, the marks tell
# which blocks belong to the present use of the file.
TYPE_MARK: Final = 1
# A SEAL block ends a file: nothing follows it.
TYPE_SEAL: Final = 2
TYPE_JOURNAL: Final = 3
TYPE_STREAM: Final = 4
TYPE_LAST: Final = 4

_FILE_MAGIC: Final = b"FLINTMQ\x00"
# File magic, version, kind, number, extra, block magic; then the CRC of all this.
_HEADER: Final = struct.Struct(">8sIIqq4s")
_HEADER_CRC: Final = struct.Struct(">I")
_LENGTH_AND_TYPE: Final = struct.Struct(">IB")
MARK_BYTES: Final = 16
MARK_LENGTH: Final = struct.pack(">I", MARK_BYTES)
_MARK: Final = struct.Struct(">qq")
# Matches a mark or a seal: their lengths and types are known, their magic and checksum are not.
_MARK_OR_SEAL: Final = re.compile(rb"(?s)(?=(.{4})\0\0\0(?:\x10.{4}\x01|\0.{4}\x02))")
# Matches a possible start of a block of records: its type, and the bytes that its first record always has.
_RECORDS: Final = re.compile(rb"(?s)(?=(.{4}).{8}(?:\x03(?:[\x01\x04\x05\x06]\0|[\x02\x03\x07][\0\xff])|\x04\0\0))")
# The search for blocks checks at most this multiple of the file's bytes: publishers may send data that looks like
# blocks.
_SEARCH_FACTOR: Final = 16
# A mark with a number outweighs any number of marks without one.
_NUMBERED: Final = 1 << 40


@final
class FileHeader:
    """The header of a file. `number` is the number of a journal segment, or the first offset of a stream segment;
    `extra` depends on the kind of file.
    """

    def __init__(self, kind: int, number: int, extra: int, block_magic: bytes) -> None:
        self.kind = kind
        self.number = number
        self.extra = extra
        self.block_magic = block_magic


@final
class Damage:
    """Bytes of a file that were written and cannot be read any more. They are skipped, and never delivered.

    `position` and `length` are in bytes; `length` is 0 if unknown. `kept_in` is the file with a copy of the bytes, or
    empty.
    """

    def __init__(self, file: str, position: int, reason: str, length: int = 0) -> None:
        self.file = file
        self.position = position
        self.reason = reason
        self.length = length
        self.kept_in = ""

    def __repr__(self) -> str:
        return f"{self.file} at byte {self.position}: {self.reason}"


@final
class Scan:
    """The contents of a file: payload positions and lengths of its blocks in order, its damage, and where its blocks
    end.
    """

    def __init__(self) -> None:
        self.types: list[int] = []
        self.starts: list[int] = []
        self.lengths: list[int] = []
        self.damage: list[Damage] = []
        # The file is known to be synced up to this position.
        self.synced = HEADER_BYTES
        self.end = HEADER_BYTES
        self.sealed = False


def encode_header(header: FileHeader) -> bytes:
    fields = _HEADER.pack(_FILE_MAGIC, FORMAT_VERSION, header.kind, header.number, header.extra, header.block_magic)
    return (fields + _HEADER_CRC.pack(crc32(fields))).ljust(HEADER_BYTES, b"\x00")


def decode_header(data: bytes, file: str) -> FileHeader | None:
    """Decode the header at the start of `data`; None if it is damaged. Raises StorageError for an unknown format
    version.
    """
    fields = data[: _HEADER.size]
    if len(data) < HEADER_BYTES or _HEADER_CRC.pack(crc32(fields)) != data[_HEADER.size : _HEADER.size + 4]:
        return None
    file_magic, version, kind, number, extra, block_magic = _HEADER.unpack(fields)
    if file_magic != _FILE_MAGIC or not _FORMAT_VERSION_READ <= version <= FORMAT_VERSION:
        raise StorageError(
            f"{file} has storage format {version}, this FlintMQ reads and writes {FORMAT_VERSION}: "
            "start the release that wrote it, or choose another data directory"
        )
    return FileHeader(kind, number, extra, block_magic)


def frame_block(magic: bytes, block_type: int, parts: Sequence[bytes]) -> list[bytes]:
    """Frame a block; return the buffers to write: its head, then the unchanged parts of the payload."""
    length = 0
    for part in parts:
        length += len(part)
    length_and_type = _LENGTH_AND_TYPE.pack(length, block_type)
    # The checksum covers the magic. Otherwise a write that was torn right after the magic would validate a block from
    # the file's earlier use.
    checksum = crc32(length_and_type, crc32(magic))
    for part in parts:
        checksum = crc32(part, checksum)
    head = magic + length_and_type[:4] + _HEADER_CRC.pack(checksum) + length_and_type[4:]
    return [head, *parts]


def mark_payload(synced: int, number: int) -> bytes:
    return _MARK.pack(synced, number)


def block_end(data: bytes, position: i64, magic: bytes) -> i64:
    """The position after the block at `position`; 0 if there is no intact block."""
    size: i64 = len(data)
    head_end: i64 = position + BLOCK_HEAD_BYTES
    if head_end > size or data[position : position + 4] != magic:
        return 0
    end: i64 = head_end + (i64(read_i32_be(data, position + 4)) & 0xFFFF_FFFF)
    if end > size:
        return 0
    block_type: i64 = data[position + 12]
    if block_type == 0 or block_type > TYPE_LAST:
        return 0
    # The checksum covers the whole block except the checksum itself.
    checksum: i64 = crc32(memoryview(data)[position + 12 : end], crc32(data[position : position + 8]))
    return end if checksum == i64(read_i32_be(data, position + 8)) & 0xFFFF_FFFF else 0


def next_block(data: bytes, position: int, magic: bytes) -> int:
    """The position of the first intact block at or after `position`; -1 if there is none."""
    if not magic:
        return -1
    position = data.find(magic, position)
    while position >= 0 and not block_end(data, position, magic):
        position = data.find(magic, position + 1)
    return position


def find_magic(data: bytes, number: int) -> bytes:
    """Find the block magic of a file whose header is damaged; empty if it cannot be found. `number` is the file's
    number.
    """
    counts = count_magics(data, HEADER_BYTES, number)
    return likely_magic(counts) or _magic_of_blocks(data, counts)


def likely_magic(counts: Counter[bytes]) -> bytes:
    """The most probable magic, given the result of `count_magics`; empty if no mark supports one."""
    if not counts:
        return b""
    magic, count = counts.most_common(1)[0]
    return magic if count > 0 else b""


def _magic_of_blocks(data: bytes, counts: Counter[bytes]) -> bytes:
    """The magic of the largest share of intact blocks, except magics that marks speak against."""
    first = data[HEADER_BYTES : HEADER_BYTES + 4]
    if counts[first] >= 0 and block_end(data, HEADER_BYTES, first):
        return first
    sizes: Counter[bytes] = Counter()
    budget = _SEARCH_FACTOR * len(data)
    match = _RECORDS.search(data, HEADER_BYTES)
    while match is not None and budget > 0:
        at = match.start()
        end = at + BLOCK_HEAD_BYTES + int.from_bytes(data[at + 4 : at + 8], "big")
        following = at + 1
        if end <= len(data) and counts[match[1]] >= 0:
            budget -= end - at
            if block_end(data, at, match[1]):
                # Anything that looks like a block inside this one is content of a message.
                sizes[match[1]] += end - at
                following = end
        match = _RECORDS.search(data, following)
    return sizes.most_common(1)[0][0] if sizes else b""


def count_magics(data: bytes, position: int, number: int) -> Counter[bytes]:
    """Score each magic by the intact marks and seals from `position` on, for a file with this number.

    Marks with another number are from an earlier use of the file, and count against their magic. A caller that adds
    such counts must keep the negative ones.
    """
    counts: Counter[bytes] = Counter()
    for match in _MARK_OR_SEAL.finditer(data, position):
        at = match.start()
        end = block_end(data, at, match[1])
        if not end:
            continue
        if end - at == BLOCK_HEAD_BYTES + MARK_BYTES:
            is_ours = _MARK.unpack_from(data, at + BLOCK_HEAD_BYTES)[1] == number
            counts[match[1]] += _NUMBERED if is_ours else -_NUMBERED
        else:
            counts[match[1]] += 1
    return counts


def scan_blocks(data: bytes, magic: bytes, file: str, synced_whole: bool, header_lost: bool = False) -> Scan:
    """Find the blocks of a file.

    `synced_whole` says that the whole file is known to have been synced, because a later file holds blocks. A broken
    block in the synced part is damage: it is reported and skipped. In the rest, the first broken block is where a crash
    tore the file. Everything after it is cut off even if it is intact: a settlement must not survive the message that
    was the reason for it. `header_lost` says that the header is damaged. The header is synced before everything else,
    so what is between it and the first intact block was damaged, not torn.
    """
    found = Scan()
    synced = len(data) if synced_whole else _synced_position(data, magic)
    if header_lost:
        synced = max(synced, next_block(data, HEADER_BYTES, magic))
    found.synced = max(synced, HEADER_BYTES)
    position = HEADER_BYTES
    while not found.sealed:
        end = block_end(data, position, magic)
        if end:
            found.sealed = data[position + 12] == TYPE_SEAL
            if data[position + 12] > TYPE_SEAL:
                found.types.append(data[position + 12])
                found.starts.append(position + BLOCK_HEAD_BYTES)
                found.lengths.append(end - position - BLOCK_HEAD_BYTES)
            position = end
            continue
        if position >= synced and not synced_whole:
            break
        following = next_block(data, position + 1, magic)
        if following < 0:
            found.damage.append(Damage(file, position, "the file ends without its seal", len(data) - position))
            break
        length = following - position
        found.damage.append(Damage(file, position, f"{length} bytes do not match their checksum", length))
        position = following
    found.end = position
    return found


def _synced_position(data: bytes, magic: bytes) -> int:
    """The synced position according to the last intact mark; 0 without one."""
    position = find_last_mark(data, magic, len(data))
    start = position + BLOCK_HEAD_BYTES
    return int.from_bytes(data[start : start + 8], "big") if position >= 0 else 0


def find_last_mark(data: bytes, magic: bytes, end: int) -> int:
    """The position of the last intact mark that begins before `end`; -1 if there is none."""
    wanted = magic + bytes(3)
    position = data.rfind(wanted, 0, end + len(wanted) - 1)
    while position >= 0:
        if (
            data[position + 4 : position + 8] == MARK_LENGTH
            and block_end(data, position, magic)
            and data[position + 12] == TYPE_MARK
        ):
            return position
        position = data.rfind(wanted, 0, position + len(wanted) - 1)
    return -1
