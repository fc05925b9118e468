"""The interface by which compiled code reads verified blocks of segments."""

from abc import abstractmethod
from typing import final

from mypy_extensions import mypyc_attr


@final
class Blocks:
    """Intact journal blocks of a segment, in order: the positions in `data` where their payloads begin and end.

    `data` begins `offset` bytes after the start of the file.
    """

    def __init__(self, data: bytes, offset: int, starts: list[int], ends: list[int]) -> None:
        self.data = data
        self.offset = offset
        self.starts = starts
        self.ends = ends


@mypyc_attr(allow_interpreted_subclasses=True)
class BlockSource:
    """A source of verified blocks. Methods raise OSError, and StorageError if a file has changed."""

    @abstractmethod
    def load(self, segment: int) -> Blocks:
        """Load all blocks of a segment that recovery has read before."""

    @abstractmethod
    def load_block(self, segment: int, start: int, end: int) -> bytes:
        """Load the payload, from `start` to before `end` in the file, of one block that recovery has read before."""
