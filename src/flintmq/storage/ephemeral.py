"""A disk for temporary data: files without syncs.

Written data stays in the memory of the system, which writes it to the disk when it needs the memory. So a broker whose
data is temporary is as fast as memory, and can hold more than the memory.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import final

from flintmq.storage.files import DiskFile, RealDisk, RealFile


@final
class EphemeralFile(RealFile):
    def write_through(self, position: int, parts: Sequence[bytes]) -> None:
        self.write_at(position, parts)

    def truncate(self, size: int) -> None:
        os.truncate(self._descriptor, size)

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
