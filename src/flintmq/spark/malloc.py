"""What tasks on executors do with memory: chunks and batches of some MiB come and go all the time."""

import ctypes
from contextlib import suppress
from typing import Final

# glibc's malloc.h.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
# Of freed memory, so much stays with the process.
_KEPT_BYTES: Final = 64 * 1024 * 1024
# What is larger has pages of its own, which go back; glibc takes no higher number.
_OWN_PAGES_BYTES: Final = 32 * 1024 * 1024


def keep_freed_memory() -> None:
    """Have malloc keep what is freed. Given back, it comes again a page at a time, which costs a task more than a tenth
    of its time. Other C libraries than glibc do as they like.
    """
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _OWN_PAGES_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
