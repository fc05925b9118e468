"""Operations on the data of a broker that does not run."""

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
    """Bring what the settings define into the data of a broker that does not run; returns remarks about no effect.

    Raises FlintError.
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
    """The definitions of a broker that does not run. Raises FlintError."""
    directory = settings.storage.directory
    if not directory.is_dir():
        raise ConfigurationError(f"there is no data directory {directory}: choose one with --data")
    with stopped(settings) as broker:
        return export_definitions(broker, __version__)


def has_data(directory: Path) -> bool:
    """Whether a broker has kept its messages there."""
    return is_data_directory(directory)


def has_lost_definitions(directory: Path) -> bool:
    """Whether a broker refuses to start there, since nothing says of which queues the messages are."""
    return lacks_definitions(directory)


def backup_of(directory: Path, destination: Path) -> Backup:
    """A backup that is yet to be taken. Raises FlintError."""
    return Backup(directory, destination, __version__)


def verification_of(directory: Path) -> Verification:
    """A check of a data directory, or of a backup, that is yet to be made. Raises FlintError."""
    return Verification(directory)


def dump_of(directory: Path) -> Dump:
    """What is to be read of a data directory, or of a backup. Raises FlintError."""
    return Dump(directory, CODECS)


def rebuild_definitions(settings: Settings, progress: Progress) -> Rebuilt:
    """Make the definitions of a broker that does not run from its messages, and its default user where none is known.

    Raises FlintError.
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
    """Return the manifest of a backup. Raises FlintError."""
    return manifest.Manifest.load(backup)


def restore_backup(backup: Path, directory: Path, progress: Progress) -> None:
    """Make a data directory of a backup. Raises FlintError."""
    restore(backup, directory, manifest_of(backup), progress)


@contextmanager
def stopped(settings: Settings) -> Iterator[Broker]:
    """The broker of a data directory, without its messages. No other may run on it meanwhile."""
    storage = NodeStorage(settings.storage.directory, CODECS, lambda: None)
    try:
        broker = Broker(storage)
        broker.restore(storage.definitions.load())
        yield broker
    finally:
        storage.close()
    if storage.failure:
        raise StorageError(storage.failure)
