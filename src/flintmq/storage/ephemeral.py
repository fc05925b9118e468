"""A disk for ephemeral data: ordinary files without fsync.

The system keeps written bytes in its page cache and writes them to the disk when it needs the memory. A broker whose
data ends with it is therefore as fast as memory, and its data may be larger than memory.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import final

from flintmq.storage.files import DiskFile, RealDisk, RealFile


@final
class EphemeralFile(RealFile):
    def write_through(self, position: int, parts: Sequence[bytes | memoryview]) -> None:
        self.write_at(position, parts)

    def sync(self) -> None:
        return


@final
class EphemeralDisk(RealDisk):
    def sync_directory(self, path: Path) -> None:
        return

    def create(self, path: Path) -> DiskFile:
        return EphemeralFile(path, os.O_CREAT | os.O_RDWR)

    def open(self, path: Path) -> DiskFile:
        return EphemeralFile(path, os.O_RDWR)
