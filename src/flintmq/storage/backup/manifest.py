"""The manifest of a backup: <backup>/manifest.json lists every other file with its length and SHA-256."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self, final

import msgspec

from flintmq.base.errors import StorageError
from flintmq.storage.block import Damage
from flintmq.storage.files import DiskFile, RealDisk

NAME: Final = "manifest.json"
FORMAT: Final = 1
# Files are read, hashed and written in chunks of this size.
CHUNK_BYTES: Final = 1024 * 1024

# Called with the number of bytes that were processed since the last call.
Progress = Callable[[int], None]


@dataclass(frozen=True)
class BackupFile:
    """A file of a backup. `path` is relative to the backup, with slashes; `bytes` is its length."""

    path: str
    bytes: int
    sha256: str


@final
@dataclass(frozen=True)
class Manifest:
    """The contents of a backup.

    `flintmq` is the version that took the backup, `taken` the time in UTC (ISO 8601), `damage` the parts that were
    already unreadable then.
    """

    format: int
    flintmq: str
    taken: str
    files: tuple[BackupFile, ...]
    damage: tuple[str, ...] = ()

    @property
    def total_bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    def encode(self) -> bytes:
        fields = asdict(self)
        return json.dumps({"manifest": fields, "sha256": _digest(fields)}, indent=1).encode() + b"\n"

    @classmethod
    def load(cls, backup: Path) -> Self:
        """Read and check the manifest of a backup. Raises StorageError if it is missing or malformed."""
        path = backup / NAME
        try:
            document = json.loads(path.read_bytes())
            fields = document["manifest"]
            if fields["format"] != FORMAT:
                raise StorageError(
                    f"{backup} is a backup of format {fields['format']}, this FlintMQ reads {FORMAT}: "
                    f"use the release that took it ({fields['flintmq']})"
                )
            if document["sha256"] != _digest(fields):
                raise StorageError(f"{path} does not match its own checksum: take another backup")
            return msgspec.convert(fields, cls)
        except (FileNotFoundError, NotADirectoryError):
            raise StorageError(
                f"{backup} is not a backup: there is no {NAME} in it; `flintmq storage backup` makes one"
            ) from None
        except OSError as error:
            raise StorageError(f"{path} cannot be read: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, msgspec.ValidationError) as error:
            raise StorageError(f"{path} is damaged ({error}): take another backup") from error


def is_backup(directory: Path) -> bool:
    return (directory / NAME).exists()


def _digest(fields: object) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def check(backup: Path, manifest: Manifest, progress: Progress) -> list[Damage]:
    """Compare the files of a backup with its manifest; return the differences in the order of the files."""
    found: list[Damage] = []
    disk = RealDisk()
    for entry in manifest.files:
        path = backup / entry.path
        try:
            file = disk.open_to_read(path)
        except FileNotFoundError:
            found.append(Damage(str(path), 0, "the file is missing"))
            continue
        try:
            size = file.size()
            if size != entry.bytes:
                found.append(Damage(str(path), min(size, entry.bytes), f"{size} bytes instead of {entry.bytes}"))
            elif digest_of(file, size, progress) != entry.sha256:
                found.append(Damage(str(path), 0, "the file does not match its SHA-256 in the manifest"))
        finally:
            file.close()
    return found


def digest_of(file: DiskFile, size: int, progress: Progress) -> str:
    digest = hashlib.sha256()
    position = 0
    while position < size and (data := file.read_at(position, min(CHUNK_BYTES, size - position))):
        digest.update(data)
        position += len(data)
        progress(len(data))
    return digest.hexdigest()


def copy_file(disk: RealDisk, source: Path, target: Path, size: int, progress: Progress) -> str:
    """Copy the first `size` bytes and sync the copy, but not its directory; return their SHA-256.

    Raises StorageError if the source is shorter, and OSError.
    """
    digest = hashlib.sha256()
    reading = disk.open_to_read(source)
    try:
        writing = disk.create(target)
        try:
            position = 0
            while position < size:
                data = reading.read_at(position, min(CHUNK_BYTES, size - position))
                if not data:
                    raise StorageError(f"{source} became shorter while it was copied: is something else writing to it?")
                writing.write_at(position, [data])
                digest.update(data)
                position += len(data)
                progress(len(data))
            writing.sync()
        finally:
            writing.close()
    finally:
        reading.close()
    return digest.hexdigest()
