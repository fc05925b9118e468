"""The database of the definitions: <data>/definitions.sqlite."""

import json
import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, NamedTuple, final

from flintmq.base.errors import StorageError
from flintmq.broker.ports import (
    BindingRecord,
    Definitions,
    ExchangeRecord,
    LeaseRecord,
    QueueRecord,
    ReaderOffset,
    StageRecord,
    TerminusRecord,
    UserRecord,
    VHostRecord,
)
from flintmq.storage.definitions import rules, schema
from flintmq.storage.definitions.schema import load_table
from flintmq.storage.files import Disk

LOG_SUFFIX: Final = "-wal"
# An SQL statement and its parameters.
Statement = tuple[str, tuple[object, ...]]

# The mode of all files in a data directory. Others may not read the file, because it contains password hashes.
_MODE: Final = 0o640
_OTHERS_PERMISSIONS: Final = 0o007


class Marks(NamedTuple):
    """Numbers by which a start checks that the definitions belong to the data beside them, and that no segment is
    missing.

    `generation` counts transactions. `journal_written` is the newest segment of the journal that holds records,
    `journal_ended` the last segment at a clean stop; each is 0 if unknown.
    """

    identity: int
    generation: int
    journal_written: int
    journal_ended: int


def rewrite_log(disk: Disk, database: Path) -> None:
    """Write SQLite's write-ahead log again, and sync it. Call this before the database is opened. Raises OSError.

    After a COMMIT whose sync failed, the system may show readers data that it will never write to the disk. SQLite
    takes that data as committed, a start builds on it, and a loss of power would remove it. Writing the same bytes to
    the same place again, and syncing them, makes them durable.
    """
    log = database.with_name(database.name + LOG_SUFFIX)
    if log.name not in disk.list_directory(log.parent):
        return
    file = disk.open(log)
    try:
        file.write_at(0, [file.read_at(0, file.size())])
        file.sync()
    finally:
        file.close()


def connect(path: Path) -> sqlite3.Connection:
    """Open the database in autocommit mode: transactions begin and end with explicit statements. Users outside of the
    file's group cannot read it.
    """
    _restrict_permissions(path)
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False)


def _restrict_permissions(path: Path) -> None:
    """Create the file with our mode, because SQLite would use the umask; SQLite gives the files beside it the mode of
    this one.

    The permissions of files that an older release created are restricted, too.
    """
    with suppress(OSError):
        # If the file cannot be created, or belongs to another user, SQLite reports the reason later.
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, _MODE))
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
            with suppress(FileNotFoundError):
                mode = path.with_name(name).stat().st_mode
                if mode & _OTHERS_PERMISSIONS:
                    path.with_name(name).chmod(mode & ~_OTHERS_PERMISSIONS & 0o7777)


def recovery_advice(directory: Path) -> str:
    """The part of an error message that says what to do if definitions are lost or damaged."""
    return f"restore it from a backup, or run `flintmq storage rebuild {directory}`; nothing was changed"


@final
class DefinitionDatabase:
    """The SQLite file. It is opened and read at start-up, and then used by the sync thread only.

    `synchronous` is SQLite's pragma; OFF is for data that may be lost. `told` is called with the statements of each
    transaction when it is committed. `is_blank` says that the file was missing or empty. The first call that needs
    the tables creates them, so that the caller can first check whether other data exists, and refuse.
    """

    def __init__(
        self,
        path: Path,
        connect: Callable[[Path], sqlite3.Connection] = connect,
        synchronous: Literal["FULL", "OFF"] = "FULL",
        told: Callable[[Sequence[Statement]], None] | None = None,
    ) -> None:
        self.path = path
        self._told = told
        self.is_blank = False
        self._was_missing = not path.exists()
        self._check_log()
        try:
            self._connection = connect(path)
            self._connection.execute(f"PRAGMA synchronous = {synchronous}")
            self._prepare()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            # UnicodeDecodeError: SQLite's message about a damaged file may quote bytes that are not valid text.
            raise self._unreadable(error) from error

    def _check_log(self) -> None:
        """Refuse an empty database with a write-ahead log, because SQLite would delete the log with its data."""
        log = self.path.with_name(self.path.name + LOG_SUFFIX)
        if log.exists() and log.stat().st_size and (self._was_missing or not self.path.stat().st_size):
            raise self._unreadable("it is empty, but its write-ahead log is not")

    def _prepare(self) -> None:
        run = self._connection.execute
        version: int = run("PRAGMA user_version").fetchone()[0]
        application: int = run("PRAGMA application_id").fetchone()[0]
        if version == 0 and application == 0 and not run("SELECT 1 FROM sqlite_master").fetchone():
            self.is_blank = True
            return
        if application == schema.APPLICATION_ID:
            while version in schema.MIGRATIONS:
                version += 1
                self._change_format(schema.MIGRATIONS[version - 1], version)
        if version != schema.VERSION or run("PRAGMA application_id").fetchone()[0] != schema.APPLICATION_ID:
            self._connection.close()
            raise StorageError(
                f"{self.path} has definitions of format {version}, but this version reads and writes {schema.VERSION}: "
                "start the release that wrote it, or choose another data directory"
            )
        self._use_log()

    def _use_log(self) -> None:
        # In WAL mode, a transaction needs one sync, and readers of the file do not block writers.
        self._connection.execute("PRAGMA journal_mode = WAL")

    def make(self) -> None:
        """Create the tables if the database is blank. Raises StorageError if they cannot be created."""
        if not self.is_blank:
            return
        mark = f"PRAGMA application_id = {schema.APPLICATION_ID};"
        try:
            self._change_format((*schema.CREATE, mark), schema.VERSION)
            self._use_log()
        except sqlite3.Error as error:
            raise self._unreadable(error) from error
        self.is_blank = False

    def marks(self, draw: Callable[[], int]) -> Marks:
        """Read the marks; if there is no identity yet, store the one that `draw` returns. Raises StorageError."""
        try:
            found = dict(self._connection.execute("SELECT key, value FROM meta"))
            if not found["identity"]:
                found["identity"] = draw()
                self.apply([("UPDATE meta SET value = ? WHERE key = 'identity'", (found["identity"],))])
            return Marks(*(found[name] for name in Marks._fields))
        except (sqlite3.Error, KeyError) as error:
            raise self._unreadable(error) from error

    def mark(self, name: str, value: int) -> None:
        """Set one of the marks; it is synced on return."""
        self.apply([("UPDATE meta SET value = ? WHERE key = ?", (value, name))])

    def close_unused(self) -> None:
        """Close the database; if it is blank and its file did not exist before, remove the file."""
        self.close()
        if self.is_blank and self._was_missing:
            self.path.unlink(missing_ok=True)

    def _change_format(self, scripts: Sequence[str], version: int) -> None:
        """Run the scripts and set the format version in one transaction, so that the file has all of a format or none
        of it.
        """
        self._connection.executescript(f"BEGIN; {''.join(scripts)} PRAGMA user_version = {version}; COMMIT;")

    def _unreadable(self, error: object) -> StorageError:
        return StorageError(f"{self.path} cannot be read ({error}): {recovery_advice(self.path.parent)}")

    def load(self) -> Definitions:
        try:
            return self._load()
        except (sqlite3.Error, ValueError, KeyError, TypeError) as error:
            raise self._unreadable(error) from error

    def _load(self) -> Definitions:
        self.make()
        run = self._connection.execute
        fault: str = run("PRAGMA quick_check(1)").fetchone()[0]
        if fault != "ok":
            raise ValueError(fault)
        return Definitions(
            vhosts=[
                VHostRecord(name, dialect, default_queue_type, description, tuple(json.loads(tags)))
                for name, dialect, default_queue_type, description, tags in run(
                    "SELECT name, dialect, default_queue_type, description, tags FROM vhosts ORDER BY name"
                )
            ],
            users=[
                UserRecord(name, password_hash, tuple(json.loads(tags)), hashing_algorithm, tuple(json.loads(scram)))
                for name, password_hash, tags, hashing_algorithm, scram in run(
                    "SELECT name, password_hash, tags, hashing_algorithm, scram FROM users ORDER BY name"
                )
            ],
            exchanges=[
                ExchangeRecord(vhost, name, kind, bool(auto_delete), bool(internal), load_table(arguments))
                for vhost, name, kind, auto_delete, internal, arguments in run(
                    "SELECT vhost, name, type, auto_delete, internal, arguments FROM exchanges ORDER BY vhost, name"
                )
            ],
            queues=[
                QueueRecord(queue_id, vhost, name, bool(auto_delete), load_table(arguments))
                for queue_id, vhost, name, auto_delete, arguments in run(
                    "SELECT id, vhost, name, auto_delete, arguments FROM queues ORDER BY id"
                )
            ],
            bindings=[
                BindingRecord(vhost, source, destination, routing_key, load_table(arguments), destination_type)
                for vhost, source, destination, routing_key, arguments, destination_type in run(
                    "SELECT vhost, source, destination, routing_key, arguments, destination_type FROM bindings"
                    " ORDER BY vhost, source, destination, destination_type, routing_key, arguments"
                )
            ],
            next_queue_id=run("SELECT value FROM meta WHERE key = 'next_queue_id'").fetchone()[0],
            rules=rules.read_rules(run),
            reader_offsets=[
                ReaderOffset(*row)
                for row in run("SELECT queue_id, reader, offset FROM reader_offsets ORDER BY queue_id, reader")
            ],
            termini=[
                TerminusRecord(*row)
                for row in run(
                    "SELECT id, vhost, user, container, link, role, durability, expiry, timeout_ms, configuration,"
                    " node_id FROM termini ORDER BY id"
                )
            ],
            leases=[
                LeaseRecord(*row) for row in run("SELECT id, vhost, queue_id, name, timeout_ms FROM leases ORDER BY id")
            ],
            stages=[StageRecord(*row) for row in run("SELECT id, vhost, name, user FROM stages ORDER BY id")],
            secrets=dict(run("SELECT name, value FROM secrets ORDER BY name")),
        )

    def apply(self, statements: Sequence[Statement]) -> None:
        """Run statements as one transaction, synced on return. After an error, none of them has an effect."""
        self.make()
        run = self._connection.execute
        try:
            run("BEGIN IMMEDIATE")
            for sql, parameters in statements:
                run(sql, parameters)
            run("COMMIT")
        except sqlite3.Error:
            # After some errors, SQLite has rolled back already.
            if self._connection.in_transaction:
                run("ROLLBACK")
            raise
        if self._told is not None:
            self._told(statements)

    def close_as_single_file(self) -> None:
        """Close the database as a single file without a write-ahead log. Raises StorageError if that fails."""
        try:
            self._connection.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.Error as error:
            raise self._unreadable(error) from error
        self.close()

    def close(self) -> None:
        self._connection.close()
