"""A file system whose syncs cost nothing, where the system has one with room for the data of tests."""

import shutil
from pathlib import Path
from typing import Final

_SHARED_MEMORY: Final = Path("/dev/shm")
# Containers have 64 MiB there, if nobody asks for more.
_ROOM_BYTES: Final = 2 * 1024 * 1024 * 1024
_HAS_ROOM: Final = _SHARED_MEMORY.is_dir() and shutil.disk_usage(_SHARED_MEMORY).free >= _ROOM_BYTES
IN_MEMORY: Final = _SHARED_MEMORY if _HAS_ROOM else None
