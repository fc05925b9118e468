"""Definitions on the simulated disk. SQLite brings its own files, and cannot be told to write elsewhere from Python, so
the file is what it promises to be: an in-memory database that outlives the broker, on which a transaction is durable
exactly when COMMIT has returned. When power fails within one, it is there as a whole or not at all. After a COMMIT
whose sync failed, the transaction may be in the log that a start reads, and not on the disk: its log is a file of the
simulated disk, which says only whether that transaction outlives a power loss.

What is left out, then, is SQLite's own crash safety. Everything of ours is there: what is a transaction with what, what
waits for it, and what happens when it fails.
"""

import errno
import random
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, final

from flintmq.storage.definitions.database import LOG_SUFFIX, DefinitionDatabase, Statement
from tests.sim.disk import PowerLoss, SimulatedDisk


@final
class _Connection(sqlite3.Connection):
    """Asks before each COMMIT whether it may; is never closed."""

    before_commit: Callable[[], None] | None = None
    # What was there when the present transaction began.
    before = b""

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:  # noqa: ANN401 - as in its base
        if sql == "COMMIT" and self.before_commit is not None:
            self.before_commit()
        if sql == "BEGIN IMMEDIATE":
            self.before = self.serialize()
        return super().execute(sql, parameters)

    def close(self) -> None:
        pass


@final
class DatabaseFile:
    """What is on the disk. `trouble` is called with "commit" and may raise."""

    def __init__(self, chance: random.Random, disk: SimulatedDisk, path: Path) -> None:
        self.trouble: Callable[[str, str], None] | None = None
        self._random = chance
        self._disk = disk
        self._log = path.with_name(path.name + LOG_SUFFIX)
        # The content of the log with the transaction that may not be on the disk, and what is there without it.
        self._doubtful = b""
        self._without = b""
        self._connection = sqlite3.connect(
            ":memory:", isolation_level=None, check_same_thread=False, factory=_Connection, cached_statements=256
        )
        self._connection.before_commit = self._before_commit

    def _before_commit(self) -> None:
        if self.trouble is None:
            return
        try:
            self.trouble("commit", "definitions.sqlite")
        except OSError as error:
            if error.errno == errno.EIO and self._random.random() < 0.5:
                # It was written, and its sync failed.
                self._doubtful = self._random.randbytes(8)
                self._without = self._connection.before
                sqlite3.Connection.execute(self._connection, "COMMIT")
                self._disk.show_unwritten(self._log, self._doubtful)
            raise sqlite3.OperationalError(f"disk I/O error ({error.strerror})") from error
        except PowerLoss:
            if self._random.random() < 0.5:
                # It got there, and nobody was told.
                sqlite3.Connection.execute(self._connection, "COMMIT")
            raise

    def open(self, path: Path, told: Callable[[Sequence[Statement]], None] | None = None) -> DefinitionDatabase:
        """As it is found at a start: a transaction that was open is not there."""
        self._roll_back()
        return DefinitionDatabase(path, lambda _: self._connection, told=told)

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            sqlite3.Connection.execute(self._connection, "ROLLBACK")

    def copy(self) -> bytes:
        """What others may read, while a transaction may be open."""
        connection = self._connection
        return connection.before if connection.in_transaction else connection.serialize()

    def replace(self, content: bytes) -> None:
        """Have this content, durably."""
        self._roll_back()
        self._connection.deserialize(content)
        self._doubtful = b""

    def lose_power(self) -> None:
        """To be called when the disk has lost its own."""
        if self._doubtful and self._disk.content(self._log) != self._doubtful:
            self._roll_back()
            self._connection.deserialize(self._without)
        if self._doubtful:
            self._disk.forget(self._log)
        self._doubtful = b""

    def image(self) -> str:
        return "\n".join(self._connection.iterdump())

    def discard(self) -> None:
        sqlite3.Connection.close(self._connection)
