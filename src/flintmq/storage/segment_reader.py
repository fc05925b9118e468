"""Goes through the blocks of a segment in bounded memory, and while it may be written to: for inspection and backup.

It finds what `scan_blocks` finds in a file that is held as a whole. At most the largest block is in memory.
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

# What is read at once. Most blocks have 4 KiB.
WINDOW_BYTES: Final = 1024 * 1024
_MARK_BYTES: Final = BLOCK_HEAD_BYTES + MARK_BYTES
# Where the fields of a header end: zeros follow.
_HEADER_FIELDS_BYTES: Final = 40


class Block(NamedTuple):
    """A block of records: where its payload starts in the file, its length, and the bytes, from `at` on in `data`."""

    type: int
    start: int
    length: int
    data: bytes
    at: int

    def position_of(self, at: int) -> int:
        """Where in the file something is that is at `at` in `data`."""
        return self.start + at - self.at


@final
class SegmentReader:
    """A segment file, up to the size it has now.

    `header` is None where it is damaged. `end` is where the blocks end that were gone through so far; `damage` what was
    found broken where the file was synced.
    """

    def __init__(self, file: DiskFile, name: str) -> None:
        self.name = name
        self.size = file.size()
        self.damage: list[Damage] = []
        self.end = HEADER_BYTES
        self.sealed = False
        self._file = file
        # A part of the file, and where it begins.
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
                reason = "there is something behind the file's header"
                self.damage.append(Damage(name, _HEADER_FIELDS_BYTES, reason, length))

    def holds_blocks(self) -> bool:
        return len(self.magic) == 4 and self._next_block(HEADER_BYTES) >= 0

    def synced_position(self) -> int:
        """Up to where the file was synced, by what its last mark says now; where the header is lost, what is between it
        and the first intact block was lost with it.
        """
        synced = self._marked_position()
        if self.header is None and len(self.magic) == 4:
            synced = max(synced, self._next_block(HEADER_BYTES))
        return synced

    def _marked_position(self) -> int:
        end = self.size
        while end > HEADER_BYTES:
            begin = max(end - WINDOW_BYTES, HEADER_BYTES)
            # A mark that begins in this part may end behind it.
            data = self._file.read_at(begin, min(end + _MARK_BYTES, self.size) - begin)
            at = find_last_mark(data, self.magic, end - begin)
            if at >= 0:
                return int.from_bytes(data[at + BLOCK_HEAD_BYTES : at + BLOCK_HEAD_BYTES + 8], "big")
            end = begin
        return 0

    def blocks(self, synced: int) -> Iterator[Block]:
        """The blocks of records from `end` on. The file is known to be synced up to `synced`: the size, for all of it.

        What is not intact in there is damage, and passed over. Behind it, the first such block is the end.
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
        """Whether there is something of this file's life behind `end`: the beginning of a block, at least."""
        return len(self.magic) == 4 and self._find(self.end, self.magic) >= 0

    def torn(self) -> Iterator[Block]:
        """The intact blocks of records behind `end`, which recovery will cut off."""
        position = self._next_block(self.end)
        while position >= 0:
            end = self._block_end(position)
            if (block := self._block(position, end)) is not None:
                yield block
            position = self._next_block(end)

    def _block(self, position: int, end: int) -> Block | None:
        """The block that was just found, if it holds records."""
        at = position - self._base
        block_type = self._window[at + 12]
        if block_type <= TYPE_SEAL:
            return None
        length = end - position - BLOCK_HEAD_BYTES
        return Block(block_type, position + BLOCK_HEAD_BYTES, length, self._window, at + BLOCK_HEAD_BYTES)

    def _cover(self, position: int, count: int) -> int:
        """Have these bytes in the window, as far as the file goes; returns where in it they begin."""
        at = position - self._base
        if at < 0 or at + count > len(self._window):
            wanted = min(max(count, WINDOW_BYTES), max(self.size - position, 0))
            self._window = self._file.read_at(position, wanted)
            self._base = position
            at = 0
        return at

    def _block_end(self, position: int) -> int:
        """Where the block at `position` ends; 0 when there is no intact block."""
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
        """The first position from `position` on with an intact block; -1 when there is none."""
        position = self._find(position, self.magic)
        while position >= 0 and not self._block_end(position):
            position = self._find(position + 1, self.magic)
        return position

    def _find(self, position: int, wanted: bytes) -> int:
        """The first position from `position` on with these bytes; -1 when there is none."""
        while position + len(wanted) <= self.size:
            at = self._cover(position, len(wanted))
            found = self._window.find(wanted, at)
            if found >= 0:
                return self._base + found
            position = max(self._base + len(self._window) - len(wanted), position) + 1
        return -1

    def _find_magic(self) -> bytes:
        """The block magic, by marks and seals; only where they do not tell, all of the file is held to find it."""
        name = PurePath(self.name).stem
        number = int(name) if name.isdecimal() else -1
        counts: Counter[bytes] = Counter()
        for begin in range(HEADER_BYTES, self.size, WINDOW_BYTES):
            # Those that begin in this part, and no others: the next part has them.
            data = self._file.read_at(begin, WINDOW_BYTES + _MARK_BYTES - 1)
            counts.update(count_magics(data, 0, number))
            counts.subtract(count_magics(data, WINDOW_BYTES, number))
        return likely_magic(counts) or find_magic(self._file.read_at(0, self.size), number)
