"""Spill files: pages on the disk, without syncs, because everything that must outlive the broker is in the journal.

A thread of its own appends pages to files: a slow disk must not stop the event loop. A file is removed together with
its last page. Files that an earlier broker left are removed at start-up.
"""

import threading
from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Final, final

from isal.isal_zlib import crc32

from flintmq.base.errors import StorageError
from flintmq.storage.files import Disk, DiskFile
from flintmq.storage.pages.packer import Content

# A file keeps its disk space until all its pages are released.
FILE_BYTES: Final = 64 * 1024 * 1024
# After a failed write, this many pages stay in memory before the disk is tried again.
_RETRY_AFTER_PAGES: Final = 256


class SpillRunner:
    """Runs jobs in order, soon after they were submitted."""

    @abstractmethod
    def submit(self, job: Callable[[], None]) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """Return when all submitted jobs are done."""


@final
class SpillThread(SpillRunner):
    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, job: Callable[[], None]) -> None:
        if self._thread is None:
            # The thread is started when it is first needed, which is never for most brokers.
            self._thread = threading.Thread(target=self._run, name="flintmq-spill", daemon=True)
            self._thread.start()
        self._jobs.put(job)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def close(self) -> None:
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()


@final
class Spill:
    """The pages in files. All methods are called by the event loop. `trouble` is the reason why the last write failed;
    empty if it did not.
    """

    def __init__(self, disk: Disk, directory: Path, runner: SpillRunner, file_bytes: int = FILE_BYTES) -> None:
        self.trouble = ""
        self._disk = disk
        self._directory = directory
        self._runner = runner
        self._file_bytes = file_bytes
        # The number of pages in each file that are not released, the file being filled, and the position of its next
        # page.
        self._live: dict[int, int] = {}
        self._number = 0
        self._position = file_bytes
        self._refused_pages = 0
        # The attributes from here on are used by the runner only.
        self._writing: DiskFile | None = None
        self._writing_number = 0

    def accepts(self) -> bool:
        """Tell whether a page may be written to the disk."""
        if self.trouble and self._refused_pages < _RETRY_AFTER_PAGES:
            self._refused_pages += 1
            return False
        self.trouble = ""
        self._refused_pages = 0
        return True

    def put(self, content: Content) -> None:
        """Submit a page to be written; afterwards it is removed from memory."""
        if self._position + content.size > self._file_bytes and self._position > 0:
            filled = self._number
            self._number += 1
            self._position = 0
            self._live[self._number] = 0
            if self._live.get(filled) == 0:
                self._remove(filled)
        content.file = self._number
        content.position = self._position
        self._position += content.size
        self._live[self._number] += 1
        self._runner.submit(lambda: self._write(content))

    def read(self, content: Content) -> bytes:
        """Read a page that was written. Raises StorageError if the file cannot be read."""
        path = self._path(content.file)
        try:
            file = self._disk.open(path)
            try:
                data = file.read_at(content.position, content.size)
            finally:
                file.close()
        except OSError as error:
            raise StorageError(
                f"messages that were paged out cannot be read back from {path} ({error.strerror}): "
                "restart the broker; persistent messages are in the journal"
            ) from error
        if len(data) != content.size or crc32(data) != content.checksum:
            raise StorageError(
                f"messages that were paged out are damaged in {path} at byte {content.position}: "
                "restart the broker; persistent messages are in the journal"
            )
        return data

    def will_need(self, content: Content) -> None:
        self._disk.will_need(self._path(content.file), content.position, content.size)

    def release(self, content: Content) -> None:
        """Release a page, which will not be read again."""
        number = content.file
        self._live[number] -= 1
        if self._live[number] == 0 and number != self._number:
            self._remove(number)

    def _remove(self, number: int) -> None:
        del self._live[number]
        self._runner.submit(lambda: self._unlink(number))

    def close(self) -> None:
        self._runner.close()
        if self._writing is not None:
            self._writing.close()
            self._writing = None
        # The next start removes what cannot be removed now.
        with suppress(OSError):
            self.clear()

    def clear(self) -> None:
        """Remove all spill files."""
        for name in self._disk.list_directory(self._directory):
            self._disk.unlink(self._directory / name)

    def _path(self, number: int) -> Path:
        return self._directory / f"{number:020}.pages"

    # -- by the runner ------------------------------------------------------------------------------------------

    def _write(self, content: Content) -> None:
        parts = content.parts
        if parts is None:
            return
        try:
            file = self._file(content.file)
            pieces = [parts[0], *parts[1]]
            file.write_at(content.position, pieces)
        except OSError as error:
            # The page stays in memory; publishers have to wait when too many pages do.
            self.trouble = f"{self._path(content.file)}: {error.strerror}"
            return
        checksum = 0
        for piece in pieces:
            checksum = crc32(piece, checksum)
        content.checksum = checksum
        content.parts = None

    def _file(self, number: int) -> DiskFile:
        if self._writing is None or self._writing_number != number:
            if self._writing is not None:
                self._writing.close()
                self._writing = None
            self._disk.make_directory(self._directory)
            self._writing = self._disk.create(self._path(number))
            self._writing_number = number
        return self._writing

    def _unlink(self, number: int) -> None:
        if self._writing is not None and self._writing_number == number:
            self._writing.close()
            self._writing = None
        # The file may not exist; if it cannot be removed now, the next start removes it.
        with suppress(OSError):
            self._disk.unlink(self._path(number))
