"""Backup of a data directory: a state that the broker had at one moment, copied while it runs. `snapshot.py` explains
why the state is consistent.
"""

import os
import shutil
import sqlite3
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, final

from msgspec import DecodeError, Struct, json

from flintmq.base.errors import StorageError
from flintmq.storage.backup import manifest
from flintmq.storage.backup.hard_links import HardLinks
from flintmq.storage.backup.manifest import BackupFile, Manifest, Progress
from flintmq.storage.backup.snapshot import Snapshot
from flintmq.storage.block import Damage
from flintmq.storage.definitions.database import recovery_advice
from flintmq.storage.files import RealDisk
from flintmq.storage.layout import DEFINITIONS, NODE_STATE, is_data_directory, is_segment
from flintmq.storage.segment_reader import SegmentReader

PARTIAL_SUFFIX: Final = ".partial"


class _NodeState(Struct):
    """What a backup has to know of cluster/state.py."""

    is_whole: bool


@dataclass(frozen=True)
class BackupResult:
    """A finished backup: its manifest, the number of snapshot attempts, and the duration of the snapshot and of the
    whole backup.
    """

    manifest: Manifest
    attempts: int
    snapshot_seconds: float
    seconds: float


@final
class Backup:
    """Takes one backup in a process of its own. The broker may be running or stopped, and is not asked.

    `total` is the number of bytes to copy; it is 0 until the snapshot is taken. Raises StorageError.
    """

    def __init__(self, directory: Path, destination: Path, flintmq: str) -> None:
        if not is_data_directory(directory):
            raise StorageError(f"{directory} is not a data directory of FlintMQ: there is no {DEFINITIONS} in it")
        if not (directory / DEFINITIONS).is_file():
            raise StorageError(f"{directory / DEFINITIONS} is missing: {recovery_advice(directory)}")
        if manifest.is_backup(directory):
            raise StorageError(f"{directory} is a backup itself: copy its files instead")
        if destination.exists() and (not destination.is_dir() or any(destination.iterdir())):
            raise StorageError(f"{destination} already exists and is not empty: choose a new directory for the backup")
        if destination.resolve().is_relative_to(directory.resolve()):
            raise StorageError(f"{destination} is in the broker's directory: choose one outside of it")
        self.total = 0
        self._directory = directory
        self._destination = destination
        self._partial = destination.with_name(f"{destination.name}{PARTIAL_SUFFIX}")
        if self._partial.exists():
            raise StorageError(
                f"{self._partial} exists: another backup is running; if it was interrupted, remove this directory"
            )
        self._flintmq = flintmq
        self._disk = RealDisk()
        self._damage: list[Damage] = []

    def take(self, progress: Progress) -> BackupResult:
        try:
            return self._take(progress)
        except OSError as error:
            raise StorageError(f"{error.filename or self._directory}: {error.strerror or error}") from error
        except sqlite3.Error as error:
            raise StorageError(f"{self._directory / DEFINITIONS} cannot be read ({error})") from error

    def _take(self, progress: Progress) -> BackupResult:
        started = time.monotonic()
        taken = datetime.now(UTC).isoformat(timespec="milliseconds")
        noted = self._require_whole()
        self._disk.make_directory(self._partial)
        links = None
        snapshot = None
        try:
            links = HardLinks(self._directory)
            snapshot = Snapshot(self._directory, links)
            attempts = snapshot.take()
            # A node notes that it is not whole before it changes the first file. It may be whole again by now.
            if self._require_whole() != noted:
                raise StorageError(
                    f"the node of {self._directory} changed its part in the cluster while the snapshot was taken: "
                    "try again"
                )
            self._damage = snapshot.damage
            snapshot_seconds = time.monotonic() - started
            files = [self._copy_definitions(snapshot), *self._copy_files(links, snapshot.ends, progress)]
            result = Manifest(
                manifest.FORMAT, self._flintmq, taken, tuple(files), tuple(repr(damage) for damage in self._damage)
            )
            self._finish(result)
        except BaseException:
            shutil.rmtree(self._partial, ignore_errors=True)
            raise
        finally:
            if snapshot is not None:
                snapshot.close()
            if links is not None:
                links.release()
        return BackupResult(result, attempts, snapshot_seconds, time.monotonic() - started)

    def _require_whole(self) -> int:
        """Return when a node of a cluster noted its state (Unix ns), 0 without a cluster. Raises StorageError if the
        files are being copied from the leader.
        """
        path = self._directory / NODE_STATE
        try:
            with path.open("rb") as file:
                noted = os.fstat(file.fileno()).st_mtime_ns
                state = json.decode(file.read(), type=_NodeState)
        except FileNotFoundError:
            return 0
        except DecodeError as error:
            raise StorageError(f"{path} cannot be read ({error}): back up another node") from error
        if not state.is_whole:
            raise StorageError(
                f"{self._directory} has only some of the leader's files yet: wait until the node is in sync "
                "(`flintmq cluster wait-in-sync`), or back up another node"
            )
        return noted

    def _copy_definitions(self, snapshot: Snapshot) -> BackupFile:
        path = self._partial / DEFINITIONS
        snapshot.copy_definitions(path)
        file = self._disk.open(path)
        try:
            file.sync()
            size = file.size()
            return BackupFile(DEFINITIONS, size, manifest.digest_of(file, size, lambda _: None))
        finally:
            file.close()

    def _copy_files(self, links: HardLinks, ends: dict[str, int], progress: Progress) -> list[BackupFile]:
        sizes = {path: ends.get(path) or links.linked_path(path).stat().st_size for path in sorted(links.paths)}
        self.total = sum(sizes.values())
        files: list[BackupFile] = []
        for path, size in sizes.items():
            end = size if path in ends or not is_segment(path) else self._end(links.linked_path(path), path)
            target = self._partial / path
            self._disk.make_directory(target.parent)
            files.append(
                BackupFile(path, end, manifest.copy_file(self._disk, links.linked_path(path), target, end, progress))
            )
            self._disk.sync_directory(target.parent)
            # Bytes after the end are from an earlier use of the file and are not copied.
            progress(size - end)
        return files

    def _end(self, place: Path, path: str) -> int:
        """The end of a segment that was fully synced."""
        file = self._disk.open_to_read(place)
        try:
            reader = SegmentReader(file, path)
            for _ in reader.blocks(reader.size):
                pass
            self._damage += reader.damage
            return reader.end if reader.sealed else reader.size
        finally:
            file.close()

    def _finish(self, result: Manifest) -> None:
        """Write the manifest, sync it, and give the backup its final name."""
        file = self._disk.create(self._partial / manifest.NAME)
        try:
            file.write_at(0, [result.encode()])
            file.sync()
        finally:
            file.close()
        self._disk.sync_directory(self._partial)
        self._disk.rename(self._partial, self._destination)
        self._disk.sync_directory(self._destination.parent)
