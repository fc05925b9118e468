"""Settings of the C library's malloc for tasks on executors, which allocate and free blocks of some MiB constantly."""

import ctypes
from contextlib import suppress
from typing import Final

# Numbers of options, from glibc's malloc.h.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
# The freed memory that the process keeps at the end of its heap.
_KEPT_BYTES: Final = 64 * 1024 * 1024
# Larger blocks have their own pages, which are returned when they are freed. glibc accepts no higher number.
_MMAP_BYTES: Final = 32 * 1024 * 1024


def keep_freed_memory() -> None:
    """Tell malloc to keep freed memory instead of returning it to the system.

    The system would give returned memory back page by page, which costs a task more than a tenth of its time. Other C
    libraries than glibc ignore the setting.
    """
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _MMAP_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
