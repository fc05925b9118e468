"""Failures of the disk: whether the disk is only full, and the message for the operator."""

import errno
import sqlite3
from typing import Final, final

_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)


@final
class SyncFailed(OSError):
    """A sync failed: it is unknown what is on the disk."""


def sync_failed(error: OSError) -> SyncFailed:
    return SyncFailed(error.errno, error.strerror, error.filename)


def is_full(error: Exception) -> bool:
    """Tell whether only disk space is missing, so that the same operation can succeed later."""
    if isinstance(error, sqlite3.Error):
        # SQLite has rolled back the transaction. A failed sync has another code.
        return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL
    return isinstance(error, OSError) and error.errno in _NO_ROOM and not isinstance(error, SyncFailed)


def describe_failure(error: Exception) -> str:
    """The message for the operator: what failed, and what to do."""
    if isinstance(error, OSError):
        what = f"cannot write {error.filename}" if error.filename else "cannot write"
        if is_full(error):
            return f"disk full: {what} ({error.strerror}); free disk space"
        code = errno.errorcode.get(error.errno or 0, "unknown error")
        return f"disk failed: {what} ({code}: {error.strerror}); check the disk and restart the broker"
    if isinstance(error, sqlite3.Error):
        if is_full(error):
            return f"disk full: definitions could not be written ({error}); free disk space"
        return f"definitions could not be written ({error}); check the disk and restart the broker"
    return f"storage stopped on an internal error ({type(error).__name__}: {error}); restart the broker"
