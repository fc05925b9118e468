"""Memory and disk alarms, during which publishers have to wait so that consumers can make room.

A check takes microseconds, so checks are frequent: at full speed, writes use up the disk reserve within seconds.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from flintmq.server import heap, logs
from flintmq.server.config import AlarmSettings

log = logs.get_logger()

# The interval between checks. At 200 MB/s, a tenth of the default disk reserve is written in this time.
CHECK_SECONDS: Final = 0.1
# A change of the freed memory between two looks from which on memory counts as in use.
_QUIET_BYTES: Final = 1024 * 1024
# The freed memory that the C library may keep. Returning it takes 100 ms per gigabyte, so 6 ms for this much.
_KEPT_BYTES: Final = 64 * 1024 * 1024
# From this part of the memory limit on, queues are asked to page out.
_RELIEF_PART: Final = 0.75
# The least time between two such requests, and the interval at which freed memory is returned.
_RELIEF_SECONDS: Final = 2.0
# To find what is free, the C library visits each free block, and nobody is served meanwhile: the next look comes after
# so many times as long.
_REST: Final = 1000.0
_STATM: Final = Path("/proc/self/statm")
# Files with the memory limit of a container, of both generations of control groups.
_CGROUP_LIMITS: Final = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def used_memory() -> int:
    """Return the resident memory of this process in bytes; 0 if the system does not provide it."""
    try:
        pages = int(_STATM.read_bytes().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def whole_memory() -> int:
    """Return the memory of this machine or container in bytes."""
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in _CGROUP_LIMITS:
        try:
            whole = min(whole, int(path.read_text()))
        except (OSError, ValueError):
            # There is no such control group, or it has no limit ("max").
            continue
    return whole


def free_disk(directory: Path) -> int:
    """Return the bytes that a process without privileges can still write to this file system."""
    stat = os.statvfs(directory)
    return stat.f_bavail * stat.f_frsize


def memory_bytes(share: float) -> int:
    """Return the bytes of a memory setting: up to 1 it is a fraction of the memory, above 1 it is bytes."""
    return int(share * whole_memory() if share <= 1 else share)


class Alarms:
    """The memory alarm and the disk alarm.

    `backlog_bytes` returns the bytes that wait to be written to the disk, `full` the reason why they cannot be
    written, or "". `page_out` makes queues keep as little in memory as possible. The other functions are those above,
    or those of a test.
    """

    def __init__(
        self,
        settings: AlarmSettings,
        directory: Path,
        backlog_bytes: Callable[[], int],
        full: Callable[[], str],
        page_out: Callable[[], None],
        *,
        used_memory: Callable[[], int] = used_memory,
        free_disk: Callable[[Path], int] = free_disk,
        free_heap: Callable[[], int] = heap.free_bytes,
        trim: Callable[[], None] = heap.trim,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.configure(settings)
        # The values of the last check.
        self.memory_bytes = 0
        self.disk_free_bytes = 0
        self._directory = directory
        self._backlog_bytes = backlog_bytes
        self._full = full
        self._page_out = page_out
        self._used_memory = used_memory
        self._free_disk = free_disk
        self._free_heap = free_heap
        self._trim = trim
        self._clock = clock
        self._relieved_at = clock() - _RELIEF_SECONDS
        # When the next look at freed memory is due.
        self._look_at = clock()
        # The lowest value of `free_heap` since memory was last returned: the system has that much of it.
        self._returned_bytes = 0
        # The value of `free_heap` at the last look, and whether memory was returned while some was still being freed.
        self._free_bytes = 0
        self._is_unfinished = False
        self._reason = ""
        self._is_blind = False

    def configure(self, settings: AlarmSettings) -> None:
        """Use these settings from the next check on."""
        self.memory_max_bytes = memory_bytes(settings.memory_high_watermark)
        self.disk_min_bytes = settings.disk_free_min_bytes

    def check(self) -> str:
        """Return why publishers have to wait, in RabbitMQ's words; empty if they need not."""
        self._return_freed()
        memory = self._used_memory()
        is_much = memory > self.memory_max_bytes * _RELIEF_PART
        if is_much and self._clock() - self._relieved_at >= _RELIEF_SECONDS:
            self._page_out()
            self._return()
            self._relieved_at = self._clock()
            memory = self._used_memory()
        disk = self._disk_left()
        self.memory_bytes = memory
        self.disk_free_bytes = disk
        low = []
        if memory > self.memory_max_bytes:
            low.append("memory")
        # A quota can make the disk full for this process while others have room.
        full = self._full()
        if full or disk < self.disk_min_bytes:
            low.append("disk")
        reason = f"low on {' & '.join(low)}" if low else ""
        if reason != self._reason:
            self._reason = reason
            facts = {
                "memory_bytes": memory,
                "memory_max_bytes": self.memory_max_bytes,
                "disk_free_bytes": disk,
                "disk_free_min_bytes": self.disk_min_bytes,
            }
            if full:
                log.error("publishers have to wait", reason=reason, cause=full, **facts)
            elif reason:
                log.warning("publishers have to wait", reason=reason, **facts)
            else:
                log.info("publishers may go on", **facts)
        return reason

    def _return_freed(self) -> None:
        """Return freed memory to the system if it is much: after a flood of messages, the C library would keep it."""
        now = self._clock()
        if now < self._look_at:
            return
        free = self._free_heap()
        self._look_at = now + max(_RELIEF_SECONDS, (self._clock() - now) * _REST)
        is_quiet = abs(free - self._free_bytes) < _QUIET_BYTES
        self._free_bytes = free
        self._returned_bytes = min(self._returned_bytes, free)
        if free - self._returned_bytes >= _KEPT_BYTES:
            self._return()
            self._is_unfinished = True
        elif is_quiet and self._is_unfinished:
            # Between two looks, blocks that were returned can be used and freed again: `free_heap` does not show that.
            self._return()
            self._is_unfinished = False

    def _return(self) -> None:
        self._trim()
        self._returned_bytes = self._free_heap()

    def _disk_left(self) -> int:
        """Return the free bytes of the disk, less those that wait to be written."""
        try:
            free = self._free_disk(self._directory)
        except OSError as error:
            if not self._is_blind:
                self._is_blind = True
                log.warning("cannot see how full the disk is", directory=str(self._directory), reason=str(error))
            return self.disk_min_bytes
        self._is_blind = False
        return free - self._backlog_bytes()
