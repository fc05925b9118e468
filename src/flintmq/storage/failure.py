"""What went wrong with the disk: whether it is merely full, and how an operator is told."""

import errno
import sqlite3
from typing import Final, final

_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)


@final
class SyncFailed(OSError):
    """A sync that failed, for whatever reason: what is on the disk is not known any more."""


def sync_failed(error: OSError) -> SyncFailed:
    return SyncFailed(error.errno, error.strerror, error.filename)


def is_full(error: Exception) -> bool:
    """Whether only room is missing: done again once there is some, the same would succeed."""
    if isinstance(error, sqlite3.Error):
        # Its transaction was rolled back. A sync that failed has another code.
        return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL
    return isinstance(error, OSError) and error.errno in _NO_ROOM and not isinstance(error, SyncFailed)


def describe_failure(error: Exception) -> str:
    """What failed, and what to do."""
    if isinstance(error, OSError):
        what = f"cannot write {error.filename}" if error.filename else "cannot write"
        if is_full(error):
            return f"disk full: {what} ({error.strerror}); make room"
        code = errno.errorcode.get(error.errno or 0, "unknown error")
        return f"disk failed: {what} ({code}: {error.strerror}); check the disk and restart the broker"
    if isinstance(error, sqlite3.Error):
        if is_full(error):
            return f"disk full: definitions could not be written ({error}); make room"
        return f"definitions could not be written ({error}); check the disk and restart the broker"
    return f"storage stopped on an internal error ({type(error).__name__}: {error}); restart the broker"
