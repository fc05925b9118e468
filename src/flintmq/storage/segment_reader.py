"""Reader for the blocks of a segment, for inspection and backup: it uses little memory, and the segment may be written
to meanwhile.

It finds the same blocks and damage as `scan_blocks` does in a file that is in memory. It holds at most the largest
block.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import PurePath
from typing import Final, NamedTuple, final

from flintmq.storage.block import (
    BLOCK_HEAD_BYTES,
    HEADER_BYTES,
    MARK_BYTES,
    TYPE_SEAL,
    Damage,
    FileHeader,
    block_end,
    count_magics,
    decode_header,
    find_last_mark,
    find_magic,
    likely_magic,
)
from flintmq.storage.files import DiskFile

# The file is read in windows of this size. Most blocks have 4 KiB.
WINDOW_BYTES: Final = 1024 * 1024
_MARK_BYTES: Final = BLOCK_HEAD_BYTES + MARK_BYTES
# The end of the fields of a header; the rest is zeros.
_HEADER_FIELDS_BYTES: Final = 40


class Block(NamedTuple):
    """A block of records: the position of its payload in the file, its length, and its bytes, which begin at `at` in
    `data`.
    """

    type: int
    start: int
    length: int
    data: bytes
    at: int

    def position_of(self, at: int) -> int:
        """The position in the file of the byte at index `at` of `data`."""
        return self.start + at - self.at


@final
class SegmentReader:
    """A segment file, up to its size when it was opened.

    `header` is None if it is damaged. `end` is the position after the last block that was read. `damage` lists broken
    parts of the synced part of the file.
    """

    def __init__(self, file: DiskFile, name: str) -> None:
        self.name = name
        self.size = file.size()
        self.damage: list[Damage] = []
        self.end = HEADER_BYTES
        self.sealed = False
        self._file = file
        # The current window, and its position in the file.
        self._window = b""
        self._base = 0
        head = file.read_at(0, HEADER_BYTES)
        self.header: FileHeader | None = decode_header(head, name)
        if self.header is None:
            self.damage.append(Damage(name, 0, "the file's header does not match its checksum", HEADER_BYTES))
            self.magic = self._find_magic()
        else:
            self.magic = self.header.block_magic
            if any(head[_HEADER_FIELDS_BYTES:]):
                length = HEADER_BYTES - _HEADER_FIELDS_BYTES
                reason = "the bytes behind the file's header are not zero"
                self.damage.append(Damage(name, _HEADER_FIELDS_BYTES, reason, length))

    def holds_blocks(self) -> bool:
        return len(self.magic) == 4 and self._next_block(HEADER_BYTES) >= 0

    def synced_position(self) -> int:
        """The position up to which the file was synced, according to its last mark. If the header is lost, everything
        before the first intact block counts as synced, because it was lost with the header.
        """
        synced = self._marked_position()
        if self.header is None and len(self.magic) == 4:
            synced = max(synced, self._next_block(HEADER_BYTES))
        return synced

    def _marked_position(self) -> int:
        end = self.size
        while end > HEADER_BYTES:
            begin = max(end - WINDOW_BYTES, HEADER_BYTES)
            # A mark that begins in this part may end after the part.
            data = self._file.read_at(begin, min(end + _MARK_BYTES, self.size) - begin)
            at = find_last_mark(data, self.magic, end - begin)
            if at >= 0:
                return int.from_bytes(data[at + BLOCK_HEAD_BYTES : at + BLOCK_HEAD_BYTES + 8], "big")
            end = begin
        return 0

    def blocks(self, synced: int) -> Iterator[Block]:
        """Iterate over the blocks of records from `end` on; the file is known to be synced up to `synced`.

        Broken blocks before `synced` are damage, and skipped. Behind it, the first broken block is the end.
        """
        is_whole = synced >= self.size
        while not self.sealed:
            end = self._block_end(self.end)
            if end:
                block = self._block(self.end, end)
                self.sealed = self._window[self.end - self._base + 12] == TYPE_SEAL
                self.end = end
                if block is not None:
                    yield block
                continue
            if self.end >= synced and not is_whole:
                return
            following = self._next_block(self.end + 1)
            if following < 0:
                self.damage.append(Damage(self.name, self.end, "the file ends without its seal", self.size - self.end))
                return
            missing = following - self.end
            self.damage.append(Damage(self.name, self.end, f"{missing} bytes do not match their checksum", missing))
            self.end = following

    def has_remains(self) -> bool:
        """Tell whether the file has the magic of its blocks after `end`: at least the beginning of a block."""
        return len(self.magic) == 4 and self._find(self.end, self.magic) >= 0

    def torn(self) -> Iterator[Block]:
        """The intact blocks of records after `end`, which recovery will cut off."""
        position = self._next_block(self.end)
        while position >= 0:
            end = self._block_end(position)
            if (block := self._block(position, end)) is not None:
                yield block
            position = self._next_block(end)

    def _block(self, position: int, end: int) -> Block | None:
        """The block that was just found; None if it is a mark or a seal."""
        at = position - self._base
        block_type = self._window[at + 12]
        if block_type <= TYPE_SEAL:
            return None
        length = end - position - BLOCK_HEAD_BYTES
        return Block(block_type, position + BLOCK_HEAD_BYTES, length, self._window, at + BLOCK_HEAD_BYTES)

    def _cover(self, position: int, count: int) -> int:
        """Load bytes of the file into the window, up to the end of the file; return their index in the window."""
        at = position - self._base
        if at < 0 or at + count > len(self._window):
            wanted = min(max(count, WINDOW_BYTES), max(self.size - position, 0))
            self._window = self._file.read_at(position, wanted)
            self._base = position
            at = 0
        return at

    def _block_end(self, position: int) -> int:
        """The position after the block at `position`; 0 if there is no intact block."""
        at = self._cover(position, BLOCK_HEAD_BYTES)
        head = self._window[at : at + BLOCK_HEAD_BYTES]
        if len(head) < BLOCK_HEAD_BYTES or head[:4] != self.magic:
            return 0
        size = BLOCK_HEAD_BYTES + int.from_bytes(head[4:8], "big")
        if position + size > self.size:
            return 0
        at = self._cover(position, size)
        end = block_end(self._window, at, self.magic)
        return position + end - at if end else 0

    def _next_block(self, position: int) -> int:
        """The position of the first intact block at or after `position`; -1 if there is none."""
        position = self._find(position, self.magic)
        while position >= 0 and not self._block_end(position):
            position = self._find(position + 1, self.magic)
        return position

    def _find(self, position: int, wanted: bytes) -> int:
        """The first position at or after `position` with the bytes `wanted`; -1 if there is none."""
        while position + len(wanted) <= self.size:
            at = self._cover(position, len(wanted))
            found = self._window.find(wanted, at)
            if found >= 0:
                return self._base + found
            position = max(self._base + len(self._window) - len(wanted), position) + 1
        return -1

    def _find_magic(self) -> bytes:
        """Find the block magic by marks and seals; only if they are not enough, the whole file is loaded."""
        name = PurePath(self.name).stem
        number = int(name) if name.isdecimal() else -1
        counts: Counter[bytes] = Counter()
        for begin in range(HEADER_BYTES, self.size, WINDOW_BYTES):
            # Count the marks that begin in this part; those after it belong to the next part.
            data = self._file.read_at(begin, WINDOW_BYTES + _MARK_BYTES - 1)
            counts.update(count_magics(data, 0, number))
            counts.subtract(count_magics(data, WINDOW_BYTES, number))
        return likely_magic(counts) or find_magic(self._file.read_at(0, self.size), number)
