"""What the C library keeps of freed memory, and how it gives it back. Libraries other than glibc are left alone."""

import ctypes
from typing import Final

# Numbers of options, from glibc's malloc.h.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
# Larger blocks are mapped one by one, and unmapped when they are freed. glibc would raise this limit to the largest
# block that was freed: then the 19 MiB of the first password hash would stay in the heap of its thread for ever.
_MAPPED_BYTES: Final = 4 * 1024 * 1024
# Freed memory that stays at the end of a heap: as much as glibc keeps with that limit. Without it, a heap would shrink
# and grow with each message of some size.
_KEPT_BYTES: Final = 2 * _MAPPED_BYTES

# The fields of struct mallinfo2.
_INFO: Final = (
    "arena",
    "ordblks",
    "smblks",
    "hblks",
    "hblkhd",
    "usmblks",
    "fsmblks",
    "uordblks",
    "fordblks",
    "keepcost",
)
_LIBRARY: Final = ctypes.CDLL(None)


class _Info(ctypes.Structure):
    """struct mallinfo2, in bytes."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in _INFO)


def bound() -> None:
    """Give large blocks back when they are freed. For a process that is only a broker."""
    set_option = getattr(_LIBRARY, "mallopt", None)
    if set_option is not None:
        set_option(_M_MMAP_THRESHOLD, _MAPPED_BYTES)
        set_option(_M_TRIM_THRESHOLD, _KEPT_BYTES)


def free_bytes() -> int:
    """Return the bytes of free blocks in the heaps, whether the system has their memory or not; 0 if unknown."""
    ask = getattr(_LIBRARY, "mallinfo2", None)
    if ask is None:
        return 0
    ask.restype = _Info
    info: _Info = ask()
    return int(info.fordblks)


def trim() -> None:
    """Return the memory of free blocks to the system."""
    give_back = getattr(_LIBRARY, "malloc_trim", None)
    if give_back is not None:
        give_back(0)
