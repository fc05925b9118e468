"""A segment of a stream in a directory that another node's storage has written: it is only read."""

from pathlib import Path
from typing import final

from flintmq.broker.ports import StreamCursor, StreamPlace
from flintmq.storage.content import ContentReader
from flintmq.storage.files import Disk
from flintmq.storage.stream.cursor import SegmentCursor
from flintmq.storage.stream.files import StreamFiles, StreamSegment
from flintmq.storage.stream.index import SegmentIndex
from flintmq.storage.stream.open_files import OpenFiles


@final
class CopiedSegment:
    """The segment at `place` in the data directory `root`. `close` closes its file."""

    def __init__(self, disk: Disk, root: Path, place: StreamPlace, content: ContentReader) -> None:
        path = root / place.path
        index = SegmentIndex(place.magic, place.first_offset, 0)
        # The cursor begins at the only step of the index.
        index.add(place.position, place.first_offset, 0)
        self._files = StreamFiles(disk, path.parent, 0, content)
        self._files.segments = [StreamSegment(path, place.first_offset, index, place.end)]
        self._open_files = OpenFiles(disk)
        self._content = content

    def cursor(self, offset: int, ahead_bytes: int) -> StreamCursor:
        """Return a cursor at an offset in the segment."""
        return SegmentCursor(self._files, self._open_files, self._content, offset, ahead_bytes)

    @property
    def is_damaged(self) -> bool:
        """Whether a cursor has found something that is no block, and has skipped it."""
        return bool(self._files.damage)

    def close(self) -> None:
        self._open_files.close()
