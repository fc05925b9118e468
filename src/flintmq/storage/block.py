"""The form of journal and stream files: a header of 64 bytes, then blocks.

A block is the unit of damage and of atomicity: magic, length, CRC, type, payload. It holds many small records or one
large one, and counts as a whole or not at all. Checksums per block and not per message keep them off the path of
each message; disks lose sectors of 4 KiB, not single messages.

The magic is drawn at random for each file. Files are written again when all in them is settled: what an earlier life
left behind does not have the present magic, so the end of the valid blocks is known, and after damage the next block
is found by searching for four bytes that no publisher can know.

This module only computes: it is given bytes and returns bytes.
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
# What files of the versions before this one hold is read as it is: version 2 only lacks checkpoints, version 3 what the
# journal says of definitions, and of messages that were not delivered.
_FORMAT_VERSION_READ: Final = 2
HEADER_BYTES: Final = 64
BLOCK_HEAD_BYTES: Final = 13

KIND_JOURNAL: Final = 1
KIND_STREAM: Final = 2
KIND_STREAM_INDEX: Final = 16

# MARK holds the position up to which the file was synced before the blocks behind it were written: what is broken
# before it was damaged later, what is broken behind the last one may merely have been torn by a crash. It also holds
# the file's number, and each file begins with one: should the header be lost, they tell which of the blocks are of the
# file's present life.
TYPE_MARK: Final = 1
# SEAL ends a file: nothing follows it.
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
# A mark or a seal: their lengths and types are known, their magic and checksum are not.
_MARK_OR_SEAL: Final = re.compile(rb"(?s)(?=(.{4})\0\0\0(?:\x10.{4}\x01|\0.{4}\x02))")
# What may be the beginning of a block of records, by its type and by what is always so in its first record.
_RECORDS: Final = re.compile(rb"(?s)(?=(.{4}).{8}(?:\x03(?:[\x01\x04\x05\x06]\0|[\x02\x03\x07][\0\xff])|\x04\0\0))")
# In the search for these, so many times the file's bytes are checked at most: what publishers send may look like them.
_SEARCH_FACTOR: Final = 16
# What a mark with a number counts for, beside those without.
_NUMBERED: Final = 1 << 40


@final
class FileHeader:
    """`number` is the segment of a journal, or the first offset of a stream segment; `extra` is its kind's own."""

    def __init__(self, kind: int, number: int, extra: int, block_magic: bytes) -> None:
        self.kind = kind
        self.number = number
        self.extra = extra
        self.block_magic = block_magic


@final
class Damage:
    """Bytes that were on the disk once and cannot be read any more: set aside, never delivered.

    `length` is 0 where it is not known; `kept_in` is the file with a copy, empty while there is none.
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
    """What a file holds: payload positions and lengths of its blocks in order, its damage, and where it ends."""

    def __init__(self) -> None:
        self.types: list[int] = []
        self.starts: list[int] = []
        self.lengths: list[int] = []
        self.damage: list[Damage] = []
        # Up to where the file is known to be synced.
        self.synced = HEADER_BYTES
        self.end = HEADER_BYTES
        self.sealed = False


def encode_header(header: FileHeader) -> bytes:
    fields = _HEADER.pack(_FILE_MAGIC, FORMAT_VERSION, header.kind, header.number, header.extra, header.block_magic)
    return (fields + _HEADER_CRC.pack(crc32(fields))).ljust(HEADER_BYTES, b"\x00")


def decode_header(data: bytes, file: str) -> FileHeader | None:
    """The header at the start of a file, None when it is damaged. Raises StorageError for a format not ours."""
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
    """A block as a list of buffers to write: its head, then the payload's parts as they came."""
    length = 0
    for part in parts:
        length += len(part)
    length_and_type = _LENGTH_AND_TYPE.pack(length, block_type)
    # The magic counts, too: torn behind it, a block would be what an earlier life of the file left here.
    checksum = crc32(length_and_type, crc32(magic))
    for part in parts:
        checksum = crc32(part, checksum)
    head = magic + length_and_type[:4] + _HEADER_CRC.pack(checksum) + length_and_type[4:]
    return [head, *parts]


def mark_payload(synced: int, number: int) -> bytes:
    return _MARK.pack(synced, number)


def block_end(data: bytes, position: i64, magic: bytes) -> i64:
    """Where the block at `position` ends; 0 when there is no intact block."""
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
    # Of all but itself.
    checksum: i64 = crc32(memoryview(data)[position + 12 : end], crc32(data[position : position + 8]))
    return end if checksum == i64(read_i32_be(data, position + 8)) & 0xFFFF_FFFF else 0


def next_block(data: bytes, position: int, magic: bytes) -> int:
    """The first position from `position` on with an intact block; -1 when there is none."""
    if not magic:
        return -1
    position = data.find(magic, position)
    while position >= 0 and not block_end(data, position, magic):
        position = data.find(magic, position + 1)
    return position


def find_magic(data: bytes, number: int) -> bytes:
    """The block magic of a file of this number whose header is damaged; empty when nothing in it tells."""
    counts = count_magics(data, HEADER_BYTES, number)
    return likely_magic(counts) or _magic_of_blocks(data, counts)


def likely_magic(counts: Counter[bytes]) -> bytes:
    """By what `count_magics` found; empty when no mark tells."""
    if not counts:
        return b""
    magic, count = counts.most_common(1)[0]
    return magic if count > 0 else b""


def _magic_of_blocks(data: bytes, counts: Counter[bytes]) -> bytes:
    """The magic of most of what is intact, but for those that marks speak against."""
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
                # What looks like a block within this one was made to.
                sizes[match[1]] += end - at
                following = end
        match = _RECORDS.search(data, following)
    return sizes.most_common(1)[0][0] if sizes else b""


def count_magics(data: bytes, position: int, number: int) -> Counter[bytes]:
    """How the intact marks and seals from `position` on speak for each magic, in a file of this number.

    Marks of another number are what an earlier life of the file left: they speak against theirs. Whoever adds such
    counts must keep those below 0.
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

    `synced_whole` says that all of it is known to have been synced, because a later file holds blocks. A broken
    block where the file was synced is damage: reported and skipped. Behind that the first broken block is where a
    crash tore the file, and what follows is cut off even when intact: a settlement must not survive the message
    that was its reason. What broke the header, which was synced before all else, broke what is between it and the first
    intact block, too.
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
    """What the last intact mark says."""
    position = find_last_mark(data, magic, len(data))
    start = position + BLOCK_HEAD_BYTES
    return int.from_bytes(data[start : start + 8], "big") if position >= 0 else 0


def find_last_mark(data: bytes, magic: bytes, end: int) -> int:
    """Where the last intact mark is that begins before `end`; -1 when there is none."""
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
