"""Rebuild of definitions.sqlite from journal and streams, if it is lost, damaged or too old.

The old file is used for everything that journal and streams do not have, and is kept in the quarantine.
"""

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from flintmq.base.errors import StorageError
from flintmq.base.json_values import from_json
from flintmq.broker.delayed.messages import DELAYED_QUEUE_PREFIX
from flintmq.broker.message import Table
from flintmq.broker.ports import (
    Definitions,
    ExchangeRecord,
    LeaseRecord,
    QueueRecord,
    StageRecord,
    TerminusRecord,
    VHostRecord,
)
from flintmq.storage.backup.manifest import Progress, copy_file
from flintmq.storage.definitions.catalogue import (
    EXCHANGE,
    LEASE,
    QUEUE,
    STAGE,
    TERMINUS,
    VHOST,
)
from flintmq.storage.definitions.database import DefinitionDatabase
from flintmq.storage.definitions.store import SqliteDefinitions
from flintmq.storage.files import RealDisk
from flintmq.storage.inspection.directory import DataDirectory
from flintmq.storage.layout import DEFINITIONS
from flintmq.storage.quarantine import DEFINITIONS_PREFIX
from flintmq.storage.quarantine import DIRECTORY as QUARANTINE
from flintmq.storage.rebuild.evidence import Evidence

# The virtual host and the name prefix of recovered queues whose names are unknown.
UNNAMED_VHOST: Final = "/"
UNNAMED_PREFIX: Final = "recovered-"
_DRAFT: Final = f"{DEFINITIONS}-rebuilt"
_RECORDS: Final[dict[str, type[Any]]] = {
    VHOST: VHostRecord,
    EXCHANGE: ExchangeRecord,
    QUEUE: QueueRecord,
    TERMINUS: TerminusRecord,
    LEASE: LeaseRecord,
    STAGE: StageRecord,
}


@dataclass(frozen=True)
class Rebuilt:
    """The result of a rebuild.

    `unnamed` lists the queues whose names were made up; `kept_in` is the directory with the old file, None if there was
    none. `had_base` says that the old file could be read, so that users, rules and bindings come from it.
    """

    definitions: Definitions
    unnamed: list[str]
    kept_in: Path | None
    had_base: bool


def rebuild(path: Path, progress: Progress) -> Rebuilt:
    """Rebuild the definitions in the data directory of a stopped broker. Raises StorageError, also if the definitions
    are intact.
    """
    directory = DataDirectory(path)
    if directory.is_backup:
        raise StorageError(f"{path} is a backup: restore it first, or use another directory")
    lock = RealDisk().lock(path / "lock")
    try:
        evidence = Evidence()
        evidence.read(directory, progress)
        return _rebuild(path, evidence)
    except OSError as error:
        raise StorageError(f"{error.filename or path}: {error.strerror or error}") from error
    finally:
        lock.release()


def _rebuild(path: Path, evidence: Evidence) -> Rebuilt:
    draft = path / _DRAFT
    database, base = _open_base(path, draft, evidence)
    store = SqliteDefinitions(database)
    found = store.load()
    unnamed = _put_all(store, found, evidence)
    database.marks(lambda: evidence.identity)
    numbers = {"generation": evidence.newest.generation if evidence.newest else 0, "next_queue_id": evidence.highest_id}
    statements = store.take()
    for name, number in numbers.items():
        statements.append(("UPDATE meta SET value = max(value, ?) WHERE key = ?", (number + 1, name)))
    database.apply(statements)
    rebuilt = database.load()
    database.close_as_single_file()
    kept_in = _put_in_place(path, draft)
    return Rebuilt(rebuilt, unnamed, kept_in, base)


def _open_base(path: Path, draft: Path, evidence: Evidence) -> tuple[DefinitionDatabase, bool]:
    """Open a copy of the old definitions if it can be read and belongs to this data, otherwise an empty database;
    return it, and whether it is a copy.
    """
    _remove(draft)
    for suffix in ("", "-wal"):
        with suppress(FileNotFoundError):
            shutil.copyfile(path / f"{DEFINITIONS}{suffix}", draft.with_name(f"{draft.name}{suffix}"))
    database = _readable(draft)
    if database is not None:
        marks = database.marks(lambda: evidence.identity)
        newest = evidence.newest
        if newest is None or newest.identity == marks.identity:
            is_new = newest is None or newest.generation <= marks.generation
            if is_new and evidence.highest_id < database.load().next_queue_id:
                database.close()
                _remove(draft)
                raise StorageError(
                    f"the definitions in {path} are intact and as new as its messages: no need to rebuild"
                )
            return database, True
        database.close()
    _remove(draft)
    return DefinitionDatabase(draft), False


def _readable(draft: Path) -> DefinitionDatabase | None:
    """Open a database; None if it is blank or damaged."""
    try:
        database = DefinitionDatabase(draft)
    except StorageError:
        return None
    try:
        if not database.is_blank:
            database.load()
            return database
    except StorageError:
        pass
    database.close()
    return None


def _put_all(store: SqliteDefinitions, found: Definitions, evidence: Evidence) -> list[str]:
    """Stage all known definitions; return the queues whose names were made up."""
    _delete_gone(store, found, evidence)
    records = [(key[0], _record_of(entry)) for key, entry in evidence.known.items()]
    queues = {record.id: record for kind, record in records if kind == QUEUE}
    queues |= {queue.id: queue for queue in found.queues if not evidence.was_deleted((QUEUE, queue.id))}
    names = {(queue.vhost, queue.name) for queue in queues.values()}
    unnamed: list[str] = []
    for queue_id in sorted({*evidence.streams, *evidence.live}):
        if queue_id not in queues and not evidence.was_deleted((QUEUE, queue_id)):
            name = f"{UNNAMED_PREFIX}{queue_id}"
            while (UNNAMED_VHOST, name) in names:
                name += "-"
            arguments: Table = {"x-queue-type": "stream"} if queue_id in evidence.streams else {}
            records.append((QUEUE, QueueRecord(queue_id, UNNAMED_VHOST, name, arguments=arguments)))
            unnamed.append(name)
    for kind, record in [*_missing_around(records, found), *records]:
        _put(store, kind, record)
    return unnamed


def _missing_around(records: list[tuple[str, Any]], found: Definitions) -> list[tuple[str, Any]]:
    """Virtual hosts and delayed-message exchanges that are unknown themselves, but whose objects are known."""
    vhosts = {record.name for kind, record in records if kind == VHOST} | {vhost.name for vhost in found.vhosts}
    exchanges = {(record.vhost, record.name) for kind, record in records if kind == EXCHANGE}
    exchanges |= {(exchange.vhost, exchange.name) for exchange in found.exchanges}
    missing: list[tuple[str, Any]] = []
    for kind, record in records:
        if kind != VHOST and record.vhost not in vhosts:
            vhosts.add(record.vhost)
            missing.append((VHOST, VHostRecord(record.vhost)))
        name = record.name.removeprefix(DELAYED_QUEUE_PREFIX) if kind == QUEUE else ""
        if name and name != record.name and (record.vhost, name) not in exchanges:
            arguments: Table = {"x-delayed-type": "topic"}
            missing.append((EXCHANGE, ExchangeRecord(record.vhost, name, "x-delayed-message", arguments=arguments)))
    return missing


def _delete_gone(store: SqliteDefinitions, found: Definitions, evidence: Evidence) -> None:
    """Delete what the old definitions still have, but which was deleted since."""
    for lease in found.leases:
        if evidence.was_deleted((LEASE, lease.id)):
            store.delete_lease(lease)
    for terminus in found.termini:
        if evidence.was_deleted((TERMINUS, terminus.id)):
            store.delete_terminus(terminus)
    for stage in found.stages:
        if evidence.was_deleted((STAGE, stage.id)):
            store.delete_stage(stage)
    for queue in found.queues:
        if evidence.was_deleted((QUEUE, queue.id)):
            store.delete_queue(queue.vhost, queue.name)
    for exchange in found.exchanges:
        if evidence.was_deleted((EXCHANGE, (exchange.vhost, exchange.name))):
            store.delete_exchange(exchange.vhost, exchange.name)
    for vhost in found.vhosts:
        if evidence.was_deleted((VHOST, vhost.name)):
            store.delete_vhost(vhost.name)


def _put(store: SqliteDefinitions, kind: str, record: Any) -> None:  # noqa: ANN401 - one of six
    puts: dict[str, Callable[[Any], None]] = {
        VHOST: store.put_vhost,
        EXCHANGE: store.put_exchange,
        QUEUE: store.put_queue,
        TERMINUS: store.put_terminus,
        LEASE: store.put_lease,
        STAGE: store.put_stage,
    }
    puts[kind](record)


def _record_of(entry: dict[str, Any]) -> Any:  # noqa: ANN401 - one of six
    record = _RECORDS[entry["kind"]]
    given = {field.name: entry[field.name] for field in fields(record) if field.name in entry}
    if "arguments" in given:
        given["arguments"] = {name: from_json(value) for name, value in given["arguments"].items()}
    if "configuration" in given:
        given["configuration"] = bytes.fromhex(given["configuration"])
    if "tags" in given:
        given["tags"] = tuple(given["tags"])
    return record(**given)


def _remove(draft: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        draft.with_name(f"{draft.name}{suffix}").unlink(missing_ok=True)


def _put_in_place(path: Path, draft: Path) -> Path | None:
    """Copy the old file to the quarantine, then replace it by the new one; return the directory of the copy."""
    disk = RealDisk()
    old = path / DEFINITIONS
    files = [file for suffix in ("", "-wal") if (file := old.with_name(f"{old.name}{suffix}")).exists()]
    kept_in = _keep(disk, path / QUARANTINE, files) if files else None
    for suffix in ("-wal", "-shm"):
        old.with_name(f"{old.name}{suffix}").unlink(missing_ok=True)
    disk.sync_directory(path)
    disk.rename(draft, old)
    disk.sync_directory(path)
    return kept_in


def _keep(disk: RealDisk, quarantine: Path, files: list[Path]) -> Path:
    """Copy files to a new directory in the quarantine. They are copied, not moved, so that a crash leaves them in
    place.
    """
    disk.make_directory(quarantine)
    number = 1
    while (kept_in := quarantine / f"{DEFINITIONS_PREFIX}{number}").exists():
        number += 1
    disk.make_directory(kept_in)
    for file in files:
        copy_file(disk, file, kept_in / file.name, file.stat().st_size, lambda _: None)
    disk.sync_directory(kept_in)
    return kept_in
