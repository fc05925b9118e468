"""Definitions in SQLite: <data>/definitions.sqlite. Changes are staged as statements; the sync thread runs them."""

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
    DefinitionStore,
    ExchangeRecord,
    LeaseRecord,
    QueueRecord,
    ReaderOffset,
    Rule,
    StageRecord,
    TerminusRecord,
    UserRecord,
    VHostRecord,
)
from flintmq.storage.definitions import rules, schema
from flintmq.storage.definitions.catalogue import Catalogue
from flintmq.storage.definitions.log import LOG_SUFFIX
from flintmq.storage.definitions.values import dump_table, load_table

# SQL and its parameters.
Statement = tuple[str, tuple[object, ...]]

# SQLite's name for a database that has no file.
IN_MEMORY: Final = Path(":memory:")
# As all files of a data directory: hashes of passwords are nobody else's business.
_MODE: Final = 0o640
_RIGHTS_OF_OTHERS: Final = 0o007


class Marks(NamedTuple):
    """What tells whether definitions belong to the data beside them, and what of that is missing.

    `generation` counts transactions. `journal_written` is the newest segment of the journal that holds something, and
    `journal_ended` the one that was the last at a clean stop; 0 where that is not known.
    """

    identity: int
    generation: int
    journal_written: int
    journal_ended: int


def connect(path: Path) -> sqlite3.Connection:
    """In autocommit: transactions are begun and ended by name. Users outside the group of the file cannot read it."""
    if path != IN_MEMORY:
        _keep_from_others(path)
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False)


def _keep_from_others(path: Path) -> None:
    """Make the file with our mode, since SQLite goes by the umask; the files beside it get the mode of this one.

    What an older release has made is taken from others now.
    """
    with suppress(OSError):
        # Where the file cannot be made, or belongs to somebody else, SQLite says what is wrong with it.
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, _MODE))
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
            with suppress(FileNotFoundError):
                mode = path.with_name(name).stat().st_mode
                if mode & _RIGHTS_OF_OTHERS:
                    path.with_name(name).chmod(mode & ~_RIGHTS_OF_OTHERS & 0o7777)


def ways_out(directory: Path) -> str:
    """What to do where definitions are lost or damaged."""
    return (
        f"put back a copy of it (a backup has one), or see `flintmq storage rebuild {directory}`; nothing was changed"
    )


@final
class DefinitionDatabase:
    """The file. Opened and read at start-up, then used by the sync thread alone.

    `synchronous` is SQLite's: what is not FULL is for data that may be lost. `is_blank` says that the file was missing
    or empty: the first call that needs its tables makes them, so that whoever knows of other data can refuse before.
    """

    def __init__(
        self,
        path: Path,
        connect: Callable[[Path], sqlite3.Connection] = connect,
        synchronous: Literal["FULL", "OFF"] = "FULL",
    ) -> None:
        self.path = path
        self.is_blank = False
        self._was_missing = not path.exists()
        self._check_log()
        try:
            self._connection = connect(path)
            self._connection.execute(f"PRAGMA synchronous = {synchronous}")
            self._prepare()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            # What SQLite says of a damaged file may quote bytes of it that are no text.
            raise self._unreadable(error) from error

    def _check_log(self) -> None:
        """SQLite deletes the log of a database that has not a byte, whatever is in it."""
        log = self.path.with_name(self.path.name + LOG_SUFFIX)
        if log.exists() and log.stat().st_size and (self._was_missing or not self.path.stat().st_size):
            raise self._unreadable("it has nothing in it, and its log has")

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
                f"{self.path} has definitions of format {version}, this FlintMQ reads and writes {schema.VERSION}: "
                "start the release that wrote it, or choose another data directory"
            )
        self._use_log()

    def _use_log(self) -> None:
        # One sync per transaction, and readers of the file do not stop us.
        self._connection.execute("PRAGMA journal_mode = WAL")

    def make(self) -> None:
        """Make the tables, unless they are there. Raises StorageError."""
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
        """An identity is drawn where there is none yet. Raises StorageError."""
        try:
            found = dict(self._connection.execute("SELECT key, value FROM meta"))
            if not found["identity"]:
                found["identity"] = draw()
                self.apply([("UPDATE meta SET value = ? WHERE key = 'identity'", (found["identity"],))])
            return Marks(*(found[name] for name in Marks._fields))
        except (sqlite3.Error, KeyError) as error:
            raise self._unreadable(error) from error

    def mark(self, name: str, value: int) -> None:
        """Change one of the marks, synced on return."""
        self.apply([("UPDATE meta SET value = ? WHERE key = ?", (value, name))])

    def withdraw(self) -> None:
        """Close a blank database, and leave no file where there was none."""
        self.close()
        if self.is_blank and self._was_missing:
            self.path.unlink(missing_ok=True)

    def _change_format(self, scripts: Sequence[str], version: int) -> None:
        """The pragmas are part of the transaction: the file has all of a format or none."""
        self._connection.executescript(f"BEGIN; {''.join(scripts)} PRAGMA user_version = {version}; COMMIT;")

    def _unreadable(self, error: object) -> StorageError:
        return StorageError(f"{self.path} cannot be read ({error}): {ways_out(self.path.parent)}")

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
        """Run them as one transaction, synced on return. After an error, nothing of them is there."""
        self.make()
        run = self._connection.execute
        try:
            run("BEGIN IMMEDIATE")
            for sql, parameters in statements:
                run(sql, parameters)
            run("COMMIT")
        except sqlite3.Error:
            # Of some errors, SQLite has rolled back already.
            if self._connection.in_transaction:
                run("ROLLBACK")
            raise

    def close_alone(self) -> None:
        """Close, and leave all of it in one file, without a log. Raises StorageError."""
        try:
            self._connection.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.Error as error:
            raise self._unreadable(error) from error
        self.close()

    def close(self) -> None:
        self._connection.close()


@final
class SqliteDefinitions(DefinitionStore):
    """Stages changes for the next batch, and tells `catalogue` of those that it is about."""

    def __init__(self, database: DefinitionDatabase, catalogue: Catalogue | None = None) -> None:
        # What `load` found: all ids that were ever given are below. 0 before that.
        self.next_queue_id = 0
        self.catalogue = catalogue or Catalogue(0, 0)
        # What the journal is to have of the batch that was taken last; empty for nothing.
        self.change = b""
        # Places of readers change all the time, and nothing else goes by them.
        self._has_more_than_places = False
        self._database = database
        self._statements: list[Statement] = []

    def load(self) -> Definitions:
        definitions = self._database.load()
        self.next_queue_id = definitions.next_queue_id
        self.catalogue.load(definitions)
        return definitions

    @property
    def staged(self) -> bool:
        return bool(self._statements)

    def take(self) -> list[Statement]:
        """End the batch."""
        statements = self._statements
        self._statements = []
        self.change = b""
        if self._has_more_than_places:
            self._has_more_than_places = False
            statements.append(("UPDATE meta SET value = value + 1 WHERE key = 'generation'", ()))
            self.change = self.catalogue.change()
        return statements

    def discard(self) -> None:
        """Forget what was staged since the last batch."""
        self._statements = []
        self._has_more_than_places = False
        self.catalogue.forget_changes()

    def _stage(self, sql: str, *parameters: object) -> None:
        self._has_more_than_places = True
        self._stage_place(sql, *parameters)

    def _stage_place(self, sql: str, *parameters: object) -> None:
        for parameter in parameters:
            if isinstance(parameter, str):
                # Refused here, where the caller can be told, and not by the sync thread, which would have to stop.
                parameter.encode()
        self._statements.append((sql, parameters))

    def put_vhost(self, vhost: VHostRecord) -> None:
        self._stage(
            "INSERT OR REPLACE INTO vhosts (name, dialect, default_queue_type, description, tags)"
            " VALUES (?, ?, ?, ?, ?)",
            vhost.name,
            vhost.dialect,
            vhost.default_queue_type,
            vhost.description,
            json.dumps(vhost.tags),
        )
        self.catalogue.put_vhost(vhost)

    def delete_vhost(self, name: str) -> None:
        self._stage("DELETE FROM vhosts WHERE name = ?", name)
        for sql in rules.OF_VHOST:
            self._stage(sql, name)
        self._stage("DELETE FROM termini WHERE vhost = ?", name)
        self._stage("DELETE FROM leases WHERE vhost = ?", name)
        self._stage("DELETE FROM stages WHERE vhost = ?", name)
        self.catalogue.delete_vhost(name)

    def put_user(self, user: UserRecord) -> None:
        self._stage(
            "INSERT OR REPLACE INTO users (name, password_hash, tags, hashing_algorithm, scram) VALUES (?, ?, ?, ?, ?)",
            user.name,
            user.password_hash,
            json.dumps(user.tags),
            user.hashing_algorithm,
            json.dumps(user.scram),
        )

    def delete_user(self, name: str) -> None:
        self._stage("DELETE FROM users WHERE name = ?", name)
        for sql in rules.OF_USER:
            self._stage(sql, name)

    def put_rule(self, rule: Rule) -> None:
        sql, row = rules.statement_to_put(rule)
        self._stage(sql, *row)

    def delete_rule(self, rule: Rule) -> None:
        sql, row = rules.statement_to_delete(rule)
        self._stage(sql, *row)

    def put_exchange(self, exchange: ExchangeRecord) -> None:
        self._stage(
            "INSERT OR REPLACE INTO exchanges VALUES (?, ?, ?, ?, ?, ?)",
            exchange.vhost,
            exchange.name,
            exchange.type,
            exchange.auto_delete,
            exchange.internal,
            dump_table(exchange.arguments),
        )
        self.catalogue.put_exchange(exchange)

    def delete_exchange(self, vhost: str, name: str) -> None:
        self._stage("DELETE FROM exchanges WHERE vhost = ? AND name = ?", vhost, name)
        self._stage("DELETE FROM bindings WHERE vhost = ? AND source = ?", vhost, name)
        self._stage(
            "DELETE FROM bindings WHERE vhost = ? AND destination = ? AND destination_type = 'exchange'", vhost, name
        )
        self.catalogue.delete_exchange(vhost, name)

    def put_queue(self, queue: QueueRecord) -> None:
        self._stage(
            "INSERT OR REPLACE INTO queues VALUES (?, ?, ?, ?, ?)",
            queue.id,
            queue.vhost,
            queue.name,
            queue.auto_delete,
            dump_table(queue.arguments),
        )
        self._use_id(queue.id)
        self.catalogue.put_queue(queue)

    def _use_id(self, queue_id: int) -> None:
        self._stage("UPDATE meta SET value = max(value, ?) WHERE key = 'next_queue_id'", queue_id + 1)

    def put_terminus(self, terminus: TerminusRecord) -> None:
        self._stage(
            "INSERT OR REPLACE INTO termini VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            terminus.id,
            terminus.vhost,
            terminus.user,
            terminus.container,
            terminus.link,
            terminus.role,
            terminus.durability,
            terminus.expiry,
            terminus.timeout_ms,
            terminus.configuration,
            terminus.node_id,
        )
        self._use_id(terminus.id)
        self.catalogue.put_terminus(terminus)

    def delete_terminus(self, terminus: TerminusRecord) -> None:
        self._stage("DELETE FROM termini WHERE id = ?", terminus.id)
        self.catalogue.delete_terminus(terminus.id)

    def put_lease(self, lease: LeaseRecord) -> None:
        self._stage(
            "INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?, ?)",
            lease.id,
            lease.vhost,
            lease.queue_id,
            lease.name,
            lease.timeout_ms,
        )
        self._use_id(lease.id)
        self.catalogue.put_lease(lease)

    def delete_lease(self, lease: LeaseRecord) -> None:
        self._stage("DELETE FROM leases WHERE id = ?", lease.id)
        self.catalogue.delete_lease(lease.id)

    def put_stage(self, stage: StageRecord) -> None:
        self._stage("INSERT OR REPLACE INTO stages VALUES (?, ?, ?, ?)", stage.id, stage.vhost, stage.name, stage.user)
        self._use_id(stage.id)
        self.catalogue.put_stage(stage)

    def delete_stage(self, stage: StageRecord) -> None:
        self._stage("DELETE FROM stages WHERE id = ?", stage.id)
        self.catalogue.delete_stage(stage.id)

    def put_secret(self, name: str, value: bytes) -> None:
        self._stage("INSERT OR REPLACE INTO secrets VALUES (?, ?)", name, value)

    def put_reader_offset(self, offset: ReaderOffset) -> None:
        self._stage_place(
            "INSERT OR REPLACE INTO reader_offsets VALUES (?, ?, ?)", offset.queue_id, offset.reader, offset.offset
        )

    def delete_queue(self, vhost: str, name: str) -> None:
        self._stage(
            "DELETE FROM reader_offsets WHERE queue_id IN (SELECT id FROM queues WHERE vhost = ? AND name = ?)",
            vhost,
            name,
        )
        self._stage(
            "DELETE FROM leases WHERE queue_id IN (SELECT id FROM queues WHERE vhost = ? AND name = ?)", vhost, name
        )
        self._stage("DELETE FROM queues WHERE vhost = ? AND name = ?", vhost, name)
        self._stage(
            "DELETE FROM bindings WHERE vhost = ? AND destination = ? AND destination_type = 'queue'", vhost, name
        )
        self.catalogue.delete_queue(vhost, name)

    def put_binding(self, binding: BindingRecord) -> None:
        self._stage(
            "INSERT OR REPLACE INTO bindings (vhost, source, destination, destination_type, routing_key, arguments)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            *_binding_key(binding),
        )

    def delete_binding(self, binding: BindingRecord) -> None:
        self._stage(
            "DELETE FROM bindings WHERE vhost = ? AND source = ? AND destination = ? AND destination_type = ?"
            " AND routing_key = ? AND arguments = ?",
            *_binding_key(binding),
        )


def _binding_key(binding: BindingRecord) -> tuple[object, ...]:
    """Bindings are told apart by all they have, their arguments included."""
    return (
        binding.vhost,
        binding.source,
        binding.destination,
        binding.destination_type,
        binding.routing_key,
        dump_table(binding.arguments),
    )
