"""The data directory of a follower: it makes the changes that the leader's storage has made to its own."""

import sqlite3
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, final

from msgspec import DecodeError, msgpack

from flintmq.base.errors import StorageError
from flintmq.storage.definitions.database import DefinitionDatabase, Statement
from flintmq.storage.files import Disk, DiskFile, leave_to_backup
from flintmq.storage.replication import operation
from flintmq.storage.replication.disk import path_of_name
from flintmq.storage.replication.operation import Buffer, Operation

# The kinds that change what a file holds, or make it durable.
_CONTENT: Final = (operation.WRITE, operation.WRITE_THROUGH, operation.SYNC, operation.TRUNCATE)
# Files that stay open for the next operation.
_OPEN_MAX: Final = 64


def decode_statements(data: Buffer) -> list[Statement]:
    """Decode one transaction of the definitions. Raises StorageError."""
    try:
        found: list[tuple[str, list[Any]]] = msgpack.decode(data, type=list[tuple[str, list[Any]]])
    except DecodeError as error:
        raise StorageError(f"a transaction from the leader cannot be read: {error}") from error
    return [(sql, tuple(parameters)) for sql, parameters in found]


@final
class Replica:
    """The directory `root` as a follower has it. `open_definitions` opens the database when it is first changed.

    While the files are copied, `is_copying` is set: then operations may come whose effect the copy has already, or of
    files that were removed since. Nothing is synced then before `sync` is called. All methods are called on one thread.
    They raise OSError, and StorageError for an operation that cannot be made: then the directory must be copied again.
    """

    def __init__(self, disk: Disk, root: Path, open_definitions: Callable[[], DefinitionDatabase]) -> None:
        self.is_copying = False
        # New names of files that were renamed while they were copied, and are not in the copy under either name.
        self.missing: set[str] = set()
        # Files that the leader had listed, and that were gone when they were to be copied.
        self.vanished: set[str] = set()
        # While the files are copied: names of files that were created again, and the new names of files that were
        # renamed without that.
        self._created: set[str] = set()
        self._renamed: dict[str, str] = {}
        self._disk = disk
        self._root = root
        self._open_definitions = open_definitions
        self._definitions: DefinitionDatabase | None = None
        self._files: OrderedDict[str, DiskFile] = OrderedDict()
        # Files that were written since their last sync.
        self._unsynced: dict[str, None] = {}

    def run(self, encoded: Buffer) -> bool:
        """Make one change. Returns whether all changes up to this one are durable now, as far as they need to be."""
        made = operation.decode(encoded)
        if made.kind == operation.APPLY:
            self._apply(made.data)
        else:
            self._change(made)
        return made.kind in operation.SYNCING

    def _apply(self, data: Buffer) -> None:
        if self._definitions is None:
            self._definitions = self._open_definitions()
        try:
            self._definitions.apply(decode_statements(data))
        except sqlite3.Error as error:
            raise StorageError(f"the definitions cannot be changed as the leader has changed them: {error}") from error

    def _change(self, made: Operation) -> None:
        kind = made.kind
        if kind in _CONTENT:
            try:
                self._change_content(made)
            except FileNotFoundError:
                # The copy has it under its next name, if it has one. An empty one here would take that name later.
                if not self.is_copying:
                    raise
            return
        path = self.path(made.path)
        if kind == operation.CREATE:
            self._close(made.path)
            # A file that is created is written from its beginning.
            self.missing.discard(made.path)
            self._note_created(made.path)
            if self.is_copying:
                # The directory may have been removed before the copying came to it.
                self._disk.make_directory(path.parent)
            # Only backups of the leader's directory are known to the leader.
            leave_to_backup(self._disk, path)
            self._keep(made.path, self._disk.create(path))
        elif kind == operation.MAKE_DIRECTORY:
            self._disk.make_directory(path)
        else:
            try:
                self._change_name(made, path)
            except FileNotFoundError:
                if not self.is_copying:
                    raise
                if kind == operation.RENAME:
                    self._look_for(operation.new_path(made), made.path)
            if kind == operation.RENAME:
                self._note_renamed(made.path, operation.new_path(made))
            if kind != operation.SYNC_DIRECTORY:
                self.missing.discard(made.path)

    def _change_content(self, made: Operation) -> None:
        file = self._file(made.path)
        kind = made.kind
        if kind == operation.WRITE or (self.is_copying and kind == operation.WRITE_THROUGH):
            file.write_at(made.number, [made.data])
            self._unsynced[made.path] = None
        elif self.is_copying and kind == operation.SYNC:
            self._unsynced[made.path] = None
        elif kind == operation.WRITE_THROUGH:
            file.write_through(made.number, [made.data])
        elif kind == operation.SYNC:
            file.sync()
            self._unsynced.pop(made.path, None)
        else:
            file.truncate(made.number)
            self._unsynced[made.path] = None

    def _look_for(self, name: str, old: str) -> None:
        """A file was renamed to this name, and is not there under its old one: the copy may have it already, unless
        the old one was listed. Then what has this name may have been copied before.
        """
        path = self.path(name)
        if old in self.vanished or path.name not in self._disk.list_directory(path.parent):
            self.missing.add(name)

    def _note_created(self, name: str) -> None:
        """There is a file of this name from here on. The copy may have been made of this one. So if it was taken for an
        earlier one, which began before the copying, then the new name of that one has the wrong file now.
        """
        if self.is_copying:
            self._created.add(name)
            renamed = self._renamed.pop(name, "")
            if renamed:
                self.missing.add(renamed)

    def _note_renamed(self, old: str, new: str) -> None:
        if self.is_copying:
            if old in self._created:
                self._created.discard(old)
            else:
                self._renamed[old] = new
            self._note_created(new)

    def _change_name(self, made: Operation, path: Path) -> None:
        kind = made.kind
        if kind == operation.SYNC_DIRECTORY:
            self._disk.sync_directory(path)
            return
        self._close_below(made.path)
        if kind == operation.RENAME:
            new = operation.new_path(made)
            target = self.path(new)
            self._close(new)
            self._disk.rename(path, target)
            old = made.path
            for name in [each for each in self._unsynced if each == old or each.startswith(f"{old}/")]:
                del self._unsynced[name]
                self._unsynced[new + name[len(old) :]] = None
        elif kind == operation.UNLINK:
            self._disk.unlink(path)
        elif kind == operation.REMOVE_DIRECTORY:
            self._disk.remove_directory(path)

    def sync(self) -> None:
        """Make all changes durable that the leader has not synced yet."""
        for name in self._unsynced:
            with suppress(FileNotFoundError):
                self._file(name).sync()
        self._unsynced.clear()

    def path(self, name: str) -> Path:
        """The path of a file of the leader here. Raises StorageError if it would be outside of what is replicated."""
        return path_of_name(self._root, name)

    def _file(self, name: str) -> DiskFile:
        file = self._files.get(name)
        if file is not None:
            self._files.move_to_end(name)
            return file
        return self._keep(name, self._disk.open(self.path(name)))

    def _keep(self, name: str, file: DiskFile) -> DiskFile:
        self._files[name] = file
        if len(self._files) > _OPEN_MAX:
            self._files.popitem(last=False)[1].close()
        return file

    def _close(self, name: str) -> None:
        file = self._files.pop(name, None)
        if file is not None:
            file.close()

    def _close_below(self, name: str) -> None:
        """Close a file, or all files of a directory, because the name is about to change."""
        self._close(name)
        for below in [each for each in self._files if each.startswith(f"{name}/")]:
            self._close(below)

    def close(self) -> None:
        """Close all files; the directory can be opened by a broker, or copied again."""
        for name in list(self._files):
            self._close(name)
        if self._definitions is not None:
            self._definitions.close()
            self._definitions = None
