"""Operations on the data directory of a stopped broker."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flintmq import __version__
from flintmq.app.definitions import add_default_user, define
from flintmq.app.runtime_environment import CODECS
from flintmq.base.errors import ConfigurationError, StorageError
from flintmq.broker.broker import Broker
from flintmq.gateway.audit import AuditEvent
from flintmq.management.definitions.exporter import export_definitions
from flintmq.server.audit import AuditLog
from flintmq.server.auth import hash_unless_known
from flintmq.server.config import Settings
from flintmq.storage.backup import manifest
from flintmq.storage.backup.backup import Backup
from flintmq.storage.backup.manifest import Manifest, Progress
from flintmq.storage.backup.restore import restore
from flintmq.storage.inspection.dump import Dump
from flintmq.storage.inspection.verification import Verification
from flintmq.storage.layout import JOURNAL, is_data_directory, lacks_definitions
from flintmq.storage.node import NodeStorage
from flintmq.storage.rebuild.rebuild import Rebuilt, rebuild


def import_definitions_into(settings: Settings) -> list[str]:
    """Apply the definitions of the settings to the data of a stopped broker; return remarks about parts without effect.

    Raises FlintError if the data cannot be opened, or the definitions are wrong.
    """
    with stopped(settings) as broker:
        remarks = define(broker, settings, hash_unless_known)
        audit = AuditLog(settings.log.audit_file)
        file = settings.definitions.load
        audit.record(
            AuditEvent(f"uid {os.getuid()}", "", "cli", "", "definitions.import", "" if file is None else str(file))
        )
        audit.close()
        return remarks


def export_definitions_from(settings: Settings) -> dict[str, object]:
    """Return the definitions of a stopped broker. Raises FlintError if its data cannot be opened."""
    directory = settings.storage.directory
    if not directory.is_dir():
        raise ConfigurationError(f"there is no data directory {directory}: choose one with --data")
    with stopped(settings) as broker:
        return export_definitions(broker, __version__)


def has_data(directory: Path) -> bool:
    """Return whether the directory has the data of a broker."""
    return is_data_directory(directory)


def has_lost_definitions(directory: Path) -> bool:
    """Return whether the directory has messages without definitions, so that no broker starts there."""
    return lacks_definitions(directory)


def backup_of(directory: Path, destination: Path) -> Backup:
    """Return a backup that is ready to be taken. Raises FlintError if that is not possible."""
    return Backup(directory, destination, __version__)


def verification_of(directory: Path) -> Verification:
    """Return a verification, ready to run, of a data directory or backup. Raises FlintError if it is neither."""
    return Verification(directory)


def dump_of(directory: Path) -> Dump:
    """Return a dump, ready to run, of a data directory or backup. Raises FlintError if it is neither."""
    return Dump(directory, CODECS)


def rebuild_definitions(settings: Settings, progress: Progress) -> Rebuilt:
    """Rebuild the definitions of a stopped broker from its messages; create the default user if no user is known.

    Raises FlintError if the definitions are intact, or the data cannot be read.
    """
    rebuilt = rebuild(settings.storage.directory, progress)
    if not rebuilt.definitions.users:
        with stopped(settings) as broker:
            add_default_user(broker, settings, hash_unless_known)
            broker.storage.commit()
    return rebuilt


def size_of_journal(directory: Path) -> int:
    return sum(path.stat().st_size for path in (directory / JOURNAL).glob("*.journal"))


def manifest_of(backup: Path) -> Manifest:
    """Return the manifest of a backup. Raises FlintError if it cannot be read."""
    return manifest.Manifest.load(backup)


def restore_backup(backup: Path, directory: Path, progress: Progress) -> None:
    """Restore a backup into a data directory. Raises FlintError if that is not possible."""
    restore(backup, directory, manifest_of(backup), progress)


@contextmanager
def stopped(settings: Settings) -> Iterator[Broker]:
    """Open the data directory of a stopped broker; yield the broker, without its messages.

    Raises FlintError if a broker is running on the directory, or it cannot be opened.
    """
    storage = NodeStorage(settings.storage.directory, CODECS, lambda: None)
    try:
        broker = Broker(storage)
        broker.restore(storage.definitions.load())
        yield broker
    finally:
        storage.close()
    if storage.failure:
        raise StorageError(storage.failure)
