"""What compiled code is given to read, and asks for the rest: verified blocks of segments."""

from abc import abstractmethod
from typing import final

from mypy_extensions import mypyc_attr


@final
class Blocks:
    """Intact journal blocks of a segment, in order: where in `data` their payloads begin and end.

    `data` is `offset` bytes behind the beginning of the file.
    """

    def __init__(self, data: bytes, offset: int, starts: list[int], ends: list[int]) -> None:
        self.data = data
        self.offset = offset
        self.starts = starts
        self.ends = ends


@mypyc_attr(allow_interpreted_subclasses=True)
class BlockSource:
    """Errors are OSError, and StorageError where a file is not any more what it was."""

    @abstractmethod
    def load(self, segment: int) -> Blocks:
        """All blocks of a segment that recovery has read before."""

    @abstractmethod
    def load_block(self, segment: int, start: int, end: int) -> bytes:
        """The payload of one block that recovery has read before, which lies there in the file."""
