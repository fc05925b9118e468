"""A data directory, opened for reading only: of a running broker, of a stopped one, or a backup."""

import fcntl
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import final

from flintmq.base.errors import StorageError
from flintmq.broker.ports import Definitions
from flintmq.storage.backup import manifest
from flintmq.storage.definitions.consistency import check_marks
from flintmq.storage.definitions.database import DefinitionDatabase, Marks, recovery_advice
from flintmq.storage.definitions.latest_record import latest_definitions
from flintmq.storage.files import RealDisk
from flintmq.storage.layout import DEFINITIONS, JOURNAL, holds_messages, is_data_directory, logs, state_files
from flintmq.storage.segment_reader import SegmentReader


@final
class DataDirectory:
    """The files of a data directory.

    `files` maps the paths of its state to their inodes, as they were when this object was created. `tails` are the
    segments that may not be sealed: the newest segment of each log that has blocks. Raises StorageError if the path is
    not a data directory, or cannot be read.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            raise StorageError(f"there is no directory {path}")
        if not is_data_directory(path):
            raise StorageError(
                f"{path} is not a data directory of FlintMQ, nor a backup: it has neither {DEFINITIONS} nor messages"
            )
        self.path = path
        self.is_backup = manifest.is_backup(path)
        self.is_running = not self.is_backup and _is_locked(path / "lock")
        self._disk = RealDisk()
        self.files = state_files(path)
        self.logs = logs(iter(self.files))
        self.tails: set[str] = set()
        # The marks of the definitions; None until the definitions were read.
        self.marks: Marks | None = None
        # Segments that were created in advance and are empty.
        self._preallocated: set[str] = set()
        for segments in self.logs.values():
            self._find_tail(segments)

    def _find_tail(self, segments: list[str]) -> None:
        """Find the newest segment with blocks. `segments` are newest first, so that a segment is read after the
        following ones: the broker may begin one of these meanwhile.
        """
        for path in segments:
            with self.segment(path) as reader:
                if reader is not None and reader.holds_blocks():
                    self.tails.add(path)
                    return
            self._preallocated.add(path)

    @property
    def journal(self) -> list[str]:
        """The segments of the journal, oldest first."""
        return self.logs.get(JOURNAL, [])[::-1]

    @property
    def streams(self) -> dict[int, list[str]]:
        """The segments of each stream by queue id, oldest first."""
        found = {log.rpartition("/")[2]: segments[::-1] for log, segments in self.logs.items() if log != JOURNAL}
        return {int(name): segments for name, segments in found.items() if name.isdecimal()}

    @contextmanager
    def segment(self, path: str) -> Iterator[SegmentReader | None]:
        """Open a segment; yields None if a running broker has removed it meanwhile."""
        try:
            file = self._disk.open_to_read(self.path / path)
        except FileNotFoundError:
            yield None
            return
        try:
            yield SegmentReader(file, str(self.path / path))
        finally:
            file.close()

    def _apply_marks(self, marks: Marks) -> None:
        self.marks = marks
        # According to the definitions, the segments in `begun` had records, so they were not created in advance.
        begun = {
            path for path in self._preallocated if path in self.journal and number_of(path) <= marks.journal_written
        }
        self._preallocated -= begun
        if self.is_running:
            # A running broker has begun to write them since the files were listed, so they have no seal yet.
            self.tails |= begun

    @property
    def written_segments(self) -> list[str]:
        """The segments of the journal without those created in advance, oldest first."""
        return [path for path in self.journal if path not in self._preallocated]

    def synced_position(self, path: str, reader: SegmentReader) -> int:
        """The position up to which this segment is known to have been synced."""
        if path in self._preallocated:
            # A header is synced before the file gets its name. If the header is missing, the former contents of the
            # file are unknown.
            return reader.size if reader.header is None else 0
        return reader.synced_position() if path in self.tails else reader.size

    def is_unchanged(self, path: str) -> bool:
        """Tell whether the file that was read is still the one that was listed: a running broker may overwrite a file
        that has lost its name.
        """
        if not self.is_running:
            return True
        try:
            return (self.path / path).lstat().st_ino == self.files[path]
        except FileNotFoundError:
            return False

    def definitions(self) -> Definitions:
        """Read the definitions from a copy, because even reading an SQLite database may write beside it. Raises
        StorageError if they are damaged.
        """
        with tempfile.TemporaryDirectory(prefix="flintmq-") as scratch:
            copy = Path(scratch) / DEFINITIONS
            try:
                # The journal is read before the definitions, because a running broker writes each change to the
                # definitions first.
                described = latest_definitions(self._disk, self.path / JOURNAL, self._disk.open_to_read)
                self._copy_definitions(copy)
                database = DefinitionDatabase(copy)
                try:
                    if database.is_blank and holds_messages(self._disk, self.path):
                        raise StorageError(f"{copy} is missing or empty: {recovery_advice(self.path)}")
                    marks = database.marks(lambda: 0)
                    check_marks(copy, marks, described)
                    definitions = database.load()
                    self._apply_marks(marks)
                    return definitions
                finally:
                    database.close()
            except OSError as error:
                raise StorageError(f"{error.filename} cannot be read: {error.strerror}") from error
            except (StorageError, sqlite3.Error) as error:
                # The message must name the original, because the caller does not know of the copy.
                text = str(error).replace(str(copy), str(self.path / DEFINITIONS))
                raise StorageError(text.replace(scratch, str(self.path))) from error

    def _copy_definitions(self, copy: Path) -> None:
        original = self.path / DEFINITIONS
        if self.is_running:
            source = sqlite3.connect(f"{original.absolute().as_uri()}?mode=ro", uri=True)
            target = sqlite3.connect(copy)
            try:
                source.backup(target)
            finally:
                target.close()
                source.close()
            return
        for suffix in ("", "-wal"):
            if (part := original.with_name(f"{DEFINITIONS}{suffix}")).exists():
                shutil.copyfile(part, copy.with_name(f"{DEFINITIONS}{suffix}"))


def number_of(path: str) -> int:
    """The number of a segment; in a stream, its first offset."""
    return int(PurePosixPath(path).stem)


def _is_locked(lock: Path) -> bool:
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StorageError(f"{lock} cannot be read: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
